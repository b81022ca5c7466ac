// Functions, values, types and regions of the writer.
#include "ir/stablehlo/print/module_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/attribute_names.h"
#include "ir/custom_call.h"
#include "ir/dims.h"
#include "ir/metadata.h"
#include "ir/parser_errors.h"
#include "ir/sharding_algebra.h"
#include "ir/sharding_text.h"
#include "ir/stablehlo/print/dense_text.h"

namespace gshard::stablehlo {
namespace {

constexpr int kMaxRegionDepth = 150;

bool IsPlainSymbol(std::string_view name) {
  return !name.empty() &&
         name.find_first_not_of(
             "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.$") == name.npos;
}

bool IsOtherHalf(const Instruction* x) {
  switch (x->opcode()) {
    case Opcode::kAllGatherDone:
    case Opcode::kAllReduceDone:
    case Opcode::kAsyncDone:
    case Opcode::kAsyncUpdate:
    case Opcode::kCollectivePermuteDone:
    case Opcode::kCopyDone:
    case Opcode::kRecvDone:
    case Opcode::kSendDone:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::string ListText(Dims dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(dims[i]);
  }
  return text + "]";
}

std::string ArrayText(Dims dims) {
  if (dims.empty()) return "array<i64>";
  std::string text = ListText(dims);
  return "array<i64: " + text.substr(1, text.size() - 2) + ">";
}

std::string Joined(std::span<const std::string> parts) {
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty()) text += ", ";
    text += part;
  }
  return text;
}

ModuleWriter::ModuleWriter(const Module& module, bool gspmd, bool locations)
    : module_(module), shardings_(module, gspmd) {
  if (locations) lines_.emplace(module);
}

bool ModuleWriter::Fail(const Instruction* x, std::string message, std::string hint) {
  if (!error_.has_value()) {
    error_ = module_.ErrorAt(x, "E-STABLEHLO-001", std::move(message));
    error_->hint = std::move(hint);
  }
  return true;
}

const Users& ModuleWriter::users(const Computation& computation) {
  std::unique_ptr<Users>& users = users_[&computation];
  if (users == nullptr) users = std::make_unique<Users>(computation);
  return *users;
}

const std::string& ModuleWriter::Type(const Shape* shape) const {
  std::string& text = types_[shape->bare()];
  if (text.empty()) AppendType(text, shape);
  return text;
}

Leaves ModuleWriter::OperandLeaves(const Instruction* x) const {
  Leaves all;
  for (const Instruction* operand : x->operands()) {
    const Leaves& leaves = Of(operand);
    all.insert(all.end(), leaves.begin(), leaves.end());
  }
  return all;
}

std::string ModuleWriter::Operands(const Instruction* x) const { return Joined(OperandLeaves(x)); }

std::string ModuleWriter::FunctionType(std::span<const Shape* const> operands,
                                       std::span<const Shape* const> results) const {
  std::string text = "(";
  for (size_t i = 0; i < operands.size(); ++i) {
    if (i > 0) text += ", ";
    text += Type(operands[i]);
  }
  text += ") -> ";
  if (results.size() == 1) return text + Type(results[0]);
  text += '(';
  for (size_t i = 0; i < results.size(); ++i) {
    if (i > 0) text += ", ";
    text += Type(results[i]);
  }
  return text + ")";
}

std::string ModuleWriter::FunctionType(const Instruction* x) const {
  std::vector<const Shape*> operands;
  for (const Instruction* operand : x->operands()) {
    for (const Shape* leaf : LeafShapes(operand->shape())) operands.push_back(leaf);
  }
  return FunctionType(operands, LeafShapes(x->shape()));
}

// --- lines

void ModuleWriter::Line::Add(std::string_view attribute) { dict.emplace_back(attribute); }

std::string ModuleWriter::NewValue() { return fmt::format("%{}", next_value_++); }
std::string ModuleWriter::FreshArgument() { return fmt::format("%arg{}", next_argument_++); }

std::string ModuleWriter::LocationOf(const Instruction* x) {
  if (!lines_ || x->metadata().empty()) return {};
  const OpMetadata metadata = ParseMetadata(x->metadata());
  const std::string line = lines_->TextOf(*x);
  // Without a number where none is known; names of files may have colons, too.
  const size_t digits = line.find_last_not_of("0123456789") + 1;
  const bool has_number = digits > 0 && digits < line.size() && line[digits - 1] == ':';
  std::string place;
  if (has_number) {
    place = fmt::format("{}:{}:0", QuotedMlir(line.substr(0, digits - 1)), line.substr(digits));
  } else if (!line.empty()) {
    place = fmt::format("{}:0:0", QuotedMlir(line));
  }
  if (metadata.op_name.empty()) return place.empty() ? place : fmt::format(" loc({})", place);
  const std::string name = QuotedMlir(metadata.op_name);
  return place.empty() ? fmt::format(" loc({})", name) : fmt::format(" loc({}({}))", name, place);
}

void ModuleWriter::AddCommonAttributes(Line& line) {
  if (in_reducer()) return;
  std::string frontend;
  for (const auto& [key, value] : ParseFrontendAttributes(line.x->frontend_attributes())) {
    if (key.starts_with("xla.sdy.") || key.starts_with("composite.") || key == "inlineable")
      continue;
    if (!frontend.empty()) frontend += ", ";
    frontend += fmt::format("{} = {}", IsPlainSymbol(key) ? std::string(key) : QuotedMlir(key),
                            QuotedMlir(Unquoted(value)));
  }
  if (!frontend.empty()) {
    line.dict.push_back(fmt::format("mhlo.frontend_attributes = {{{}}}", frontend));
  }
  const std::string sharding = shardings_.OperationAttribute(line.x, line.leaves);
  if (!sharding.empty()) line.dict.push_back(sharding);
}

void ModuleWriter::Emit(Line& line, const Shape* results) {
  AddCommonAttributes(line);
  EmitFinished(line, results);
}

void ModuleWriter::EmitFinished(Line& line, const Shape* results) {
  const size_t count = LeafShapes(results).size();
  out_ += Spaces();
  Leaves leaves;
  if (count > 0) {
    const std::string name = NewValue();
    out_ += name;
    if (count > 1) out_ += ":" + std::to_string(count);
    out_ += " = ";
    for (size_t i = 0; i < count; ++i) {
      leaves.push_back(count == 1 ? name : name + "#" + std::to_string(i));
    }
  }
  out_ += line.head;
  if (!line.dict.empty()) out_ += " {" + Joined(line.dict) + "}";
  if (!line.types.empty()) out_ += " : " + line.types;
  out_ += line.tail;
  out_ += LocationOf(line.x);
  out_ += '\n';
  values_[line.x] = std::move(leaves);
}

void ModuleWriter::EmitRaw(const Instruction* x, std::string_view text) {
  out_ += Spaces();
  out_ += text;
  out_ += LocationOf(x);
  out_ += '\n';
}

void ModuleWriter::Generic(const Instruction* x, std::string_view name,
                           std::vector<std::string> props, const std::string& regions,
                           const Shape* results, std::vector<size_t> leaves) {
  Line line(x);
  line.leaves = std::move(leaves);
  line.head = fmt::format("\"{}\"({})", name, Operands(x));
  if (!props.empty()) line.head += " <{" + Joined(props) + "}>";
  if (!regions.empty()) line.head += " (" + regions + ")";
  if (results == nullptr) results = x->shape();
  std::vector<const Shape*> operands;
  for (const Instruction* operand : x->operands()) {
    for (const Shape* leaf : LeafShapes(operand->shape())) operands.push_back(leaf);
  }
  line.types = FunctionType(operands, LeafShapes(results));
  Emit(line, results);
}

// --- regions

std::string ModuleWriter::RegionBody(const Computation& computation, Leaves& arguments) {
  std::string outer;
  outer.swap(out_);
  ++reducer_depth_;
  indentation_ += 2;
  for (const Instruction* parameter : computation.parameters()) {
    Leaves leaves;
    for (size_t i = 0; i < LeafShapes(parameter->shape()).size(); ++i) {
      leaves.push_back(FreshArgument());
    }
    arguments.insert(arguments.end(), leaves.begin(), leaves.end());
    values_[parameter] = std::move(leaves);
  }
  WriteInstructions(computation);
  if (!error_.has_value()) {
    const Leaves& results = Of(computation.root());
    std::string types;
    for (const Shape* leaf : LeafShapes(computation.root()->shape())) {
      if (!types.empty()) types += ", ";
      types += Type(leaf);
    }
    out_ += Spaces() + "stablehlo.return " + Joined(results) + " : " + types + "\n";
  }
  indentation_ -= 2;
  --reducer_depth_;
  outer.swap(out_);
  return outer;
}

std::string ModuleWriter::Region(const Computation& computation) {
  Leaves arguments;
  const std::string body = RegionBody(computation, arguments);
  std::string block;
  size_t next = 0;
  for (const Instruction* parameter : computation.parameters()) {
    for (const Shape* leaf : LeafShapes(parameter->shape())) {
      if (!block.empty()) block += ", ";
      block += arguments[next++] + ": " + Type(leaf);
    }
  }
  return fmt::format("{{\n{}^bb0({}):\n{}{}}}", Spaces(), block, body, Spaces());
}

std::string ModuleWriter::Body(const Computation& computation, const Leaves& parameter,
                               std::string_view terminator, int indentation) {
  if (++depth_ > kMaxRegionDepth) {
    Fail(computation.root(), "control flow is nested too deeply to write");
  }
  std::string outer;
  outer.swap(out_);
  indentation_ += indentation;
  size_t next = 0;
  for (const Instruction* p : computation.parameters()) {
    const size_t count = LeafShapes(p->shape()).size();
    values_[p] = Leaves(parameter.begin() + static_cast<std::ptrdiff_t>(next),
                        parameter.begin() + static_cast<std::ptrdiff_t>(next + count));
    next += count;
  }
  if (!error_.has_value()) WriteInstructions(computation);
  if (!error_.has_value()) {
    const Leaves& results = Of(computation.root());
    std::string types;
    for (const Shape* leaf : LeafShapes(computation.root()->shape())) {
      if (!types.empty()) types += ", ";
      types += Type(leaf);
    }
    out_ += Spaces() + std::string(terminator);
    if (!results.empty()) out_ += " " + Joined(results) + " : " + types;
    out_ += '\n';
  }
  indentation_ -= indentation;
  --depth_;
  outer.swap(out_);
  return outer;
}

std::string ModuleWriter::BranchBody(const Computation& branch, const Instruction* operand,
                                     const Leaves& leaves) {
  // Reading clones constants into regions, so they stand there from the start.
  std::vector<const Instruction*> sources;
  const auto collect = [&](auto&& self, const Instruction* x) -> void {
    if (x->opcode() == Opcode::kTuple) {
      for (const Instruction* element : x->operands()) self(self, element);
    } else {
      sources.insert(sources.end(), LeafShapes(x->shape()).size(), x);
    }
  };
  collect(collect, operand);
  std::string outer;
  outer.swap(out_);
  indentation_ += 2;
  Leaves inside = leaves;
  for (size_t i = 0; i < sources.size() && i < inside.size(); ++i) {
    if (sources[i]->opcode() != Opcode::kConstant || !sources[i]->shape()->IsArray()) continue;
    const Leaves kept = Of(sources[i]);
    if (!WriteInstruction(sources[i])) break;
    inside[i] = Of(sources[i]).front();
    values_[sources[i]] = kept;
  }
  indentation_ -= 2;
  outer.swap(out_);
  return outer + Body(branch, inside, "stablehlo.return", 2);
}

bool ModuleWriter::Inline(const Instruction* x, const Computation& computation,
                          const Leaves& operands) {
  if (++depth_ > kMaxRegionDepth) {
    return Fail(x, "computations are nested too deeply to write");
  }
  size_t next = 0;
  for (const Instruction* p : computation.parameters()) {
    const size_t count = LeafShapes(p->shape()).size();
    values_[p] = Leaves(operands.begin() + static_cast<std::ptrdiff_t>(next),
                        operands.begin() + static_cast<std::ptrdiff_t>(next + count));
    next += count;
  }
  if (WriteInstructions(computation)) SetValue(x, Of(computation.root()));
  --depth_;
  return true;
}

// --- functions

std::string_view ModuleWriter::FunctionName(const Computation& computation) {
  auto [it, fresh] = function_names_.try_emplace(&computation);
  if (fresh) {
    const std::string_view name = computation.name();
    it->second =
        IsPlainSymbol(name) ? fmt::format("@{}", name) : fmt::format("@{}", QuotedMlir(name));
    // The entry has taken this one.
    if (it->second == "@main") it->second = "@main.called";
    pending_.push_back(&computation);
  }
  return it->second;
}

std::string ModuleWriter::ArgumentText(const Instruction* parameter, const Leaves& names,
                                       bool is_entry) {
  const std::vector<const Shape*> shapes = LeafShapes(parameter->shape());
  const bool partitioned =
      module_.header().frontend_attributes.find(kNumPartitionsAttribute) != std::string_view::npos;
  std::string text;
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (i > 0) text += ", ";
    text += names[i] + ": " + Type(shapes[i]);
    std::vector<std::string> attributes;
    const int64_t number = parameter->attributes<ParameterAttributes>().number;
    for (const ModuleHeader::Alias& alias : module_.header().input_output_alias) {
      if (!is_entry || alias.parameter != number || shapes.size() > 1) continue;
      attributes.push_back(fmt::format("tf.aliasing_output = {} : i32",
                                       alias.output_index.empty() ? 0 : alias.output_index[0]));
    }
    for (const ModuleHeader::Donor& donor : module_.header().buffer_donor) {
      if (is_entry && donor.parameter == number && shapes.size() == 1) {
        attributes.emplace_back("jax.buffer_donor = true");
      }
    }
    const std::vector<const Shape*>& layouts = module_.header().entry_parameter_layouts;
    const Shape* placed = static_cast<size_t>(number) < layouts.size()
                              ? layouts[static_cast<size_t>(number)]
                              : parameter->shape();
    if (is_entry && placed->IsArray() && placed->layout() != nullptr &&
        placed->layout()->tail.find("S(5)") != std::string_view::npos) {
      attributes.emplace_back("mhlo.memory_kind = \"pinned_host\"");
    }
    const Sharding* leaf = LeafSharding(shardings_.Of(parameter), i);
    if (partitioned && is_entry && leaf != nullptr) {
      // A record of what the shards are of; not an annotation.
      attributes.push_back(fmt::format("mhlo.frontend_attributes = {{{} = {}}}", kShardingAttribute,
                                       QuotedMlir(ToString(leaf, {.tiles = true}))));
    } else {
      const std::string sharding = shardings_.ArgumentAttribute(
          leaf, shapes.size() == 1 ? parameter : nullptr, shapes[i]->rank());
      if (!sharding.empty()) attributes.push_back(sharding);
    }
    if (!attributes.empty()) text += " {" + Joined(attributes) + "}";
    const std::string op_name = OpNameOf(*parameter);
    if (lines_ && !op_name.empty()) text += fmt::format(" loc({})", QuotedMlir(op_name));
  }
  return text;
}

