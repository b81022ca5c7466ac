// Operations without operands: their shapes are declared, attributes must fit them.
#include "ir/literal.h"
#include "ir/ops/shape_rules.h"

namespace gshard {

ShapeResult InferParameter(Context&, const OpView& op) {
  if (op.declared == nullptr) return Wrong("the shape of a parameter must be given");
  if (op.as<ParameterAttributes>().number < 0) {
    return Wrong("parameter numbers start at 0, found {}", op.as<ParameterAttributes>().number);
  }
  return op.declared->bare();
}

ShapeResult InferConstant(Context&, const OpView& op) {
  const Literal* literal = op.as<ConstantAttributes>().literal;
  if (literal == nullptr) return Wrong("a constant needs a value");
  if (op.declared != nullptr && !SameUpToDynamic(literal->shape, op.declared)) {
    return Wrong("the value of the constant is {}, its shape {}", Text(literal->shape),
                 Text(op.declared));
  }
  return literal->shape->bare();
}

ShapeResult InferIota(Context&, const OpView& op) {
  if (Problem problem = CheckDeclaredArray(op)) return Wrong(std::move(problem));
  const Shape* shape = op.declared;
  if (shape->rank() == 0) return Wrong("iota needs at least one dim, found {}", Text(shape));
  if (ClassOf(shape->dtype()) == DTypeClass::kPredicate) {
    return Wrong("iota counts in integers, floats or complex numbers, found {}", Text(shape));
  }
  if (Problem problem =
          CheckDimIndex("iota_dimension", op.as<IotaAttributes>().dimension, shape->rank())) {
    return Wrong(std::move(problem));
  }
  return shape->bare();
}

ShapeResult InferDeviceId(Context& ctx, const OpView&) { return ctx.Scalar(DType::kU32); }

}  // namespace gshard
