#include "ir/proto/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ir/async_sugar.h"
#include "ir/attribute_names.h"
#include "ir/lexer.h"
#include "ir/metadata.h"
#include "ir/proto/attributes.h"
#include "ir/proto/envelope.h"
#include "ir/proto/errors.h"
#include "ir/proto/id_table.h"
#include "ir/proto/instruction_proto.h"
#include "ir/proto/literals.h"
#include "ir/proto/shapes.h"
#include "ir/proto/shardings.h"
#include "ir/proto/texts.h"
#include "ir/proto/wire.h"
#include "ir/sharding_text.h"
#include "tsl/robin_map.h"

namespace gshard::proto {
namespace {

class ModuleReader {
 public:
  ModuleReader(std::shared_ptr<const SourceText> source, std::shared_ptr<Context> context)
      : errors_(*source),
        module_(std::make_unique<Module>("", context)),
        shapes_(*context, errors_),
        shardings_(*context, errors_),
        attributes_(*module_, shapes_, errors_),
        metadata_(module_->arena(), AppendMetadata),
        frontend_attributes_(module_->arena(), AppendFrontendAttributes),
        backend_configs_(module_->arena(), AppendBareOrQuoted) {
    module_->set_source(std::move(source));
  }

  Expected<ReadResult> Run(const Envelope& envelope) {
    ReadResult result;
    if (!ReadHeader(envelope.module)) return gshard::Fail(errors_.Take());
    for (std::string_view computation : computations_) {
      if (!ReadComputation(computation)) return gshard::Fail(errors_.Take());
    }
    if (!FindEntry()) return gshard::Fail(errors_.Take());
    for (std::string_view argument : envelope.arguments) {
      errors_.Enter("argument", fmt::to_string(result.arguments.size()), argument);
      result.arguments.push_back(ReadLiteral(argument, module_->arena(), shapes_, errors_));
      if (result.arguments.back() == nullptr) return gshard::Fail(errors_.Take());
    }
    AddUnknownFields(result.warnings);
    if (!TakeShardSpread()) return gshard::Fail(errors_.Take());
    result.module = std::move(module_);
    return result;
  }

 private:
  static constexpr uint32_t kStackFrames = 17;

  std::string_view Copy(std::string_view text) { return module_->arena().Copy(text); }

  bool ReadHeader(std::string_view bytes) {
    errors_.Enter("the module", "", bytes);
    ModuleHeader& header = module_->header();
    std::string text;
    FieldReader field(bytes);
    bool ok = true;
    while (ok && field.Next()) {
      switch (field.number()) {
        case 1:
          module_->set_name(LegalModuleName(field.bytes()));
          break;
        case 2:
          entry_name_ = field.bytes();
          break;
        case 3:
          computations_.push_back(field.bytes());
          break;
        case 4:
          ok = ReadEntryLayout(field.bytes());
          break;
        case 6:
          entry_id_ = field.integer();
          break;
        case 7:
          header.is_scheduled = true;
          ok = ReadSchedule(field.bytes());
          break;
        case 8:
          ok = ReadAliases(field.bytes());
          break;
        case 12:
          output_sharding_ = field.bytes();
          break;
        case 14:
          parameter_shardings_.push_back(field.bytes());
          break;
        case 15:
          ok = ReadDeviceAssignment(field.bytes());
          break;
        case kStackFrames:
          text.clear();
          has_damaged_frames_ = !AppendStackFrames(field.bytes(), text);
          if (!has_damaged_frames_) module_->set_debug_tables(Copy(text));
          break;
        case 18:
          ok = ReadDonors(field.bytes());
          break;
        case 19:
          text.clear();
          ok = AppendFrontendAttributes(field.bytes(), text) ||
               errors_.Damaged("the frontend attributes");
          header.frontend_attributes = Copy(text);
          break;
        default:
          if (!IsLeftOut(field)) unknown_module_fields_.insert(field.number());
          break;
      }
    }
    if (field.ok() || !ok) return ok;
    // Behind the program there is the table of frames: the program is whole without it, and without
    // what a wrong length of the table hides.
    has_damaged_frames_ |= field.number() == kStackFrames;
    return (has_damaged_frames_ && !computations_.empty()) || errors_.Damaged("the module");
  }

  // Is there nothing in the field, or nothing that the program computes differently for: its id,
  // what is fetched before it starts, flags of compilation, where values come from?
  static bool IsLeftOut(const FieldReader& field) {
    constexpr uint32_t kUnreadFields[] = {5, 9, 10, 13, 16, 20};
    return (field.IsBytes() ? field.bytes().empty() : field.value() == 0) ||
           std::ranges::find(kUnreadFields, field.number()) != std::end(kUnreadFields);
  }

