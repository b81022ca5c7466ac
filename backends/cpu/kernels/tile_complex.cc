// Tile functions of c64 and c128 (docs/semantics.md, "Complex"), by the C++ library's definitions.
#include <cmath>
#include <complex>
#include <cstdint>

#include "backends/cpu/kernels/tile_functions.h"

namespace gshard::cpu {
namespace {

template <typename C, C (*kFunction)(C)>
void Unary(const Tile& tile) {
  const C* in = static_cast<const C*>(tile.in[0]);
  C* out = static_cast<C*>(tile.out);
  for (int64_t i = 0; i < tile.count; ++i) out[i] = kFunction(in[i]);
}
template <typename C, C (*kFunction)(C, C)>
void Binary(const Tile& tile) {
  const C* a = static_cast<const C*>(tile.in[0]);
  const C* b = static_cast<const C*>(tile.in[1]);
  C* out = static_cast<C*>(tile.out);
  for (int64_t i = 0; i < tile.count; ++i) out[i] = kFunction(a[i], b[i]);
}
template <typename C, typename C::value_type (*kFunction)(C)>
void ToReal(const Tile& tile) {
  const C* in = static_cast<const C*>(tile.in[0]);
  typename C::value_type* out = static_cast<typename C::value_type*>(tile.out);
  for (int64_t i = 0; i < tile.count; ++i) out[i] = kFunction(in[i]);
}

template <typename C>
C Add(C a, C b) {
  return a + b;
}
template <typename C>
C Subtract(C a, C b) {
  return a - b;
}
template <typename C>
C Multiply(C a, C b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}
template <typename C>
C Divide(C a, C b) {
  return a / b;
}
// Products and sums of f32 parts neither overflow nor underflow in f64: the plain formula suffices,
// which is what the library's call computes. It tells which infinity or zero is meant where no part
// is a number.
template <>
std::complex<float> Divide(std::complex<float> a, std::complex<float> b) {
  const double ar = a.real(), ai = a.imag(), br = b.real(), bi = b.imag();
  const double norm = br * br + bi * bi;
  const auto real = static_cast<float>((ar * br + ai * bi) / norm);
  const auto imag = static_cast<float>((ai * br - ar * bi) / norm);
  if (std::isnan(real) && std::isnan(imag)) return a / b;
  return {real, imag};
}
template <typename C>
C Power(C a, C b) {
  if (a == C{0}) return b == C{0} ? C{1} : std::pow(a, b);
  return std::pow(a, b);
}
// atan2 of complex numbers: -i log((x + i y) / sqrt(x^2 + y^2)).
template <typename C>
C Atan2(C y, C x) {
  const C i{0, 1};
  return -i * std::log((x + i * y) / std::sqrt(x * x + y * y));
}
template <typename C>
C Negate(C a) {
  return -a;
}
template <typename C>
C Sign(C a) {
  if (a == C{0}) return a;
  const typename C::value_type magnitude = std::hypot(a.real(), a.imag());
  return {a.real() / magnitude, a.imag() / magnitude};
}
template <typename C>
C Exp(C a) {
  return std::exp(a);
}
template <typename C>
C Expm1(C a) {
  // exp(x) cos(y) - 1 without cancellation for small x and y.
  using T = typename C::value_type;
  const T half = std::sin(a.imag() / 2);
  return {std::expm1(a.real()) * std::cos(a.imag()) - 2 * half * half,
          std::exp(a.real()) * std::sin(a.imag())};
}
template <typename C>
C Log(C a) {
  return std::log(a);
}
template <typename C>
C Log1p(C a) {
  using T = typename C::value_type;
  // log|1 + z| = log1p(2 Re z + |z|^2) / 2, exact near 0.
  const T x = a.real(), y = a.imag();
  if (std::fabs(x) < T{0.5} && std::fabs(y) < T{0.5}) {
    return {std::log1p(x * (2 + x) + y * y) / 2, std::atan2(y, 1 + x)};
  }
  return std::log(C{1 + x, y});
}
template <typename C>
C Logistic(C a) {
  return C{1} / (C{1} + std::exp(-a));
}
template <typename C>
C Sqrt(C a) {
  return std::sqrt(a);
}
template <typename C>
C Rsqrt(C a) {
  return C{1} / std::sqrt(a);
}
template <typename C>
C Sine(C a) {
  return std::sin(a);
}
template <typename C>
C Cosine(C a) {
  return std::cos(a);
}
template <typename C>
C Tan(C a) {
  return std::tan(a);
}
template <typename C>
C Tanh(C a) {
  return std::tanh(a);
}
template <typename C>
C Sinh(C a) {
  return std::sinh(a);
}
template <typename C>
C Cosh(C a) {
  return std::cosh(a);
}
template <typename C>
C Asin(C a) {
  return std::asin(a);
}
template <typename C>
C Acos(C a) {
  return std::acos(a);
}
template <typename C>
C Asinh(C a) {
  return std::asinh(a);
}
template <typename C>
C Acosh(C a) {
  return std::acosh(a);
}
template <typename C>
C Atanh(C a) {
  return std::atanh(a);
}
template <typename C>
typename C::value_type Abs(C a) {
  return std::hypot(a.real(), a.imag());
}
template <typename C>
typename C::value_type Real(C a) {
  return a.real();
}
template <typename C>
typename C::value_type Imag(C a) {
  return a.imag();
}

template <typename C>
void MakeComplex(const Tile& tile) {
  using T = typename C::value_type;
  const T* re = static_cast<const T*>(tile.in[0]);
  const T* im = static_cast<const T*>(tile.in[1]);
  C* out = static_cast<C*>(tile.out);
  for (int64_t i = 0; i < tile.count; ++i) out[i] = C{re[i], im[i]};
}
template <typename From, typename To>
void Convert(const Tile& tile) {
  const From* in = static_cast<const From*>(tile.in[0]);
  To* out = static_cast<To*>(tile.out);
  for (int64_t i = 0; i < tile.count; ++i) out[i] = To(in[i]);
}
template <typename C, bool kEqual>
void Compare(const Tile& tile) {
  const C* a = static_cast<const C*>(tile.in[0]);
  const C* b = static_cast<const C*>(tile.in[1]);
  uint8_t* out = static_cast<uint8_t*>(tile.out);
  for (int64_t i = 0; i < tile.count; ++i) {
    const bool equal = a[i].real() == b[i].real() && a[i].imag() == b[i].imag();
    out[i] = equal == kEqual ? 1 : 0;
  }
}

template <typename C>
TileFunction Find(Opcode opcode) {
  switch (opcode) {
    case Opcode::kAdd:
      return &Binary<C, Add<C>>;
    case Opcode::kSubtract:
      return &Binary<C, Subtract<C>>;
    case Opcode::kMultiply:
      return &Binary<C, Multiply<C>>;
    case Opcode::kDivide:
      return &Binary<C, Divide<C>>;
    case Opcode::kPower:
      return &Binary<C, Power<C>>;
    case Opcode::kAtan2:
      return &Binary<C, Atan2<C>>;
    case Opcode::kNegate:
      return &Unary<C, Negate<C>>;
    case Opcode::kSign:
      return &Unary<C, Sign<C>>;
    case Opcode::kExponential:
      return &Unary<C, Exp<C>>;
    case Opcode::kExponentialMinusOne:
      return &Unary<C, Expm1<C>>;
    case Opcode::kLog:
      return &Unary<C, Log<C>>;
    case Opcode::kLogPlusOne:
      return &Unary<C, Log1p<C>>;
    case Opcode::kLogistic:
      return &Unary<C, Logistic<C>>;
    case Opcode::kSqrt:
      return &Unary<C, Sqrt<C>>;
    case Opcode::kRsqrt:
      return &Unary<C, Rsqrt<C>>;
    case Opcode::kSine:
      return &Unary<C, Sine<C>>;
    case Opcode::kCosine:
      return &Unary<C, Cosine<C>>;
    case Opcode::kTan:
      return &Unary<C, Tan<C>>;
    case Opcode::kTanh:
      return &Unary<C, Tanh<C>>;
    case Opcode::kSinh:
      return &Unary<C, Sinh<C>>;
    case Opcode::kCosh:
      return &Unary<C, Cosh<C>>;
    case Opcode::kAsin:
      return &Unary<C, Asin<C>>;
    case Opcode::kAcos:
      return &Unary<C, Acos<C>>;
    case Opcode::kAsinh:
      return &Unary<C, Asinh<C>>;
    case Opcode::kAcosh:
      return &Unary<C, Acosh<C>>;
    case Opcode::kAtanh:
      return &Unary<C, Atanh<C>>;
    case Opcode::kAbs:
      return &ToReal<C, Abs<C>>;
    case Opcode::kReal:
      return &ToReal<C, Real<C>>;
    case Opcode::kImag:
      return &ToReal<C, Imag<C>>;
    default:  // not of complex numbers
      return nullptr;
  }
}

}  // namespace

TileFunction ComplexFunction(Opcode opcode, DType type) {
  if (opcode == Opcode::kComplex) {
    if (type == DType::kF32) return &MakeComplex<std::complex<float>>;
    if (type == DType::kF64) return &MakeComplex<std::complex<double>>;
    return nullptr;
  }
  if (type == DType::kC64) return Find<std::complex<float>>(opcode);
  if (type == DType::kC128) return Find<std::complex<double>>(opcode);
  return nullptr;
}

TileFunction ComplexCompareFunction(ComparisonDirection direction, DType type) {
  const bool equal = direction == ComparisonDirection::kEq;
  if (!equal && direction != ComparisonDirection::kNe) return nullptr;
  if (type == DType::kC64) {
    return equal ? &Compare<std::complex<float>, true> : &Compare<std::complex<float>, false>;
  }
  if (type == DType::kC128) {
    return equal ? &Compare<std::complex<double>, true> : &Compare<std::complex<double>, false>;
  }
  return nullptr;
}

TileFunction ComplexConvertFunction(DType from, DType to) {
  using C64 = std::complex<float>;
  using C128 = std::complex<double>;
  if (from == DType::kC64 && to == DType::kC128) return &Convert<C64, C128>;
  if (from == DType::kC128 && to == DType::kC64) return &Convert<C128, C64>;
  if (from == DType::kC64 && to == DType::kF32) return &ToReal<C64, Real<C64>>;
  if (from == DType::kC128 && to == DType::kF64) return &ToReal<C128, Real<C128>>;
  if (from == DType::kF32 && to == DType::kC64) return &Convert<float, C64>;
  if (from == DType::kF64 && to == DType::kC128) return &Convert<double, C128>;
  return nullptr;
}

}  // namespace gshard::cpu
