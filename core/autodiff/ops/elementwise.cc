// Elementwise operations: the adjoint times the derivative.
//
//   y = tanh(x)        x += c * (1 - y*y)
//   y = divide(a, b)   a += c / b,  b -= (c / b) * y
//
// Complex: adjoints are dL/dx - i dL/dy of z = x + iy, so a holomorphic function's derivative is
// multiplied without a conjugate (JAX's convention).

#include <cmath>
#include <numbers>

#include "core/autodiff/emit.h"
#include "core/autodiff/expansion.h"
#include "core/autodiff/reverse_scope.h"
#include "ir/constant_fill.h"

namespace gshard {
namespace {

Instruction* Rsqrt(const Emit& e, Instruction* x) { return e.Unary(Opcode::kRsqrt, x); }

// 1 / sqrt(1 - x^2) and its like: factor by factor where branch cuts matter.
Instruction* InverseRoot(const Emit& e, Instruction* a, Instruction* b) {
  if (IsComplex(a->shape()->dtype())) return e.Mul(Rsqrt(e, a), Rsqrt(e, b));
  return Rsqrt(e, e.Mul(a, b));
}

Instruction* ConvertBack(Builder& b, Instruction* c, DType to) {
  const Emit e(b);
  const DType from = c->shape()->dtype();
  if (IsComplex(from) && !IsComplex(to)) return b.Convert(e.Real(c), to);
  return b.Convert(c, to);
}

// The adjoint of the operand of a function of one; null: none (a constant derivative of zero).
// Opcodes without a line here or a zero rule in rule_table.cc fail a test that asks for each.
Instruction* UnaryAdjoint(Instruction* instruction, Instruction* c, ReverseScope& scope) {
  Builder& b = scope.builder();
  const Emit e(b);
  const bool is_complex = IsComplex(instruction->operand(0)->shape()->dtype());
  auto x = [&] { return scope.Value(instruction->operand(0)); };
  auto y = [&] { return scope.Value(instruction); };
  switch (instruction->opcode()) {
    case Opcode::kAbs: {
      Instruction* sign = e.Unary(Opcode::kSign, x());
      return is_complex ? e.Mul(e.Complex(c, e.Like(c, 0)), e.Conj(sign)) : e.Mul(c, sign);
    }
    case Opcode::kNegate:
      return e.Neg(c);
    case Opcode::kCopy:
      return c;
    case Opcode::kConvert:
    case Opcode::kStochasticConvert:
      return ConvertBack(b, c, instruction->operand(0)->shape()->dtype());
    case Opcode::kReducePrecision:
      return b.CloneWith(instruction, std::array{c}, c->shape());
    case Opcode::kReal:
      return is_complex ? e.Complex(c, e.Like(c, 0)) : c;
    case Opcode::kImag:
      return is_complex ? e.Complex(e.Like(c, 0), e.Neg(c)) : nullptr;
    case Opcode::kExponential:
      return e.Mul(c, y());
    case Opcode::kExponentialMinusOne:
      return e.Mul(c, e.Add(y(), 1));
    case Opcode::kLog:
      return e.Div(c, x());
    case Opcode::kLogPlusOne:
      return e.Div(c, e.Add(x(), 1));
    case Opcode::kLogistic:
      return e.Mul(c, e.Mul(y(), e.Sub(1, y())));
    case Opcode::kSqrt:
      return e.Div(e.Mul(c, 0.5), y());
    case Opcode::kRsqrt:
      return e.Mul(e.Mul(c, -0.5), e.Div(y(), x()));
    case Opcode::kCbrt:
      return e.Div(e.Mul(c, 1.0 / 3), e.Mul(y(), y()));
    case Opcode::kSine:
      return e.Mul(c, e.Unary(Opcode::kCosine, x()));
    case Opcode::kCosine:
      return e.Neg(e.Mul(c, e.Unary(Opcode::kSine, x())));
    case Opcode::kTan:
      return e.Mul(c, e.Add(e.Mul(y(), y()), 1));
    case Opcode::kTanh:
      return e.Mul(c, e.Sub(1, e.Mul(y(), y())));
    case Opcode::kSinh:
      return e.Mul(c, e.Unary(Opcode::kCosh, x()));
    case Opcode::kCosh:
      return e.Mul(c, e.Unary(Opcode::kSinh, x()));
    case Opcode::kAsin:
      return e.Mul(c, InverseRoot(e, e.Sub(1, x()), e.Add(x(), 1)));
    case Opcode::kAcos:
      return e.Neg(e.Mul(c, InverseRoot(e, e.Sub(1, x()), e.Add(x(), 1))));
    case Opcode::kAsinh: {
      if (!is_complex) return e.Mul(c, Rsqrt(e, e.Add(e.Mul(x(), x()), 1)));
      Instruction* i = e.Complex(e.Like(e.Real(x()), 0), e.Like(e.Real(x()), 1));
      Instruction* ix = e.Mul(i, x());
      return e.Mul(c, e.Mul(Rsqrt(e, e.Sub(1, ix)), Rsqrt(e, e.Add(ix, 1))));
    }
    case Opcode::kAcosh:
      return e.Mul(c, e.Mul(Rsqrt(e, e.Add(x(), -1)), Rsqrt(e, e.Add(x(), 1))));
    case Opcode::kAtanh:
      return e.Div(c, e.Mul(e.Sub(1, x()), e.Add(x(), 1)));
    case Opcode::kErf:
      return e.Mul(e.Mul(c, 2 * std::numbers::inv_sqrtpi),
                   e.Unary(Opcode::kExponential, e.Neg(e.Mul(x(), x()))));
    case Opcode::kSign: {
      // z / |z| of complex z turns with z: (c - s^2 conj(c)..) / 2|z|. Of reals it is constant.
      if (!is_complex) return nullptr;
      Instruction* s = y();
      Instruction* length = e.Unary(Opcode::kAbs, x());
      Instruction* is_zero = e.Equal(length, e.Like(length, 0));
      Instruction* along = e.Mul(e.Real(e.Mul(c, s)), 1);
      Instruction* part = e.Sub(c, e.Mul(e.Complex(along, e.Like(along, 0)), e.Conj(s)));
      return e.WhereNot(is_zero, e.Div(part, e.Complex(length, e.Like(length, 0))));
    }
    default:
      throw InternalError("no derivative of an elementwise operation of one operand");
  }
}

// x^y where x, y > 0 or y is a constant: JAX's values where x or y is zero.
void GradPower(Instruction* instruction, Instruction* c, ReverseScope& scope) {
  const Emit e(scope.builder());
  Instruction* base = instruction->operand(0);
  Instruction* exponent = instruction->operand(1);
  if (scope.Wants(base)) {
    Instruction* x = scope.Value(base);
    Instruction* y = scope.Value(exponent);
    const std::optional<double> constant = FillingNumber(exponent);
    Instruction* derivative = nullptr;
    if (constant == 2.0) {
      derivative = e.Mul(x, 2);
    } else if (constant && *constant != 0) {
      derivative =
          e.Mul(scope.builder().Binary(Opcode::kPower, x, e.Like(x, *constant - 1)), *constant);
    } else {
      Instruction* is_zero = e.Equal(y, e.Like(y, 0));
      Instruction* less = scope.builder().Select(is_zero, e.Like(y, 1), e.Add(y, -1));
      derivative = e.WhereNot(is_zero, e.Mul(y, scope.builder().Binary(Opcode::kPower, x, less)));
    }
    scope.Add(base, e.Mul(c, derivative));
  }
  if (scope.Wants(exponent)) {
    Instruction* x = scope.Value(base);
    Instruction* safe = scope.builder().Select(e.Equal(x, e.Like(x, 0)), e.Like(x, 1), x);
    scope.Add(exponent, e.Mul(c, e.Mul(e.Unary(Opcode::kLog, safe), scope.Value(instruction))));
  }
}

// maximum, minimum: the larger (smaller) takes all, equals share.
void GradExtremum(Instruction* instruction, Instruction* c, ReverseScope& scope) {
  Builder& b = scope.builder();
  const Emit e(b);
  Instruction* x = scope.Value(instruction->operand(0));
  Instruction* y = scope.Value(instruction->operand(1));
  const bool is_maximum = instruction->opcode() == Opcode::kMaximum;
  Instruction* half = e.Where(e.Equal(x, y), e.Mul(c, 0.5));
  if (scope.Wants(instruction->operand(0))) {
    scope.Add(instruction->operand(0),
              b.Select(is_maximum ? e.Greater(x, y) : e.Less(x, y), c, half));
  }
  if (scope.Wants(instruction->operand(1))) {
    scope.Add(instruction->operand(1),
              b.Select(is_maximum ? e.Greater(y, x) : e.Less(y, x), c, half));
  }
}

// x if y is 1 / (1 + exp(-x)), as JAX writes the logistic function, and nothing stops on the way.
Instruction* LogisticArgument(const Instruction* y, const ReverseScope& scope) {
  if (FillingNumber(y->operand(0)) != 1.0) return nullptr;
  const Instruction* sum = y->operand(1);
  if (sum->opcode() != Opcode::kAdd) return nullptr;
  const int64_t side = FillingNumber(sum->operand(0)) == 1.0 ? 1 : 0;
  if (FillingNumber(sum->operand(1 - side)) != 1.0) return nullptr;
  const Instruction* power = sum->operand(side);
  if (power->opcode() != Opcode::kExponential) return nullptr;
  const Instruction* negative = power->operand(0);
  if (negative->opcode() != Opcode::kNegate) return nullptr;
  Instruction* x = negative->operand(0);
  for (const Instruction* of : {sum, power, negative, static_cast<const Instruction*>(x)}) {
    if (!scope.Wants(of)) return nullptr;
  }
  return x;
}

void GradBinary(Instruction* instruction, Instruction* c, ReverseScope& scope) {
  Builder& b = scope.builder();
  const Emit e(b);
  Instruction* lhs = instruction->operand(0);
  Instruction* rhs = instruction->operand(1);
  const bool left = scope.Wants(lhs), right = scope.Wants(rhs);
  switch (instruction->opcode()) {
    case Opcode::kAdd:
      scope.Add(lhs, c);
      scope.Add(rhs, c);
      return;
    case Opcode::kSubtract:
      scope.Add(lhs, c);
      if (right) scope.Add(rhs, e.Neg(c));
      return;
    case Opcode::kMultiply:
      if (left) scope.Add(lhs, e.Mul(c, scope.Value(rhs)));
      if (right) scope.Add(rhs, e.Mul(c, scope.Value(lhs)));
      return;
    case Opcode::kDivide: {
      if (Instruction* x = LogisticArgument(instruction, scope)) {
        Instruction* y = scope.Value(instruction);
        scope.Add(x, e.Mul(c, e.Mul(y, e.Sub(1, y))));
        return;
      }
      Instruction* part = e.Div(c, scope.Value(rhs));
      if (left) scope.Add(lhs, part);
      if (right) scope.Add(rhs, e.Neg(e.Mul(part, scope.Value(instruction))));
      return;
    }
    case Opcode::kRemainder: {
      scope.Add(lhs, c);
      if (!right) return;
      Instruction* quotient =
          e.Unary(Opcode::kRoundNearestEven,
                  e.Div(e.Sub(scope.Value(lhs), scope.Value(instruction)), scope.Value(rhs)));
      scope.Add(rhs, e.Neg(e.Mul(c, quotient)));
      return;
    }
    case Opcode::kPower:
      return GradPower(instruction, c, scope);
    case Opcode::kAtan2: {
      Instruction* y = scope.Value(lhs);
      Instruction* x = scope.Value(rhs);
      Instruction* part = e.Div(c, e.Add(e.Mul(x, x), e.Mul(y, y)));
      if (left) scope.Add(lhs, e.Mul(part, x));
      if (right) scope.Add(rhs, e.Neg(e.Mul(part, y)));
      return;
    }
    case Opcode::kMaximum:
    case Opcode::kMinimum:
      return GradExtremum(instruction, c, scope);
    case Opcode::kComplex:
      if (left) scope.Add(lhs, e.Real(c));
      if (right) scope.Add(rhs, e.Neg(e.Imag(c)));
      return;
    default:
      throw InternalError("no derivative of an elementwise operation of two operands");
  }
}

// The sum over all elements where the operand is a scalar that serves for all of them.
Instruction* ToOperand(const Emit& e, const Instruction* operand, Instruction* adjoint) {
  return operand->shape()->rank() < adjoint->shape()->rank() ? e.SumAll(adjoint) : adjoint;
}

// clamp(low, x, high) = min(max(x, low), high): one of the three takes all. At the borders x gets
// nothing (JAX).
void GradClamp(Instruction* instruction, Instruction* c, ReverseScope& scope) {
  Builder& b = scope.builder();
  const Emit e(b);
  Instruction* x = scope.Value(instruction->operand(1));
  auto whole = [&](int64_t i) {
    return b.BroadcastScalar(scope.Value(instruction->operand(i)), x->shape()->dims());
  };
  auto bound = [&](int64_t i) {
    return instruction->operand(i)->shape()->rank() == x->shape()->rank()
               ? scope.Value(instruction->operand(i))
               : whole(i);
  };
  Instruction* low = bound(0);
  Instruction* high = bound(2);
  Instruction* takes_x = b.And(e.Greater(x, low), e.Less(x, high));
  if (scope.Wants(instruction->operand(1))) scope.Add(instruction->operand(1), e.Where(takes_x, c));
  if (!scope.Wants(instruction->operand(0)) && !scope.Wants(instruction->operand(2))) return;
  Instruction* takes_low = b.And(b.Compare(ComparisonDirection::kLe, x, low),
                                 b.Compare(ComparisonDirection::kLe, low, high));
  if (scope.Wants(instruction->operand(0))) {
    scope.Add(instruction->operand(0),
              ToOperand(e, instruction->operand(0), e.Where(takes_low, c)));
  }
  if (scope.Wants(instruction->operand(2))) {
    Instruction* others = b.Binary(Opcode::kOr, takes_low, takes_x);
    scope.Add(instruction->operand(2),
              ToOperand(e, instruction->operand(2), e.WhereNot(others, c)));
  }
}

}  // namespace

Expected<void> GradElementwise(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  Instruction* c = adjoints[0];
  const Emit e(scope.builder());
  if (x->opcode() == Opcode::kSelect) {
    if (x->shape()->IsTuple()) return {};
    Instruction* predicate = x->operand(0);
    if (scope.Wants(x->operand(1))) {
      scope.AddToBranch(x->operand(1), e.Where(scope.Value(predicate), c), predicate, true);
    }
    if (scope.Wants(x->operand(2))) {
      scope.AddToBranch(x->operand(2), e.WhereNot(scope.Value(predicate), c), predicate, false);
    }
  } else if (x->opcode() == Opcode::kClamp) {
    GradClamp(x, c, scope);
  } else if (x->opcode() == Opcode::kStochasticConvert || x->operand_count() == 1) {
    if (scope.Wants(x->operand(0))) scope.Add(x->operand(0), UnaryAdjoint(x, c, scope));
  } else {
    GradBinary(x, c, scope);
  }
  return {};
}

// map(a, b, ..): its computation on whole arrays.
Expected<void> GradMap(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  return scope.DifferentiateExpansion(
      x, adjoints,
      [&](Builder& builder, std::span<const std::vector<Instruction*>> operands)
          -> Expected<std::vector<Instruction*>> {
        std::vector<Instruction*> arguments;
        for (const std::vector<Instruction*>& operand : operands) arguments.push_back(operand[0]);
        return LiftComputation(builder, *x->called(0), arguments);
      });
}

}  // namespace gshard