  // HloScheduleProto {1 map of computation ids to {1 instruction_ids*}}
  bool ReadSchedule(std::string_view bytes) {
    FieldReader field(bytes);
    bool ok = true;
    while (ok && field.Next()) {
      if (field.number() != 1) continue;
      int64_t computation = 0;
      std::string_view sequence;
      FieldReader entry(field.bytes());
      while (entry.Next()) {
        if (entry.number() == 1) computation = entry.integer();
        if (entry.number() == 2) sequence = entry.bytes();
      }
      std::vector<int64_t>& ids = schedule_[computation];
      FieldReader id(sequence);
      while (ok && id.Next()) {
        if (id.number() == 1) ok = id.AppendTo(ids);
      }
      ok = ok && entry.ok() && id.ok();
    }
    return (ok && field.ok()) || errors_.Damaged("the schedule");
  }

  // The order in which the computation's instructions run, where the module says it.
  bool Schedule(Computation* computation, int64_t id) {
    const auto it = schedule_.find(id);
    if (it == schedule_.end()) return true;
    std::vector<Instruction*> order;
    std::vector<bool> seen(module_->instruction_limit(), false);
    for (int64_t instruction_id : it->second) {
      Instruction* instruction = instruction_of_.Find(instruction_id);
      if (instruction == nullptr || seen[instruction->id()]) {
        return errors_.Fail(Error::kReference,
                            fmt::format("its schedule names id {} twice, or one that it does not "
                                        "have",
                                        instruction_id));
      }
      seen[instruction->id()] = true;
      order.push_back(instruction);
    }
    if (order.size() != computation->instructions().size()) {
      return errors_.Fail(Error::kValue,
                          fmt::format("its schedule has {} of its {} instructions", order.size(),
                                      computation->instructions().size()));
    }
    computation->SetInstructions(std::move(order));
    return true;
  }

  // ProgramShape {1 params*, 2 result}
  bool ReadEntryLayout(std::string_view bytes) {
    FieldReader field(bytes);
    while (field.Next()) {
      if (field.number() != 1 && field.number() != 2) continue;
      const Shape* shape = shapes_.Read(field.bytes());
      if (shape == nullptr) return false;
      if (field.number() == 2) {
        module_->header().entry_result_layout = shape;
      } else {
        module_->header().entry_parameter_layouts.push_back(shape);
      }
    }
    return field.ok() || errors_.Damaged("the entry's layout");
  }

  bool ReadAliases(std::string_view bytes) {
    FieldReader field(bytes);
    while (field.Next()) {
      if (field.number() != 1) continue;
      ModuleHeader::Alias alias;
      bool ok = true;
      FieldReader entry(field.bytes());
      while (ok && entry.Next()) {
        if (entry.number() == 1) ok = entry.AppendTo(alias.output_index);
        if (entry.number() == 2) alias.parameter = entry.integer();
        if (entry.number() == 3) ok = entry.AppendTo(alias.parameter_index);
        if (entry.number() == 4) alias.must_alias = entry.integer() == 2;
      }
      if (!ok || !entry.ok()) return errors_.Damaged("an alias");
      module_->header().input_output_alias.push_back(std::move(alias));
    }
    return field.ok() || errors_.Damaged("the aliases");
  }

  bool ReadDonors(std::string_view bytes) {
    FieldReader field(bytes);
    while (field.Next()) {
      if (field.number() != 1) continue;
      ModuleHeader::Donor donor;
      bool ok = true;
      FieldReader entry(field.bytes());
      while (ok && entry.Next()) {
        if (entry.number() == 1) donor.parameter = entry.integer();
        if (entry.number() == 2) ok = entry.AppendTo(donor.index);
      }
      if (!ok || !entry.ok()) return errors_.Damaged("a buffer donor");
      module_->header().buffer_donor.push_back(std::move(donor));
    }
    return field.ok() || errors_.Damaged("the buffer donors");
  }

  // {1 replica_count, 2 computation_count}: all that a proto says of the number of devices.
  bool ReadDeviceAssignment(std::string_view bytes) {
    constexpr int64_t kMax = int64_t{1} << 31;
    FieldReader field(bytes);
    while (field.Next()) {
      if (field.integer() < 1 || field.integer() > kMax) continue;
      if (field.number() == 1) module_->header().replica_count = field.integer();
      if (field.number() == 2) module_->header().num_partitions = field.integer();
    }
    return field.ok() || errors_.Damaged("the device assignment");
  }

