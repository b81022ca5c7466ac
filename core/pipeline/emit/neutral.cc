#include "core/pipeline/emit/neutral.h"

#include <cmath>

namespace gshard::pipeline {
namespace {

double Lowest(DType type) {
  if (ClassOf(type) == DTypeClass::kFloat) return -INFINITY;
  if (ClassOf(type) != DTypeClass::kSigned) return 0;
  return -std::ldexp(1.0, static_cast<int>(StorageBytes(type)) * 8 - 1);
}

double Highest(DType type) {
  if (ClassOf(type) == DTypeClass::kFloat) return INFINITY;
  if (ClassOf(type) == DTypeClass::kSigned) return -Lowest(type) - 1;
  if (ClassOf(type) != DTypeClass::kUnsigned) return 1;
  return std::ldexp(1.0, static_cast<int>(StorageBytes(type)) * 8) - 1;
}

}  // namespace

Instruction* NeutralOf(Builder& b, const Shape* shape, Opcode combiner) {
  DType type = shape->dtype();
  switch (combiner) {
    case Opcode::kAdd:
    case Opcode::kOr:
    case Opcode::kXor:
      return b.Zero(shape);
    case Opcode::kMaximum:
      return b.Filled(shape, b.Scalar(type, Lowest(type)));
    case Opcode::kMinimum:
      return b.Filled(shape, b.Scalar(type, Highest(type)));
    case Opcode::kAnd:
      if (ClassOf(type) == DTypeClass::kSigned) return b.Filled(shape, b.ScalarInt(type, -1));
      return b.Filled(shape, b.Scalar(type, Highest(type)));
    default:  // of products
      return b.Filled(shape, b.Scalar(type, 1));
  }
}

}  // namespace gshard::pipeline