std::string ModuleWriter::ResultText(const Computation& computation, bool is_entry) {
  const Instruction* root = computation.root();
  const std::vector<const Shape*> shapes = LeafShapes(root->shape());
  std::string text;
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (i > 0) text += ", ";
    text += Type(shapes[i]);
    if (!is_entry) continue;
    // Where each result has a marker of its own, that says which are annotated.
    const Instruction* value = root;
    if (root->opcode() == Opcode::kTuple &&
        static_cast<size_t>(root->operand_count()) == shapes.size()) {
      value = root->operand(static_cast<int64_t>(i));
    }
    const std::vector<bool>& free = module_.header().propagation_to_output;
    const bool is_free = i < free.size() && free.size() == shapes.size() && free[i];
    const bool marked = IsCustomCallTo(*value, "xla.sdy.FuncResultSharding");
    const Sharding* leaf = LeafSharding(shardings_.Of(root), i);
    if (marked && root->sharding() == nullptr) leaf = shardings_.Of(value);
    if (is_free && !marked) leaf = nullptr;
    const std::string sharding =
        shardings_.ArgumentAttribute(leaf, marked ? value : nullptr, shapes[i]->rank());
    if (!sharding.empty()) text += " {" + sharding + "}";
  }
  const bool plain = shapes.size() == 1 && text.find('{') == text.npos;
  return plain ? text : "(" + text + ")";
}

