#include "backends/cpu/plan/collective_reads.h"

namespace gshard::cpu {

bool IsSplit(const Op& op) {
  return op.instruction->opcode() == Opcode::kAllToAll &&
         op.instruction->attributes<CollectiveAttributes>().dimension >= 0;
}

void ForEachRead(const Op& op, size_t k, uint32_t device,
                 const std::function<void(ValueId, uint32_t, int64_t)>& visit) {
  const ResolvedGroups& groups = op.devices->groups;
  const std::vector<ValueId>& operands = op.passed_on;
  const auto members = [&] { return groups.group(groups.group_of[device]); };
  switch (op.instruction->opcode()) {
    case Opcode::kCollectivePermute:
    case Opcode::kCollectivePermuteStart: {
      const uint32_t source = op.devices->sources[device];
      if (source != kNoDevice) visit(operands[k], source, -1);
      return;
    }
    case Opcode::kCollectiveBroadcast:
      if (groups.group_of[device] != kNoDevice) visit(operands[k], members()[0], -1);
      return;
    case Opcode::kAllToAll: {
      const auto position = groups.position_of[device];
      if (!IsSplit(op)) {
        visit(operands[position], members()[k], -1);
        return;
      }
      for (uint32_t member : members()) visit(operands[k], member, position);
      return;
    }
    case Opcode::kAllGather:
    case Opcode::kAllGatherStart:
      for (uint32_t member : members()) visit(operands[k], member, -1);
      return;
    case Opcode::kRaggedAllToAll:
      for (uint32_t member : members()) {
        for (size_t i = 2; i < operands.size(); ++i) visit(operands[i], member, -1);
      }
      return;
    default:  // reductions read all: no copy
      return;
  }
}

}  // namespace gshard::cpu