  bool ReadComputation(std::string_view bytes) {
    std::string_view name, thread;
    int64_t id = 0, root_id = 0;
    instructions_.clear();
    errors_.Enter("the computation", "", bytes);
    FieldReader field(bytes);
    while (field.Next()) {
      switch (field.number()) {
        case 1:
          name = field.bytes();
          break;
        case 2:
          instructions_.push_back(field.bytes());
          break;
        case 5:
          id = field.integer();
          break;
        case 6:
          root_id = field.integer();
          break;
        case 8:
          thread = field.bytes();
          break;
        default:
          break;
      }
    }
    if (!field.ok()) return errors_.Damaged("a computation");
    errors_.Enter("computation", name, bytes);
    if (!IsLegalName(name)) return errors_.Fail(Error::kValue, "its name is not legal in HLO");
    if (instructions_.empty()) return errors_.Fail(Error::kValue, "it has no instructions");
    if (computation_of_.contains(id)) {
      return errors_.Fail(Error::kReference, fmt::format("another computation has the id {}", id));
    }
    Computation* computation = module_->AddComputation(name);
    if (!thread.empty() && thread != "main") {
      computation->set_execution_thread(Escaped(thread, module_->arena()));
    }
    instruction_of_.Reset(instructions_.size());
    for (std::string_view instruction : instructions_) {
      if (!ReadInstruction(computation, instruction)) return false;
    }
    errors_.Enter("computation", name, bytes);
    Instruction* root = instruction_of_.Find(root_id);
    if (root == nullptr) {
      return errors_.Fail(Error::kReference, fmt::format("its root, id {}, is not in it", root_id));
    }
    computation->set_root(root);
    if (!Schedule(computation, id)) return false;
    computation_of_[id] = computation;
    if (name == entry_name_) named_entry_ = computation;
    return true;
  }

  bool FindEntry() {
    errors_.Enter("the module", "", {});
    Computation* entry = named_entry_;
    // Of a file that is cut short the first computations are left: none of them is the entry for
    // want of an id.
    const bool is_found_by_id = entry_id_.has_value() || entry_name_.empty();
    if (entry == nullptr && is_found_by_id) {
      const auto it = computation_of_.find(entry_id_.value_or(0));
      if (it != computation_of_.end()) entry = it->second;
    }
    if (entry == nullptr) {
      return errors_.Fail(
          Error::kReference,
          is_found_by_id
              ? fmt::format("there is no entry computation of id {}", entry_id_.value_or(0))
              : fmt::format("there is no entry computation '{}': is the file cut short?",
                            entry_name_));
    }
    module_->set_entry(entry);
    std::vector<Computation*> computations(module_->computations().begin(),
                                           module_->computations().end());
    std::stable_partition(computations.begin(), computations.end(),
                          [&](const Computation* c) { return c != entry; });
    module_->SetComputations(std::move(computations));
    return true;
  }

  // In text a module's name is an identifier.
  static std::string LegalModuleName(std::string_view name) {
    std::string legal(name);
    for (char& c : legal) {
      if (!HasClass(c, kNameContinue)) c = '_';
    }
    if (legal.empty() || !HasClass(legal[0], kNameStart)) legal.insert(0, 1, '_');
    return legal;
  }

  static bool IsLegalName(std::string_view name) {
    uint8_t common = kNameContinue;  // classes that all bytes have
    for (const char c : name) common &= kCharacterClasses[static_cast<unsigned char>(c)];
    return common != 0 && !name.empty() && HasClass(name[0], kNameStart) &&
           (name.find('.') != std::string_view::npos || !DTypeFromName(name).has_value());
  }

  bool ReadInstruction(Computation* computation, std::string_view bytes) {
    errors_.Enter("instruction", "", bytes);
    if (!proto_.Read(bytes)) return errors_.Damaged("an instruction");
    errors_.Enter("instruction", proto_.name, bytes);
    if (!IsLegalName(proto_.name)) {
      return errors_.Fail(Error::kValue, "an instruction's name that is not legal in HLO");
    }
    const std::optional<Opcode> opcode = OpcodeFromName(proto_.opcode);
    if (!opcode.has_value()) {
      return errors_.Fail(Error::kValue, fmt::format("unknown opcode '{}'", proto_.opcode));
    }
    const Shape* shape = shapes_.Read(proto_.shape);
    if (shape == nullptr || !FindOperands(*opcode) || !FindCalled(*opcode)) return false;
    if (*opcode == Opcode::kParameter && !CheckParameter(*computation)) return false;
    void* attributes = attributes_.Read(*opcode, proto_, shape, operands_);
    if (attributes == nullptr) {
      if (!errors_.failed()) errors_.Damaged("an attribute");
      return false;
    }
    NameTable& names = module_->instruction_names();
    std::string_view name = proto_.name;
    if (!names.Take(names.Intern(name))) name = module_->UniqueName(name);
    Instruction* instruction =
        module_->AddRaw(computation, *opcode, name, shape, operands_, attributes, called_);
    if (!instruction_of_.Add(proto_.id, instruction)) {
      return errors_.Fail(Error::kReference,
                          fmt::format("another instruction has the id {}", proto_.id));
    }
    return ReadCommon(instruction);
  }