bool ModuleWriter::WriteFunction(const Computation& computation, bool is_entry) {
  next_value_ = 0;
  next_argument_ = 0;
  std::string arguments;
  for (const Instruction* parameter : computation.parameters()) {
    if (!HasTypes(parameter)) return false;
    Leaves names;
    for (size_t i = 0; i < LeafShapes(parameter->shape()).size(); ++i) {
      names.push_back(FreshArgument());
    }
    if (!arguments.empty() && !names.empty()) arguments += ", ";
    arguments += ArgumentText(parameter, names, is_entry);
    values_[parameter] = std::move(names);
  }
  out_ +=
      fmt::format("  func.func {} {}({})", is_entry ? "public" : "private",
                  is_entry ? std::string("@main") : function_names_.at(&computation), arguments);
  const std::string results = ResultText(computation, is_entry);
  if (results != "()") out_ += " -> " + results;
  out_ += " {\n";
  indentation_ = 4;
  if (!WriteInstructions(computation)) return false;
  const Leaves& values = Of(computation.root());
  out_ += "    return";
  if (!values.empty()) {
    std::string types;
    for (const Shape* leaf : LeafShapes(computation.root()->shape())) {
      if (!types.empty()) types += ", ";
      types += Type(leaf);
    }
    out_ += " " + Joined(values) + " : " + types;
  }
  out_ += "\n  }\n";
  return true;
}

