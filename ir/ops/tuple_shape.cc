// Tuples, tokens and operations that only order others.
#include <algorithm>

#include "ir/ops/shape_rules.h"

namespace gshard {

ShapeResult InferTuple(Context& ctx, const OpView& op) {
  // Tuples of a program can have thousands of elements: no interning where the text says it all.
  if (op.declared != nullptr && op.declared->IsTuple() &&
      std::equal(op.operands.begin(), op.operands.end(), op.declared->elements().begin(),
                 op.declared->elements().end(), Compatible)) {
    return op.declared->bare();
  }
  return ctx.Tuple(op.operands)->bare();
}

ShapeResult InferGetTupleElement(Context&, const OpView& op) {
  const Shape* x = op.operands[0];
  const int64_t index = op.as<GetTupleElementAttributes>().index;
  if (!x->IsTuple()) return Wrong("get-tuple-element takes a tuple, found {}", Text(x));
  if (index < 0 || index >= static_cast<int64_t>(x->elements().size())) {
    return Wrong("get-tuple-element index {} is out of range for a tuple of {}", index,
                 x->elements().size());
  }
  return x->element(index)->bare();
}

ShapeResult InferSameAsOperand(Context&, const OpView& op) { return op.operands[0]->bare(); }

ShapeResult InferAfterAll(Context& ctx, const OpView& op) {
  for (const Shape* operand : op.operands) {
    if (!operand->IsToken()) return Wrong("after-all takes tokens, found {}", Text(operand));
  }
  return ctx.Token();
}

ShapeResult InferAddDependency(Context&, const OpView& op) {
  if (!op.operands[1]->IsToken()) {
    return Wrong("the second operand of add-dependency must be a token, found {}",
                 Text(op.operands[1]));
  }
  return op.operands[0]->bare();
}

// (destination, source, context)
ShapeResult InferCopyStart(Context& ctx, const OpView& op) {
  const Shape* x = op.operands[0]->bare();
  const Shape* context = ctx.Scalar(DType::kU32);
  if (op.declared != nullptr) {
    if (!op.declared->IsTuple() || op.declared->elements().size() != 3 ||
        !op.declared->element(2)->IsScalar() || !IsInteger(op.declared->element(2)->dtype())) {
      return Wrong("copy-start of {} returns ({}, {}, u32[]), found {}", Text(x), Text(x), Text(x),
                   Text(op.declared));
    }
    context = op.declared->element(2)->bare();
  }
  const Shape* parts[] = {x, x, context};
  return ctx.Tuple(parts);
}

ShapeResult InferCopyDone(Context&, const OpView& op) {
  const Shape* x = op.operands[0];
  if (!x->IsTuple() || x->elements().size() != 3 || !Compatible(x->element(0), x->element(1))) {
    return Wrong("copy-done takes the result of copy-start, found {}", Text(x));
  }
  return x->element(0)->bare();
}

}  // namespace gshard
