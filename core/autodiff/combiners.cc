#include "core/autodiff/combiners.h"

#include <limits>

#include "core/analysis/combiner.h"
#include "core/autodiff/leaves.h"
#include "ir/constant_fill.h"

namespace gshard {

std::optional<Opcode> ReductionOf(const Computation& computation) {
  const std::optional<Opcode> combiner = CombinerOf(&computation);
  if (!combiner) return std::nullopt;
  switch (*combiner) {
    case Opcode::kAdd:
    case Opcode::kMultiply:
    case Opcode::kMaximum:
    case Opcode::kMinimum:
      return combiner;
    default:  // no reduction that has an adjoint
      return std::nullopt;
  }
}

bool IsIdentityOf(const Instruction* init, Opcode combiner) {
  if (IsFilledWithIdentity(init, combiner)) return true;
  const std::optional<double> value = FillingNumber(init);
  if (!value) return false;
  const bool is_f64 = init->shape()->dtype() == DType::kF64;
  if (!is_f64 && init->shape()->dtype() != DType::kF32) return false;
  // The lowest finite number counts too: nothing that is compared with it is smaller.
  const double highest = is_f64 ? std::numeric_limits<double>::max()
                                : static_cast<double>(std::numeric_limits<float>::max());
  return (combiner == Opcode::kMaximum && *value == -highest) ||
         (combiner == Opcode::kMinimum && *value == highest);
}

Instruction* ElementAt(Builder& builder, Instruction* x, Instruction* i) {
  return builder.Reshape(builder.DynamicSliceDim(x, 0, i, 1), x->shape()->dims().subspan(1));
}

Instruction* WithElementAt(Builder& builder, Instruction* x, Instruction* element, Instruction* i) {
  std::vector<int64_t> sizes(x->shape()->dims().begin(), x->shape()->dims().end());
  sizes[0] = 1;
  return builder.DynamicUpdateDim(x, builder.Reshape(element, sizes), 0, i);
}

}  // namespace gshard
