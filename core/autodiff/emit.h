// Arithmetic on arrays as rules write it, with scalar constants of the array's type.
#ifndef GSHARD_CORE_AUTODIFF_EMIT_H_
#define GSHARD_CORE_AUTODIFF_EMIT_H_

#include <cmath>

#include "core/autodiff/leaves.h"
#include "ir/builder.h"
#include "ir/constant_fill.h"
#include "ir/dims.h"

namespace gshard {

class Emit {
 public:
  explicit Emit(Builder& builder) : b_(builder) {}

  Instruction* Like(const Instruction* x, double value) const {
    return b_.BroadcastScalar(b_.Scalar(x->shape()->dtype(), value), x->shape()->dims());
  }
  Instruction* Unary(Opcode opcode, Instruction* x) const {
    // Functions have attributes, other operations have none.
    Instruction* operands[] = {x};
    if (AttributeTagOf(opcode) == &AttributeType<MathAttributes>::kTag) {
      return b_.Add(opcode, operands, MathAttributes{});
    }
    return b_.Add(opcode, {x});
  }
  Instruction* Neg(Instruction* x) const {
    if (x->opcode() == Opcode::kNegate) return x->operand(0);
    if (x->shape()->rank() > 0) {
      if (Instruction* scalar = ScalarOf(x)) return Fill(Neg(scalar), x);
    }
    return Unary(Opcode::kNegate, x);
  }
  Instruction* Real(Instruction* x) const { return Unary(Opcode::kReal, x); }
  Instruction* Imag(Instruction* x) const { return Unary(Opcode::kImag, x); }
  Instruction* Complex(Instruction* re, Instruction* im) const {
    return b_.Add(Opcode::kComplex, {re, im});
  }
  // The complex conjugate; x itself if it is real.
  Instruction* Conj(Instruction* x) const {
    return IsComplex(x->shape()->dtype()) ? Complex(Real(x), Neg(Imag(x))) : x;
  }
  Instruction* Add(Instruction* x, Instruction* y) const { return b_.Add(x, y); }
  Instruction* Add(Instruction* x, double y) const { return b_.Add(x, Like(x, y)); }
  Instruction* Sub(Instruction* x, Instruction* y) const { return b_.Subtract(x, y); }
  Instruction* Sub(double x, Instruction* y) const { return b_.Subtract(Like(y, x), y); }
  // Products of what is the same in every element are products of scalars; a factor of one is none.
  Instruction* Mul(Instruction* x, Instruction* y) const {
    const std::optional<double> a = FillingNumber(x), b = FillingNumber(y);
    if (a == 1.0) return y;
    if (b == 1.0) return x;
    if (a && b && IsFloat(x->shape()->dtype())) return Like(x, *a * *b);
    // What a select left out must stay zero: 0 * inf is not.
    const std::optional<double> factor = a ? a : b;
    if (factor && !std::isfinite(*factor)) {
      Instruction* c = a ? y : x;
      return WhereNot(Equal(c, Like(c, 0)), b_.Multiply(x, y));
    }
    Instruction* s = ScalarOf(x);
    Instruction* t = s != nullptr ? ScalarOf(y) : nullptr;
    return t != nullptr ? Fill(b_.Multiply(s, t), x) : b_.Multiply(x, y);
  }
  Instruction* Mul(Instruction* x, double y) const { return Mul(x, Like(x, y)); }
  Instruction* Div(Instruction* x, Instruction* y) const {
    if (FillingNumber(y) == 1.0) return x;
    Instruction* s = ScalarOf(x);
    Instruction* t = s != nullptr ? ScalarOf(y) : nullptr;
    return t != nullptr ? Fill(b_.Binary(Opcode::kDivide, s, t), x)
                        : b_.Binary(Opcode::kDivide, x, y);
  }
  Instruction* Equal(Instruction* x, Instruction* y) const {
    return b_.Compare(ComparisonDirection::kEq, x, y);
  }
  Instruction* Greater(Instruction* x, Instruction* y) const {
    return b_.Compare(ComparisonDirection::kGt, x, y);
  }
  Instruction* Less(Instruction* x, Instruction* y) const {
    return b_.Compare(ComparisonDirection::kLt, x, y);
  }
  // pred ? x : 0. A scalar pred chooses for all elements.
  Instruction* Where(Instruction* pred, Instruction* x) const {
    return b_.Select(pred, x, b_.Zero(x->shape()->bare()));
  }
  Instruction* WhereNot(Instruction* pred, Instruction* x) const {
    return b_.Select(pred, b_.Zero(x->shape()->bare()), x);
  }
  // Sum over `dimensions`; x itself if there are none. Small floats are added up in f32, as in JAX.
  Instruction* Sum(Instruction* x, std::span<const int64_t> dimensions) const {
    if (dimensions.empty()) return x;
    if (Instruction* scalar = ScalarOf(x)) return SumOfEquals(x, scalar, dimensions);
    const DType dtype = x->shape()->dtype();
    if (IsFloat(dtype) && DTypeBits(dtype) < 32) {
      return b_.Convert(Sum(b_.Convert(x, DType::kF32), dimensions), dtype);
    }
    return b_.Reduce(x, b_.Scalar(dtype, 0), dimensions, b_.BinaryComputation(Opcode::kAdd, dtype));
  }
  Instruction* SumAll(Instruction* x) const {
    std::vector<int64_t> all;
    for (int64_t d = 0; d < x->shape()->rank(); ++d) all.push_back(d);
    return Sum(x, all);
  }
  // Back over the dims that were reduced: x has the others, in order.
  Instruction* Spread(Instruction* x, std::span<const int64_t> result_dims,
                      std::span<const int64_t> reduced) const {
    if (Instruction* scalar = ScalarOf(x)) return b_.BroadcastScalar(scalar, result_dims);
    std::vector<int64_t> kept;
    for (int64_t d = 0; d < static_cast<int64_t>(result_dims.size()); ++d) {
      if (!Contains(reduced, d)) kept.push_back(d);
    }
    return b_.Broadcast(x, result_dims, kept);
  }

 private:
  // The scalar that every element of x is, if x was made so.
  static Instruction* ScalarOf(Instruction* x) {
    if (x->shape()->rank() == 0) return x;
    return x->opcode() == Opcode::kBroadcast && x->operand(0)->shape()->rank() == 0 ? x->operand(0)
                                                                                    : nullptr;
  }
  Instruction* Fill(Instruction* scalar, const Instruction* like) const {
    return b_.BroadcastScalar(scalar, like->shape()->dims());
  }
  Instruction* SumOfEquals(const Instruction* x, Instruction* scalar,
                           std::span<const int64_t> dimensions) const {
    double count = 1;
    std::vector<int64_t> kept;
    for (int64_t d = 0; d < x->shape()->rank(); ++d) {
      if (Contains(dimensions, d)) {
        count *= static_cast<double>(x->shape()->dim(d));
      } else {
        kept.push_back(x->shape()->dim(d));
      }
    }
    return b_.BroadcastScalar(Mul(scalar, count), kept);
  }

  Builder& b_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_AUTODIFF_EMIT_H_
