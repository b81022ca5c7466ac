// Which devices hold equal values, found before running.
//
// The lattice goes from uniform (one class of all devices) to distinct. An operation's result
// varies as its operands do (the join of their classes); a collective's by the sequences of classes
// that its groups bring together; values carried by loops by fixpoint. Small values that follow
// from constants and partition-id alone (offset tables, masks of the partitioner) are computed
// here, device by device, so that equality is by value, and are constants of the plan afterwards.
#ifndef GSHARD_BACKENDS_CPU_PLAN_UNIFORMITY_H_
#define GSHARD_BACKENDS_CPU_PLAN_UNIFORMITY_H_

#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/plan/program.h"

namespace gshard::cpu {

// Sets Value::classes of every value, Value::known where it can, Op::kernel and Op::groups.
// `parameter_classes`: one per Program::parameters.
Expected<void> AnalyzeUniformity(Program& program,
                                 std::span<const DeviceClasses* const> parameter_classes);

// Which operand a select with known predicate picks on a device, where that is one for all
// elements.
struct ConstantSelect {
  const Value* predicate = nullptr;  // null: not known, or differs from element to element
  bool OnTrue(uint32_t device) const {
    return predicate->known[static_cast<size_t>(predicate->classes->class_of(device) *
                                                predicate->bytes)] != std::byte{0};
  }
};
ConstantSelect ChoiceOf(const Program& program, ValueId predicate);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_PLAN_UNIFORMITY_H_
