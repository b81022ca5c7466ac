// Reshape, dynamic-reshape and bitcast: the result is declared and must hold the same elements.
#include "ir/ops/shape_rules.h"

namespace gshard {

namespace {

Problem CheckSameElements(const OpView& op) {
  const Shape* x = op.operands[0];
  const Shape* to = op.declared;
  if (x->dtype() != to->dtype()) {
    return ProblemOf("{} keeps the element type of its operand {}, found {}", OpcodeName(op.opcode),
                     Text(x), Text(to));
  }
  if (x->element_count() != to->element_count() && !HasUnbounded(x) && !HasUnbounded(to)) {
    return ProblemOf("{} keeps the number of elements: {} has {}, {} has {}", OpcodeName(op.opcode),
                     Text(x), x->element_count(), Text(to), to->element_count());
  }
  return std::nullopt;
}

}  // namespace

ShapeResult InferReshape(Context&, const OpView& op) {
  if (Problem problem = CheckArrays(op)) return Wrong(std::move(problem));
  if (Problem problem = CheckDeclaredArray(op)) return Wrong(std::move(problem));
  if (Problem problem = CheckSameElements(op)) return Wrong(std::move(problem));
  const int64_t inferred = op.as<ReshapeAttributes>().inferred_dimension;
  if (inferred != -1) {
    if (Problem problem = CheckDimIndex("inferred_dimension", inferred, op.declared->rank())) {
      return Wrong(std::move(problem));
    }
  }
  return op.declared->bare();
}

ShapeResult InferDynamicReshape(Context&, const OpView& op) {
  if (op.operands.empty()) return Wrong("dynamic-reshape needs an operand and its sizes");
  if (Problem problem = CheckArrays(op)) return Wrong(std::move(problem));
  if (Problem problem = CheckDeclaredArray(op)) return Wrong(std::move(problem));
  if (op.operands.size() - 1 != static_cast<size_t>(op.declared->rank())) {
    return Wrong("dynamic-reshape needs one size per dim of its result {}, found {}",
                 Text(op.declared), op.operands.size() - 1);
  }
  for (const Shape* size : op.operands.subspan(1)) {
    if (!size->IsScalar() || size->dtype() != DType::kS32) {
      return Wrong("sizes of dynamic-reshape must be s32[], found {}", Text(size));
    }
  }
  if (Problem problem = CheckSameElements(op)) return Wrong(std::move(problem));
  return op.declared->bare();
}

ShapeResult InferBitcast(Context&, const OpView& op) {
  const Shape* x = op.operands[0];
  const Shape* to = op.declared;
  if (to == nullptr) return Wrong("the result shape of bitcast must be given");
  if (!x->IsArray() || !to->IsArray()) {
    if (SameUpToDynamic(x, to)) return to->bare();
    return Wrong("bitcast of {} must keep its shape, found {}", Text(x), Text(to));
  }
  // Tiled layouts pad the array in ways that dims do not tell.
  auto tiled = [](const Shape* s) { return s->layout() != nullptr && !s->layout()->tail.empty(); };
  if (x->byte_size() != to->byte_size() && !tiled(x) && !tiled(to) && !HasUnbounded(x) &&
      !HasUnbounded(to)) {
    return Wrong("bitcast keeps the bytes: {} has {}, {} has {}", Text(x), x->byte_size(), Text(to),
                 to->byte_size());
  }
  return to->bare();
}

}  // namespace gshard
