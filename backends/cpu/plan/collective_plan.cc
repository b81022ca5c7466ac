// Planning of collectives: geometry, members, traffic.
#include "backends/cpu/plan/collective_plan.h"

#include <fmt/format.h>

#include "backends/cpu/plan/views.h"
#include "core/analysis/collective_classes.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

int64_t Product(std::span<const int64_t> dims) {
  int64_t product = 1;
  for (int64_t dim : dims) product *= dim;
  return product;
}

class CollectivePlanner {
 public:
  CollectivePlanner(const Program& program, const Op& op, const InstancePlaces& places)
      : program_(program), op_(op), places_(places) {}

  Expected<CollectiveStep> Run() {
    CollectiveStep step;
    step.op = &op_;
    step.bytes_sent = BytesSent();
    GSHARD_TRY(CheckShapes());
    if (op_.instruction->opcode() == Opcode::kRaggedAllToAll) {
      step.parts.push_back(RaggedPart());
      return step;
    }
    for (size_t k = 0; k < op_.results.size(); ++k) {
      if (value(op_.results[k]).view != nullptr || value(op_.results[k]).fused_into_reduction)
        continue;
      auto part = GSHARD_TRY(MakePart(k));
      step.parts.push_back(std::move(part));
    }
    step.moves_data = !step.parts.empty();
    return step;
  }

  const Value& value(ValueId id) const { return program_.values[id]; }
  const Instruction& x() const { return *op_.instruction; }
  int64_t GroupSize() const {
    const ResolvedGroups& groups = op_.devices->groups;
    return groups.group_count() == 0 ? 1 : static_cast<int64_t>(groups.group(0).size());
  }

  // Ring formulas of docs/json.md, "gshard.run/1".
  int64_t BytesSent() const {
    int64_t operand_bytes = 0;
    for (const Instruction* operand : x().operands())
      operand_bytes += operand->shape()->byte_size();
    const int64_t g = GroupSize();
    switch (x().opcode()) {
      case Opcode::kAllReduce:
      case Opcode::kAllReduceStart:
        return 2 * operand_bytes * (g - 1) / g;
      case Opcode::kAllGather:
      case Opcode::kAllGatherStart:
        return operand_bytes * (g - 1);
      case Opcode::kReduceScatter:
      case Opcode::kAllToAll:
        return operand_bytes * (g - 1) / g;
      case Opcode::kRaggedAllToAll:
        return x().operand(0)->shape()->byte_size() * (g - 1) / g;
      default:  // sends its operand
        return operand_bytes;
    }
  }

  tl::unexpected<Diagnostic> Mismatch(std::string message) const {
    return Fail(program_.module->ErrorAt(&x(), "E-RUN-GROUPS", std::move(message)));
  }

  Expected<void> CheckShapes() const {
    const int64_t g = GroupSize();
    const auto& attributes = x().attributes<CollectiveAttributes>();
    for (size_t k = 0; k < op_.results.size() && k < op_.operands.size(); ++k) {
      const int64_t in = value(op_.operands[k]).bytes, out = value(op_.results[k]).bytes;
      bool fits = true;
      switch (x().opcode()) {
        case Opcode::kAllGather:
        case Opcode::kAllGatherStart:
          fits = out == in * g;
          break;
        case Opcode::kReduceScatter:
          fits = in == out * g;
          break;
        case Opcode::kAllToAll:
          fits = in == out;
          if (attributes.dimension >= 0) {
            fits =
                fits &&
                x().operand(static_cast<int64_t>(k))->shape()->dim(attributes.dimension) % g == 0;
          }
          break;
        case Opcode::kRaggedAllToAll:
          break;
        default:  // shapes are equal
          fits = in == out;
      }
      if (!fits) {
        return Mismatch(fmt::format("operand {} of {} and the result {} do not fit groups of {}", k,
                                    ToString(x().operand(static_cast<int64_t>(k))->shape(), false),
                                    ToString(x().shape(), false), g));
      }
    }
    return {};
  }