bool ModuleWriter::WriteInstructions(const Computation& computation) {
  for (const Instruction* x : computation.instructions()) {
    if (x->opcode() == Opcode::kParameter) continue;
    if (!WriteInstruction(x)) return false;
  }
  return true;
}

bool ModuleWriter::IsWhole(const Instruction* x) {
  const auto found = values_.find(x);
  if (found == values_.end() || found->second.size() == LeafShapes(x->shape()).size()) return true;
  // A half of an asynchronous pair: only its other half knows what to do with it.
  const auto uses = users(*x->parent()).of(x);
  if (x != x->parent()->root() && std::ranges::all_of(uses, IsOtherHalf)) return true;
  Fail(x, fmt::format("StableHLO has no {} apart from its done", OpcodeName(x->opcode())));
  return false;
}

bool ModuleWriter::HasTypes(const Instruction* x) {
  for (const Shape* leaf : LeafShapes(x->shape())) {
    const bool one_bit = leaf->dtype() == DType::kS1 || leaf->dtype() == DType::kU1;
    if ((leaf->IsArray() && !one_bit) || leaf->kind() == ShapeKind::kToken) continue;
    Fail(x, fmt::format("StableHLO has no type {}", ToString(leaf, /*layouts=*/false)));
    return false;
  }
  return true;
}