  bool FindOperands(Opcode opcode) {
    operands_.clear();
    for (int64_t id : proto_.operand_ids) {
      operands_.push_back(instruction_of_.Find(id));
      if (operands_.back() != nullptr) continue;
      return errors_.Fail(Error::kReference,
                          fmt::format("no instruction before it has the id {} of its operand", id));
    }
    if (TakesOperands(opcode, operands_.size())) return true;
    return errors_.Fail(Error::kValue,
                        fmt::format("{} takes {} operands, but has {}", OpcodeName(opcode),
                                    InfoOf(opcode).arity, operands_.size()));
  }

  bool FindCalled(Opcode opcode) {
    called_.clear();
    if (InfoOf(opcode).callees == Callees::kNoCallee) return true;
    for (int64_t id : proto_.called_ids) {
      const auto it = computation_of_.find(id);
      if (it == computation_of_.end()) {
        return errors_.Fail(
            Error::kReference,
            fmt::format("no computation before it has the id {} that it calls", id));
      }
      called_.push_back(it->second);
    }
    // The proto has the body first.
    if (opcode == Opcode::kWhile && called_.size() == 2) std::swap(called_[0], called_[1]);
    return true;
  }

  bool CheckParameter(const Computation& computation) {
    const int64_t number = proto_.parameter_number;
    if (number < 0 || number >= static_cast<int64_t>(instructions_.size())) {
      return errors_.Fail(Error::kValue,
                          fmt::format("its computation cannot have a parameter {}", number));
    }
    if (number >= computation.parameter_count() || computation.parameter(number) == nullptr) {
      return true;
    }
    return errors_.Fail(Error::kValue,
                        fmt::format("its computation has a parameter {} already", number));
  }

  // What every opcode may have.
  bool ReadCommon(Instruction* instruction) {
    for (const uint32_t number : proto_.unknown) {
      auto [it, fresh] = unknown_fields_.try_emplace(number, Unknown{std::string(proto_.name), 0});
      ++it->second.count;
    }
    if (proto_.has_sharding) {
      const Sharding* sharding = shardings_.Read(proto_.sharding);
      if (sharding == nullptr) return false;
      const Shape* shape = instruction->shape();
      if (shape->IsTuple() && !sharding->IsTuple() && shape->leaf_count() > 0) {
        sharding = module_->context().TupleOf(
            std::vector<const Sharding*>(static_cast<size_t>(shape->leaf_count()), sharding));
      }
      instruction->set_sharding(sharding);
    }
    const auto metadata = metadata_.Read(proto_.metadata);
    if (!metadata.has_value()) return errors_.Damaged("its metadata");
    instruction->set_metadata(*metadata);
    const auto frontend_attributes = frontend_attributes_.Read(proto_.frontend_attributes);
    if (!frontend_attributes.has_value()) return errors_.Damaged("its frontend attributes");
    instruction->set_frontend_attributes(*frontend_attributes);
    instruction->set_backend_config(*backend_configs_.Read(proto_.backend_config));
    return ReadExtras(instruction);
  }

  bool ReadExtras(Instruction* instruction) {
    if (proto_.control_ids.empty() && proto_.statistics.empty() && proto_.origin.empty()) {
      return true;
    }
    Instruction::Extras extras;
    const auto predecessors = module_->arena().NewSpan<Instruction*>(proto_.control_ids.size());
    for (size_t i = 0; i < predecessors.size(); ++i) {
      predecessors[i] = instruction_of_.Find(proto_.control_ids[i]);
      if (predecessors[i] != nullptr && predecessors[i] != instruction) continue;
      return errors_.Fail(Error::kReference,
                          fmt::format("no instruction before it has the id {} of its control "
                                      "predecessor",
                                      proto_.control_ids[i]));
    }
    extras.control_predecessors = predecessors;
    text_.clear();
    if (!AppendStatistics(proto_.statistics, text_)) return errors_.Damaged("its statistics");
    extras.statistics = Copy(text_);
    text_.clear();
    if (!AppendOrigin(proto_.origin, text_)) return errors_.Damaged("its origin");
    extras.origin = Copy(text_);
    instruction->set_extras(module_->arena().New<Instruction::Extras>(extras));
    return true;
  }

