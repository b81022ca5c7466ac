#include "ir/ops/shape_rules.h"

namespace gshard {

ShapeResult InferRng(Context&, const OpView& op) {
  if (Problem problem = CheckDeclaredArray(op)) return Wrong(std::move(problem));
  if (op.operands.size() != 2) {
    return Wrong("rng takes two parameters of its distribution, found {}", op.operands.size());
  }
  const DType type = op.declared->dtype();
  if (IsComplex(type)) return Wrong("rng makes real numbers, found {}", Text(op.declared));
  if (op.as<RngAttributes>().distribution == RngDistribution::kNormal && !IsFloat(type)) {
    return Wrong("rng_normal makes floats, found {}", Text(op.declared));
  }
  for (const Shape* operand : op.operands) {
    if (!operand->IsScalar() || operand->dtype() != type) {
      return Wrong("operands of rng must be {}[] as its result is, found {}", DTypeName(type),
                   Text(operand));
    }
  }
  return op.declared->bare();
}

ShapeResult InferRngBitGenerator(Context& ctx, const OpView& op) {
  const Shape* state = op.operands[0];
  if (!state->IsArray() || !IsInteger(state->dtype()) || state->rank() > 1) {
    return Wrong("the state of rng-bit-generator must be an integer vector, found {}", Text(state));
  }
  const Shape* to = op.declared;
  if (to == nullptr) return Wrong("the result shape of rng-bit-generator must be given");
  if (!to->IsTuple() || to->elements().size() != 2 || !SameUpToDynamic(to->element(0), state)) {
    return Wrong("rng-bit-generator returns its new state {} and the bits, found {}", Text(state),
                 Text(to));
  }
  const Shape* bits = to->element(1);
  if (!bits->IsArray() || !(IsInteger(bits->dtype()) || IsFloat(bits->dtype()))) {
    return Wrong("the bits of rng-bit-generator must be an array of numbers, found {}", Text(bits));
  }
  const Shape* parts[] = {state->bare(), bits->bare()};
  return ctx.Tuple(parts);
}

ShapeResult InferRngState(Context&, const OpView& op) {
  if (Problem problem = CheckDeclaredArray(op)) return Wrong(std::move(problem));
  if (op.declared->dtype() != DType::kU64 || op.declared->rank() != 1 || op.declared->dim(0) != 2) {
    return Wrong("rng-get-and-update-state returns u64[2], found {}", Text(op.declared));
  }
  return op.declared->bare();
}

}  // namespace gshard