bool ModuleWriter::WriteInstruction(const Instruction* x) {
  if (!HasTypes(x)) return false;
  using Family = bool (*)(ModuleWriter&, const Instruction*);
  constexpr Family kFamilies[] = {WriteElementwise, WriteMovement,     WriteContraction,
                                  WriteReduction,   WriteManualRegion, WriteControlFlow,
                                  WriteCollective,  WriteCustomCall};
  for (const Family family : kFamilies) {
    if (!family(*this, x)) continue;
    return !error_.has_value() && IsWhole(x);
  }
  Fail(x, fmt::format("StableHLO has no operation for {}", OpcodeName(x->opcode())));
  return false;
}

std::string ModuleWriter::ModuleAttributes() const {
  const ModuleHeader& header = module_.header();
  std::string frontend;
  for (const auto& [key, value] : ParseFrontendAttributes(header.frontend_attributes)) {
    if (key.starts_with("xla.sdy.")) continue;
    if (!frontend.empty()) frontend += ", ";
    frontend += fmt::format("{} = {}", IsPlainSymbol(key) ? std::string(key) : QuotedMlir(key),
                            QuotedMlir(Unquoted(value)));
  }
  std::string text;
  if (!frontend.empty()) text += fmt::format("mhlo.frontend_attributes = {{{}}}, ", frontend);
  return text + fmt::format("mhlo.num_partitions = {} : i32, mhlo.num_replicas = {} : i32",
                            std::max(header.num_partitions, module_.DeviceCount()),
                            header.replica_count);
}

Expected<std::string> ModuleWriter::Write() {
  if (shardings_.error().has_value()) return gshard::Fail(*shardings_.error());
  const Computation* entry = module_.entry();
  out_ = fmt::format("module @{} attributes {{{}}} {{\n",
                     IsPlainSymbol(module_.name()) ? module_.name() : QuotedMlir(module_.name()),
                     ModuleAttributes());
  out_ += shardings_.MeshLines();
  if (!WriteFunction(*entry, /*is_entry=*/true)) return gshard::Fail(*std::move(error_));
  // Callees in the order of their first calls.
  for (size_t i = 0; i < pending_.size(); ++i) {
    if (!WriteFunction(*pending_[i], /*is_entry=*/false)) return gshard::Fail(*std::move(error_));
  }
  out_ += "}\n";
  return std::move(out_);
}

}  // namespace gshard::stablehlo
