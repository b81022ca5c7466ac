// Storage of modules: arenas, names, ids; lookups over the whole program.
#include "ir/module.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/device_subsets.h"
#include "ir/replica_groups.h"
#include "ir/sharding.h"
#include "tsl/robin_map.h"

namespace gshard {
namespace {

int64_t ChannelIdOf(Opcode opcode, const void* attributes) {
  const AttributeTag tag = AttributeTagOf(opcode);
  if (tag == &AttributeType<CollectiveAttributes>::kTag) {
    return static_cast<const CollectiveAttributes*>(attributes)->channel_id;
  }
  if (tag == &AttributeType<ChannelAttributes>::kTag) {
    return static_cast<const ChannelAttributes*>(attributes)->channel_id;
  }
  return 0;
}

// Device count of tiled shardings; 0 if there are none. `at_least` grows to what the others name,
// and lists, which may be of some devices.
int64_t DeviceCountOf(const Sharding* sharding, int64_t& at_least) {
  if (sharding->IsMaximal()) at_least = std::max(at_least, sharding->device + 1);
  if (sharding->IsTiled() &&
      (sharding->spelling == Spelling::kDeviceList || !sharding->tiles.has_axes())) {
    at_least = std::max(at_least, DeviceLimit(sharding->tiles));
    return 0;
  }
  if (!sharding->IsTuple()) return sharding->device_count();
  for (const Sharding* element : sharding->elements) {
    if (int64_t count = DeviceCountOf(element, at_least); count > 0) return count;
  }
  return 0;
}

// Largest device number named by a collective, plus one.
int64_t DeviceCountOf(const CollectiveAttributes& attributes) {
  int64_t count = 0;
  for (const DevicePair& pair : attributes.source_target_pairs) {
    count = std::max({count, pair.source + 1, pair.target + 1});
  }
  if (attributes.replica_groups == nullptr || attributes.replica_groups->IsAll()) return count;
  if (const TileAssignment* tiles = attributes.replica_groups->tiles()) {
    return std::max(count, tiles->device_count());
  }
  for (const auto& group : attributes.replica_groups->ToLists(0)) {
    for (int64_t device : group) count = std::max(count, device + 1);
  }
  return count;
}

}  // namespace

Module::Module(std::string name, std::shared_ptr<Context> context)
    : name_(std::move(name)), context_(std::move(context)), storage_(std::make_shared<Storage>()) {}
Module::~Module() = default;

Computation* Module::AddComputation(std::string_view name) {
  Computation& computation = storage_->computations.emplace_back();
  computation.module_ = this;
  computation.name_ = computation_names_.TakeUnique(name, arena());
  computations_.push_back(&computation);
  return &computation;
}

void Module::SetComputations(std::vector<Computation*> computations) {
  computations_ = std::move(computations);
}

Instruction* Module::AddRaw(Computation* parent, Opcode opcode, std::string_view name,
                            const Shape* shape, std::span<Instruction* const> operands,
                            void* attributes, std::span<Computation* const> called) {
  Instruction* instruction = arena().New<Instruction>();
  instruction->opcode_ = opcode;
  instruction->id_ = next_id_++;
  instruction->name_ = name;
  instruction->shape_ = shape;
  instruction->parent_ = parent;
  instruction->attributes_ = attributes;
  const auto own_operands = arena().NewSpan<Instruction*>(operands.size());
  std::copy(operands.begin(), operands.end(), own_operands.begin());
  instruction->operands_ = own_operands.data();
  instruction->operand_count_ = static_cast<uint32_t>(operands.size());
  const auto own_called = arena().NewSpan<Computation*>(called.size());
  std::copy(called.begin(), called.end(), own_called.begin());
  instruction->called_ = own_called.data();
  instruction->called_count_ = static_cast<uint32_t>(called.size());
  largest_channel_id_ = std::max(largest_channel_id_, ChannelIdOf(opcode, attributes));
  parent->Append(instruction);
  return instruction;
}

Instruction* Module::Clone(Computation* parent, const Instruction* original,
                           std::span<Instruction* const> operands, std::string_view name) {
  Instruction* copy = AddRaw(parent, original->opcode_, name, original->shape_, operands,
                             original->attributes_, original->called());
  copy->sharding_ = original->sharding_;
  copy->metadata_ = original->metadata_;
  copy->frontend_attributes_ = original->frontend_attributes_;
  copy->backend_config_ = original->backend_config_;
  copy->source_ = original->source_;
  if (original->extras_ != nullptr) {
    // Control predecessors belong to the original's computation.
    Instruction::Extras extras = *original->extras_;
    extras.control_predecessors = {};
    copy->extras_ = arena().New<Instruction::Extras>(extras);
  }
  return copy;
}

const ReplicaGroups* Module::Own(ReplicaGroups groups) {
  return &storage_->replica_groups.emplace_back(std::move(groups));
}

int64_t Module::DeviceCount() const {
  if (header_.num_partitions > 1) return header_.num_partitions;
  int64_t at_least = 1;
  for (const Computation* computation : computations_) {
    for (const Instruction* instruction : computation->instructions()) {
      if (instruction->sharding() != nullptr) {
        const int64_t count = DeviceCountOf(instruction->sharding(), at_least);
        if (count > 0) return count;
      }
      if (IsCollective(instruction->opcode())) {
        at_least =
            std::max(at_least, DeviceCountOf(instruction->attributes<CollectiveAttributes>()));
      }
    }
  }
  return at_least;
}

Diagnostic Module::WhyDeviceCount() const {
  const int64_t devices = DeviceCount();
  auto note = [&](SourceRange range, std::string message) {
    Diagnostic diagnostic = ErrorAt(range, "", std::move(message));
    diagnostic.severity = Severity::kNote;
    return diagnostic;
  };
  if (header_.num_partitions > 1) {
    const std::string text = fmt::format("num_partitions={}", header_.num_partitions);
    const size_t at = source_ == nullptr ? std::string_view::npos : source_->text().find(text);
    if (at == std::string_view::npos) return note({}, text + " was asked for");
    const auto begin = static_cast<uint32_t>(at);
    return note({begin, begin + static_cast<uint32_t>(text.size())},
                fmt::format("the module is for {} devices", devices));
  }
  for (const Computation* computation : computations_) {
    for (const Instruction* instruction : computation->instructions()) {
      int64_t at_least = 1;
      if (instruction->sharding() == nullptr) continue;
      const int64_t count = DeviceCountOf(instruction->sharding(), at_least);
      if (count == devices || instruction->sharding()->device_count() == devices) {
        return note(instruction->source(),
                    fmt::format("'{}' is sharded over {} devices", instruction->name(), devices));
      }
      if (at_least != devices) continue;
      return note(instruction->source(),
                  fmt::format("'{}' names device {}", instruction->name(), devices - 1));
    }
  }
  return note({}, fmt::format("the collectives of the module name {} devices", devices));
}

Diagnostic Module::ErrorAt(SourceRange range, std::string code, std::string message) const {
  if (source_ != nullptr && !range.empty()) {
    return source_->Locate(range, Severity::kError, std::move(code), std::move(message));
  }
  Diagnostic error = MakeError(std::move(code), std::move(message));
  if (source_ != nullptr) error.file = source_->name();
  return error;
}

Diagnostic Module::ErrorAt(const Instruction* instruction, std::string code,
                           std::string message) const {
  if (source_ == nullptr || instruction->source().empty()) {
    message = fmt::format("instruction %{}: {}", instruction->name(), message);
  }
  return ErrorAt(instruction->source(), std::move(code), std::move(message));
}

Module& Module::operator=(Module&& other) noexcept {
  name_ = std::move(other.name_);
  context_ = std::move(other.context_);
  source_ = std::move(other.source_);
  storage_ = std::move(other.storage_);
  header_ = std::move(other.header_);
  debug_tables_ = other.debug_tables_;
  computations_ = std::move(other.computations_);
  entry_ = other.entry_;
  next_id_ = other.next_id_;
  largest_channel_id_ = other.largest_channel_id_;
  instruction_names_ = std::move(other.instruction_names_);
  computation_names_ = std::move(other.computation_names_);
  for (Computation& computation : storage_->computations) computation.module_ = this;
  return *this;
}

std::unique_ptr<Module> Module::Clone() const {
  auto copy = std::make_unique<Module>(name_, context_);
  copy->source_ = source_;
  copy->header_ = header_;
  copy->debug_tables_ = debug_tables_;
  copy->storage_->inherited.push_back(storage_);
  copy->instruction_names_ = instruction_names_;
  copy->computation_names_ = computation_names_;
  copy->next_id_ = next_id_;
  copy->largest_channel_id_ = largest_channel_id_;

  tsl::robin_map<const Computation*, Computation*> computation_of;
  for (const Computation* original : computations_) {
    Computation& computation = copy->storage_->computations.emplace_back();
    computation.module_ = copy.get();
    computation.name_ = original->name_;
    computation.execution_thread_ = original->execution_thread_;
    computation.source_ = original->source_;
    copy->computations_.push_back(&computation);
    computation_of[original] = &computation;
  }
  if (entry_ != nullptr) copy->entry_ = computation_of.at(entry_);

  Arena& arena = copy->arena();
  std::vector<Instruction*> instruction_of(next_id_, nullptr);
  for (const Computation* original : computations_) {
    for (const Instruction* instruction : original->instructions()) {
      instruction_of[instruction->id()] = arena.New<Instruction>(*instruction);
    }
  }
  for (const Computation* original : computations_) {
    Computation* computation = computation_of.at(original);
    computation->instructions_.reserve(original->instructions_.size());
    for (const Instruction* source : original->instructions()) {
      Instruction* instruction = instruction_of[source->id()];
      instruction->parent_ = computation;
      instruction->attributes_ = CopyAttributes(arena, source->opcode_, source->attributes_);
      instruction->operands_ = arena.NewSpan<Instruction*>(source->operand_count_).data();
      for (uint32_t i = 0; i < source->operand_count_; ++i) {
        instruction->operands_[i] = instruction_of[source->operands_[i]->id()];
      }
      instruction->called_ = arena.NewSpan<Computation*>(source->called_count_).data();
      for (uint32_t i = 0; i < source->called_count_; ++i) {
        instruction->called_[i] = computation_of.at(source->called_[i]);
      }
      if (source->extras_ != nullptr) {
        Instruction::Extras extras = *source->extras_;
        const auto predecessors = arena.NewSpan<Instruction*>(extras.control_predecessors.size());
        for (size_t i = 0; i < predecessors.size(); ++i) {
          predecessors[i] = instruction_of[extras.control_predecessors[i]->id()];
        }
        extras.control_predecessors = predecessors;
        instruction->extras_ = arena.New<Instruction::Extras>(extras);
      }
      computation->instructions_.push_back(instruction);
    }
    for (const Instruction* parameter : original->parameters_) {
      computation->parameters_.push_back(parameter == nullptr ? nullptr
                                                              : instruction_of[parameter->id()]);
    }
    if (original->root_ != nullptr) computation->root_ = instruction_of[original->root_->id()];
  }
  return copy;
}

}  // namespace gshard