  // A field that this reader does not know may say what the program means.
  void AddUnknownFields(std::vector<Diagnostic>& warnings) const {
    const auto add = [&](std::string of) {
      Diagnostic warning = MakeError(
          "W-PROTO-001", fmt::format("{} is not known: what it says is left out", std::move(of)));
      warning.severity = Severity::kWarning;
      warning.file = module_->source()->name();
      warnings.push_back(std::move(warning));
    };
    if (has_damaged_frames_) {
      Diagnostic warning =
          MakeError("W-PROTO-002",
                    "the table of stack frames is damaged and is left out: it says where "
                    "instructions come from, not what they do");
      warning.severity = Severity::kWarning;
      warning.file = module_->source()->name();
      warnings.push_back(std::move(warning));
    }
    for (const uint32_t number : unknown_module_fields_) {
      add(fmt::format("field {} of the module", number));
    }
    for (const auto& [number, unknown] : unknown_fields_) {
      const std::string others =
          unknown.count > 1 ? fmt::format(" and {} more", unknown.count - 1) : "";
      add(fmt::format("field {} of instruction '{}'{}", number, unknown.first, others));
    }
  }

  // How the entry's parameters and results of a partitioned program are spread over the devices:
  // newer protos say it here only, older ones on the parameters, too.
  bool TakeShardSpread() {
    const auto parameters = module_->entry()->parameters();
    errors_.Enter("the module", "", {});
    if (parameter_shardings_.size() != parameters.size()) return true;
    bool is_news = false;
    for (size_t i = 0; i < parameters.size(); ++i) {
      Instruction* x = parameters[i];
      if (x == nullptr || x->sharding() != nullptr) continue;
      const Sharding* sharding = shardings_.Read(parameter_shardings_[i]);
      if (sharding == nullptr) return false;
      if (sharding->IsTuple() != x->shape()->IsTuple()) continue;
      x->set_sharding(sharding);
      is_news = true;
    }
    if (!is_news || output_sharding_.empty()) return true;
    const Sharding* output = shardings_.Read(output_sharding_);
    if (output == nullptr) return false;
    ModuleHeader& header = module_->header();
    header.frontend_attributes = WithFrontendAttribute(module_->arena(), header.frontend_attributes,
                                                       kOutputShardingsAttribute, ToString(output));
    return true;
  }

  Errors errors_;
  std::unique_ptr<Module> module_;
  ShapeReader shapes_;
  ShardingReader shardings_;
  AttributeReader attributes_;
  TextReader metadata_, frontend_attributes_, backend_configs_;
  struct Unknown {
    std::string first;  // instruction that has it
    int64_t count = 0;
  };
  std::map<uint32_t, Unknown> unknown_fields_;
  std::set<uint32_t> unknown_module_fields_;
  bool has_damaged_frames_ = false;
  std::string_view output_sharding_;
  std::vector<std::string_view> parameter_shardings_;
  std::vector<std::string_view> computations_;
  std::string_view entry_name_;
  std::optional<int64_t> entry_id_;  // 0 is not written
  Computation* named_entry_ = nullptr;
  tsl::robin_map<int64_t, Computation*> computation_of_;
  tsl::robin_map<int64_t, std::vector<int64_t>> schedule_;  // instruction ids, by computation
  // Of the computation that is being read:
  std::vector<std::string_view> instructions_;
  IdTable instruction_of_;
  InstructionProto proto_;
  std::vector<Instruction*> operands_;
  std::vector<Computation*> called_;
  std::string text_;
};

}  // namespace

bool IsHloProto(std::string_view bytes) { return OpenEnvelope(bytes).has_value(); }

Expected<ReadResult> ReadModule(std::shared_ptr<const SourceText> source,
                                std::shared_ptr<Context> context) {
  const std::optional<Envelope> envelope = OpenEnvelope(source->text());
  if (!envelope.has_value()) {
    Errors errors(*source);
    errors.Damaged("the HLO proto");
    return gshard::Fail(errors.Take());
  }
  if (context == nullptr) context = std::make_shared<Context>();
  return ModuleReader(std::move(source), std::move(context)).Run(*envelope);
}

}  // namespace gshard::proto