  // Geometry, classes and fold; members are left out.
  Expected<CollectivePart> MakeFrame(size_t k, const GroupSequences& sequences) const {
    const Value& result = value(op_.results[k]);
    const Value& operand = value(op_.operands[k]);
    const Shape* shape = x().operand(static_cast<int64_t>(k))->shape();
    CollectivePart part;
    part.operand = static_cast<uint32_t>(k);
    part.result_bytes = result.bytes;
    part.operand_bytes = operand.bytes;
    part.classes = result.classes;
    part.element_bytes = StorageBytes(shape->dtype());
    const ResolvedGroups& groups = op_.devices->groups;
    for (uint32_t c = 0; c < result.classes->count(); ++c) {
      const uint32_t device = result.classes->first_device(c);
      part.results.push_back(places_.OffsetOf(op_.results[k], c));
      part.sequence_of.push_back(sequences.sequence_of[groups.group_of[device]]);
      part.position_of.push_back(groups.position_of[device]);
    }
    const auto& attributes = x().attributes<CollectiveAttributes>();
    const int64_t g = GroupSize();
    part.inner = operand.bytes;
    if (attributes.dimension >= 0 && operand.bytes > 0) {
      part.outer = Product(shape->dims().first(static_cast<size_t>(attributes.dimension)));
      part.inner = operand.bytes / part.outer;  // of all-gather: one member's row
      if (x().opcode() == Opcode::kReduceScatter || x().opcode() == Opcode::kAllToAll) {
        part.blocks = g;
        part.inner /= g;
      }
    }
    if (!x().called().empty()) {
      part.fold = GSHARD_TRY(MakeFold(*x().called(0), shape->dtype()));
    }
    return part;
  }

 private:
  Expected<CollectivePart> MakePart(size_t k) const {
    const ResolvedGroups& groups = op_.devices->groups;
    const Value& operand = value(op_.operands[k]);
    const GroupSequences sequences = SequencesOf(groups, *operand.classes);
    auto part = GSHARD_TRY(MakeFrame(k, sequences));
    for (uint32_t group : sequences.first_group) {
      part.begin.push_back(static_cast<uint32_t>(part.members.size()));
      for (uint32_t device : groups.group(group)) {
        part.members.push_back(
            places_.OffsetOf(Locate(program_, op_.operands[k], operand.classes->class_of(device))));
      }
    }
    part.begin.push_back(static_cast<uint32_t>(part.members.size()));
    return part;
  }

  // All six operands of all members, as classes of their join.
  CollectivePart RaggedPart() const {
    const Value& result = value(op_.results[0]);
    const ResolvedGroups& groups = op_.devices->groups;
    CollectivePart part;
    part.result_bytes = result.bytes;
    part.operand_bytes = value(op_.operands[0]).bytes;
    part.classes = result.classes;
    const Shape* shape = x().operand(0)->shape();
    part.inner = shape->element_count() == 0
                     ? 0
                     : value(op_.operands[0]).bytes / std::max<int64_t>(shape->dim(0), 1);
    for (uint32_t c = 0; c < result.classes->count(); ++c) {
      const uint32_t device = result.classes->first_device(c);
      part.results.push_back(places_.OffsetOf(op_.results[0], c));
      part.sequence_of.push_back(c);
      part.position_of.push_back(groups.position_of[device]);
      part.begin.push_back(static_cast<uint32_t>(part.members.size()));
      for (uint32_t member : groups.group(groups.group_of[device])) {
        for (ValueId operand : op_.operands) {
          part.members.push_back(places_.OffsetOf(
              Locate(program_, operand, value(operand).classes->class_of(member))));
        }
      }
    }
    part.begin.push_back(static_cast<uint32_t>(part.members.size()));
    return part;
  }

  const Program& program_;
  const Op& op_;
  const InstancePlaces& places_;
};

}  // namespace

Expected<CollectiveStep> PlanCollective(const Program& program, const Op& op,
                                        const InstancePlaces& places) {
  return CollectivePlanner(program, op, places).Run();
}

Expected<CollectivePart> PlanFinish(const Program& program, const Op& op, size_t index,
                                    const InstancePlaces& places,
                                    std::span<const int64_t> accumulators, uint32_t per_group) {
  const Value& operand = program.values[op.operands[index]];
  const GroupSequences sequences = SequencesOf(op.devices->groups, *operand.classes);
  auto part = GSHARD_TRY(CollectivePlanner(program, op, places).MakeFrame(index, sequences));
  part.members.assign(accumulators.begin(), accumulators.end());
  part.fold_block = 1;
  for (uint32_t i = 0; i <= sequences.first_group.size(); ++i) part.begin.push_back(i * per_group);
  return part;
}

}  // namespace gshard::cpu
