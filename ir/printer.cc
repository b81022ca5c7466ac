// The module level of the printer: header, computations, instructions.
#include "ir/printer.h"

#include <algorithm>

#include "ir/async_sugar.h"
#include "ir/literal_text.h"
#include "ir/module_printer.h"
#include "ir/sharding_text.h"
#include "ir/text_hash.h"
#include "ir/utf8.h"
#include "tsl/robin_set.h"

namespace gshard {
namespace {

// Without ".12" endings.
std::string_view RootOf(std::string_view name) {
  while (true) {
    const size_t dot = name.rfind('.');
    if (dot == name.npos || dot == 0 || dot + 1 == name.size() ||
        name.find_first_not_of("0123456789", dot + 1) != name.npos) {
      return name;
    }
    name = name.substr(0, dot);
  }
}

// Roots in order of appearance; the k-th use of one (k > 1) is numbered k.
class ShortNames {
 public:
  std::string Next(std::string_view name) {
    const std::string_view root = RootOf(name);
    const int use = ++uses_[root];
    std::string result(root);
    if (use > 1) result.append(1, '.').append(std::to_string(use));
    return result;
  }

 private:
  tsl::robin_map<std::string_view, int, TextHash> uses_;
};

// Words that are names only after '%'.
bool IsReserved(std::string_view name) {
  constexpr std::string_view kWords[] = {
      "true",          "false",      "inf",        "nan",         "HloModule",
      "ENTRY",         "ROOT",       "FileNames",  "StackFrames", "FunctionNames",
      "FileLocations", "maximal",    "replicated", "manual",      "last_tile_dim_replicate",
      "shard_as",      "shard_like", "unknown",    "unreduced"};
  return std::find(std::begin(kWords), std::end(kWords), name) != std::end(kWords) ||
         DTypeFromName(name).has_value();
}

}  // namespace

void ModulePrinter::ShortenNames() {
  short_names_ = true;
  short_name_of_.resize(module_.instruction_limit());
  ShortNames computation_names;
  for (const Computation* computation : module_.computations()) {
    short_computation_name_of_[computation] = computation_names.Next(computation->name());
    ShortNames names;
    for (const Instruction* instruction : computation->instructions()) {
      short_name_of_[instruction->id()] = names.Next(instruction->name());
    }
  }
}

std::string_view ModulePrinter::NameOf(const Instruction& instruction) const {
  return short_names_ ? short_name_of_[instruction.id()] : instruction.name();
}

std::string_view ModulePrinter::NameOf(const Computation& computation) const {
  if (short_names_) {
    if (const auto it = short_computation_name_of_.find(&computation);
        it != short_computation_name_of_.end()) {
      return it->second;
    }
  }
  return computation.name();
}

void ModulePrinter::PrintSeparator(size_t i) {
  if (i == 0) return;
  out_ += ", ";
  if (i % 5 != 0) return;
  out_ += "/*index=";
  PrintInteger(i);
  out_ += "*/";
}

void ModulePrinter::PrintAll() {
  // Computations that the short spelling of asynchronous operations hides.
  tsl::robin_set<const Computation*> hidden;
  tsl::robin_set<const Computation*> shown;
  for (const Computation* computation : module_.computations()) {
    for (const Instruction* instruction : computation->instructions()) {
      const bool hides =
          instruction->opcode() == Opcode::kAsyncStart && WrappedOperation(instruction) != nullptr;
      for (const Computation* called : instruction->called()) {
        (hides ? hidden : shown).insert(called);
      }
    }
  }
  PrintHeader();
  if (options_.metadata && !module_.debug_tables().empty()) {
    out_ += '\n';
    out_ += module_.debug_tables();
    out_ += "\n";
  }
  for (const Computation* computation : module_.computations()) {
    if (hidden.contains(computation) && !shown.contains(computation)) continue;
    out_ += '\n';
    Print(*computation);
  }
}

void ModulePrinter::PrintIndex(std::span<const int64_t> index) {
  out_ += '{';
  for (size_t i = 0; i < index.size(); ++i) {
    if (i > 0) out_ += ',';
    PrintInteger(index[i]);
  }
  out_ += '}';
}

void ModulePrinter::PrintHeader() {
  const ModuleHeader& header = module_.header();
  out_ += IsReserved(module_.name()) ? "HloModule %" : "HloModule ";
  out_ += module_.name();
  if (header.is_scheduled) out_ += ", is_scheduled=true";
  if (!header.input_output_alias.empty()) {
    out_ += ", input_output_alias={ ";
    for (size_t i = 0; i < header.input_output_alias.size(); ++i) {
      const ModuleHeader::Alias& alias = header.input_output_alias[i];
      if (i > 0) out_ += ", ";
      PrintIndex(alias.output_index);
      out_ += ": (";
      PrintInteger(alias.parameter);
      out_ += ", ";
      PrintIndex(alias.parameter_index);
      out_ += alias.must_alias ? ", must-alias)" : ", may-alias)";
    }
    out_ += " }";
  }
  if (!header.buffer_donor.empty()) {
    out_ += ", buffer_donor={ ";
    for (size_t i = 0; i < header.buffer_donor.size(); ++i) {
      out_ += i > 0 ? ", (" : "(";
      PrintInteger(header.buffer_donor[i].parameter);
      out_ += ", ";
      PrintIndex(header.buffer_donor[i].index);
      out_ += ')';
    }
    out_ += " }";
  }
  if (header.alias_passthrough_params.value_or(false)) out_ += ", alias_passthrough_params=true";
  if (header.entry_result_layout != nullptr) {
    out_ += ", entry_computation_layout={(";
    for (size_t i = 0; i < header.entry_parameter_layouts.size(); ++i) {
      PrintSeparator(i);
      PrintShape(header.entry_parameter_layouts[i]);
    }
    out_ += ")->";
    PrintShape(header.entry_result_layout);
    out_ += '}';
  }
  auto print_bools = [this](std::string_view name, const std::vector<bool>& values) {
    if (values.empty()) return;
    out_ += name;
    for (size_t i = 0; i < values.size(); ++i) {
      if (i > 0) out_ += ',';
      out_ += values[i] ? "true" : "false";
    }
    out_ += '}';
  };
  print_bools(", allow_spmd_sharding_propagation_to_parameters={",
              header.propagation_to_parameters);
  print_bools(", allow_spmd_sharding_propagation_to_output={", header.propagation_to_output);
  auto print_count = [this](std::string_view name, int64_t count) {
    if (count == 1) return;
    out_ += name;
    PrintInteger(count);
  };
  print_count(", replica_count=", header.replica_count);
  print_count(", num_partitions=", header.num_partitions);
  auto print_raw = [this](std::string_view name, std::string_view text) {
    if (text.empty()) return;
    out_ += name;
    out_ += text;
  };
  print_raw(", frontend_attributes=", header.frontend_attributes);
  if (options_.named && !header.meshes.empty()) {
    out_ += ", meshes=";
    out_ += ToString(header.meshes);
  }
  if (options_.metadata) {
    print_raw(", origin_recovery_table=", header.origin_recovery_table);
    print_raw(", debug_attributes=", header.debug_attributes);
  }
  out_ += '\n';
}

// (p: f32[8], q: s32[]) -> f32[8]
void ModulePrinter::PrintSignature(const Computation& computation) {
  out_ += '(';
  bool first = true;
  for (const Instruction* parameter : computation.parameters()) {
    if (parameter == nullptr) continue;
    if (!first) out_ += ", ";
    first = false;
    out_ += NameOf(*parameter);
    out_ += ": ";
    PrintShape(parameter->shape(), /*layouts=*/false);
  }
  out_ += ") -> ";
  PrintShape(computation.root()->shape(), /*layouts=*/false);
}

void ModulePrinter::Print(const Computation& computation) {
  if (&computation == module_.entry()) out_ += "ENTRY ";
  PrintPercentName(NameOf(computation));
  out_ += ' ';
  PrintSignature(computation);
  out_ += " {\n";
  for (const Instruction* instruction : computation.instructions()) {
    out_ += instruction == computation.root() ? "  ROOT " : "  ";
    Print(*instruction);
    out_ += '\n';
  }
  out_ += '}';
  if (!computation.execution_thread().empty()) {
    out_ += ", execution_thread=\"";
    out_ += computation.execution_thread();
    out_ += '"';
  }
  out_ += '\n';
}

void ModulePrinter::Print(const Instruction& instruction) {
  PrintPercentName(NameOf(instruction));
  out_ += " = ";
  PrintShape(instruction.shape());
  out_ += ' ';
  const Instruction* wrapped = nullptr;
  const Opcode opcode = instruction.opcode();
  if (opcode == Opcode::kAsyncStart || opcode == Opcode::kAsyncUpdate ||
      opcode == Opcode::kAsyncDone) {
    const Instruction* start = AsyncStartOf(&instruction);
    if (start != nullptr) wrapped = WrappedOperation(start);
  }
  if (wrapped != nullptr) {
    out_ += OpcodeName(wrapped->opcode());
    out_ += opcode == Opcode::kAsyncStart    ? "-start"
            : opcode == Opcode::kAsyncUpdate ? "-update"
                                             : "-done";
  } else {
    out_ += OpcodeName(opcode);
  }
  PrintOperands(instruction);
  if (wrapped != nullptr && opcode == Opcode::kAsyncStart) {
    PrintRows(*wrapped, Opcode::kAsyncStart, instruction.raw_attributes());
    PrintRows(*wrapped, wrapped->opcode(), wrapped->raw_attributes());
  } else {
    PrintRows(instruction, opcode, instruction.raw_attributes());
    wrapped = nullptr;
  }
  PrintCommonAttributes(instruction, wrapped);
}

void ModulePrinter::PrintOperands(const Instruction& instruction) {
  out_ += '(';
  if (instruction.opcode() == Opcode::kParameter) {
    PrintInteger(instruction.attributes<ParameterAttributes>().number);
  } else if (instruction.opcode() == Opcode::kConstant) {
    AppendLiteral(out_, *instruction.attributes<ConstantAttributes>().literal);
  } else {
    const auto operands = instruction.operands();
    for (size_t i = 0; i < operands.size(); ++i) {
      PrintSeparator(i);
      PrintPercentName(NameOf(*operands[i]));
    }
  }
  out_ += ')';
}

void ModulePrinter::PrintCommonAttributes(const Instruction& instruction,
                                          const Instruction* wrapped) {
  if (instruction.sharding() != nullptr) {
    out_ += ", sharding=";
    PrintSharding(instruction.sharding());
  }
  auto print_raw = [this](std::string_view name, std::string_view text) {
    if (text.empty()) return;
    out_ += name;
    out_ += text;
  };
  print_raw(", frontend_attributes=", instruction.frontend_attributes());
  if (const Instruction::Extras* extras = instruction.extras()) {
    if (!extras->control_predecessors.empty()) {
      out_ += ", control-predecessors={";
      for (size_t i = 0; i < extras->control_predecessors.size(); ++i) {
        if (i > 0) out_ += ", ";
        PrintPercentName(NameOf(*extras->control_predecessors[i]));
      }
      out_ += '}';
    }
    if (options_.metadata) {
      print_raw(", statistics=", extras->statistics);
      print_raw(", origin=", extras->origin);
    }
  }
  if (options_.metadata) print_raw(", metadata=", instruction.metadata());
  const bool wrapped_payload = wrapped != nullptr && !wrapped->backend_config().empty();
  print_raw(", backend_config=",
            wrapped_payload ? wrapped->backend_config() : instruction.backend_config());
}

std::string PrintModule(const Module& module, const PrintOptions& options) {
  std::string out;
  const size_t source_size = module.source() != nullptr ? module.source()->text().size() : 0;
  out.reserve(std::max<size_t>(source_size + source_size / 8, size_t{1} << 12));
  ModulePrinter printer(out, module, options);
  if (!options.ids) printer.ShortenNames();
  printer.PrintAll();
  // Attributes are printed as they were written, whatever bytes their strings had.
  EscapeNotUtf8(out, ByteEscape::kOctal);
  return out;
}

void AppendComputation(std::string& out, const Computation& computation,
                       const PrintOptions& options) {
  ModulePrinter printer(out, computation.module(), options);
  if (!options.ids) printer.ShortenNames();
  printer.Print(computation);
}

void AppendInstruction(std::string& out, const Instruction& instruction,
                       const PrintOptions& options) {
  // Names are shortened by their whole computation: too much for one line.
  ModulePrinter(out, instruction.parent()->module(), options).Print(instruction);
}

std::string ToString(const Instruction& instruction) {
  std::string out;
  AppendInstruction(out, instruction);
  return out;
}

}  // namespace gshard
