#include "core/autodiff/combiners.h"

#include <limits>

#include "core/analysis/combiner.h"
#include "core/autodiff/leaves.h"

namespace gshard {
namespace {

const Instruction* SkipConverts(const Instruction* x) {
  while (x->opcode() == Opcode::kConvert || x->opcode() == Opcode::kCopy) x = x->operand(0);
  return x;
}

}  // namespace

std::optional<Opcode> ReductionOf(const Computation& computation) {
  if (std::optional<Opcode> plain = CombinerOf(&computation)) return plain;
  if (computation.parameter_count() != 2) return std::nullopt;
  const Instruction* root = computation.root();
  if (!IsFloat(root->shape()->dtype())) return std::nullopt;
  root = SkipConverts(root);
  if (root->operand_count() != 2) return std::nullopt;
  const Instruction* a = SkipConverts(root->operand(0));
  const Instruction* b = SkipConverts(root->operand(1));
  if (a == b || a->opcode() != Opcode::kParameter || b->opcode() != Opcode::kParameter) {
    return std::nullopt;
  }
  switch (root->opcode()) {
    case Opcode::kAdd:
    case Opcode::kMultiply:
    case Opcode::kMaximum:
    case Opcode::kMinimum:
      return root->opcode();
    default:
      return std::nullopt;
  }
}

bool IsIdentityOf(const Instruction* init, Opcode combiner) {
  const std::optional<double> value = ConstantValue(init);
  if (!value) return false;
  // The lowest finite number counts too: nothing that is compared with it is smaller.
  const double huge = init->shape()->dtype() == DType::kF64
                          ? std::numeric_limits<double>::max()
                          : (init->shape()->dtype() == DType::kF32
                                 ? static_cast<double>(std::numeric_limits<float>::max())
                                 : std::numeric_limits<double>::infinity());
  switch (combiner) {
    case Opcode::kAdd:
      return *value == 0;
    case Opcode::kMultiply:
      return *value == 1;
    case Opcode::kMaximum:
      return *value <= -huge;
    case Opcode::kMinimum:
      return *value >= huge;
    default:
      return false;
  }
}

Instruction* ElementAt(Builder& builder, Instruction* x, Instruction* i) {
  std::vector<int64_t> sizes(x->shape()->dims().begin(), x->shape()->dims().end());
  std::vector<Instruction*> starts(sizes.size(), builder.ScalarInt(DType::kS32, 0));
  starts[0] = i;
  sizes[0] = 1;
  Instruction* slice = builder.DynamicSlice(x, starts, sizes);
  sizes.erase(sizes.begin());
  return builder.Reshape(slice, sizes);
}

Instruction* WithElementAt(Builder& builder, Instruction* x, Instruction* element, Instruction* i) {
  std::vector<int64_t> sizes(x->shape()->dims().begin(), x->shape()->dims().end());
  std::vector<Instruction*> starts(sizes.size(), builder.ScalarInt(DType::kS32, 0));
  starts[0] = i;
  sizes[0] = 1;
  return builder.DynamicUpdateSlice(x, builder.Reshape(element, sizes), starts);
}

}  // namespace gshard
