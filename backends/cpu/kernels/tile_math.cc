// Tile functions of transcendental operations on f32 and f64.
//
// Vectorised through Highway's contrib/math where its error is at most 2-4 ulp (special values are
// put right here), the C library elsewhere. Every element's result depends on that element only, so
// tile boundaries never change a bit.
#include <cmath>
#include <cstdint>
#include <limits>

#include "backends/cpu/kernels/tile_functions.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/tile_math.cc"
#include "backends/cpu/kernels/targets.h"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// Highway's header is not clean under our warnings.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#include <hwy/contrib/math/math-inl.h>
#pragma GCC diagnostic pop
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace gshard::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
#include "backends/cpu/kernels/tile_loops-inl.h"

// Applies Op::Do(d, v) to whole vectors; the tail is padded with ones.
template <typename Op, typename T>
void VectorLoop(const Tile& tile) {
  const hn::ScalableTag<T> d;
  const T* in = static_cast<const T*>(tile.in[0]);
  T* out = static_cast<T*>(tile.out);
  const size_t n = static_cast<size_t>(tile.count);
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(Op::Do(d, hn::LoadU(d, in + i)), d, out + i);
  if (i == n) return;
  HWY_ALIGN T buffer[HWY_MAX_BYTES / sizeof(T)];
  for (size_t k = 0; k < lanes; ++k) buffer[k] = i + k < n ? in[i + k] : T{1};
  hn::Store(Op::Do(d, hn::Load(d, buffer)), d, buffer);
  for (size_t k = 0; i + k < n; ++k) out[i + k] = buffer[k];
}

template <typename T>
constexpr T kInfinity = std::numeric_limits<T>::infinity();
// Above it exp overflows (the last steps before are left to the scaling of the result).
template <typename T>
constexpr T kExpLimit = sizeof(T) == 4 ? T{89} : T{710};

template <class D, class V>
HWY_INLINE V PropagateNaN(D, V x, V result) {
  return hn::IfThenElse(hn::IsNaN(x), x, result);
}

struct ExpOp {
  template <class D, class V>
  static HWY_INLINE V Do(D d, V x) {
    using T = hn::TFromD<D>;
    const V y = hn::Exp(d, hn::Min(x, hn::Set(d, kExpLimit<T>)));
    return PropagateNaN(
        d, x, hn::IfThenElse(hn::Gt(x, hn::Set(d, kExpLimit<T>)), hn::Set(d, kInfinity<T>), y));
  }
};
struct Expm1Op {
  template <class D, class V>
  static HWY_INLINE V Do(D d, V x) {
    using T = hn::TFromD<D>;
    V y = hn::Expm1(d, hn::Min(x, hn::Set(d, kExpLimit<T>)));
    y = hn::IfThenElse(hn::Gt(x, hn::Set(d, kExpLimit<T>)), hn::Set(d, kInfinity<T>), y);
    // Tiny arguments, signed zeros among them, are their own result.
    const V tiny = hn::Set(d, std::numeric_limits<T>::epsilon() / 8);
    y = hn::IfThenElse(hn::Lt(hn::Abs(x), tiny), x, y);
    return PropagateNaN(d, x, y);
  }
};
template <class D, class V>
HWY_INLINE V LogSpecials(D d, V x, V y) {
  using T = hn::TFromD<D>;
  const V infinity = hn::Set(d, kInfinity<T>);
  y = hn::IfThenElse(hn::Eq(x, infinity), infinity, y);
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), y);
  y = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::NaN(d), y);
  return PropagateNaN(d, x, y);
}
struct LogOp {
  template <class D, class V>
  static HWY_INLINE V Do(D d, V x) {
    return LogSpecials(d, x, hn::Log(d, x));
  }
};
struct Log1pOp {
  template <class D, class V>
  static HWY_INLINE V Do(D d, V x) {
    using T = hn::TFromD<D>;
    const V one = hn::Set(d, T{1});
    const V y = LogSpecials(d, hn::Add(x, one), hn::Log1p(d, x));
    return hn::IfThenElse(hn::Eq(hn::Add(x, one), one), x, PropagateNaN(d, x, y));
  }
};
struct TanhOp {
  template <class D, class V>
  static HWY_INLINE V Do(D d, V x) {
    using T = hn::TFromD<D>;
    const V tiny = hn::Set(d, std::numeric_limits<T>::epsilon() / 8);
    const V y = hn::IfThenElse(hn::Lt(hn::Abs(x), tiny), x, hn::Tanh(d, x));
    return PropagateNaN(d, x, y);
  }
};
struct LogisticOp {
  template <class D, class V>
  static HWY_INLINE V Do(D d, V x) {
    using T = hn::TFromD<D>;
    const V one = hn::Set(d, T{1});
    return hn::Div(one, hn::Add(one, ExpOp::Do(d, hn::Neg(x))));
  }
};

// erf of f32: x P(x^2) below 1, 1 - exp(Q(x)) above, Q fitted to log(erfc); from 4.1 on it is 1.
// Coefficients: least-squares fits at Chebyshev nodes, reweighted towards the minimax error
// (below 2e-9 relative in both ranges, before rounding).
struct ErfOp {
  template <class D, class V>
  static HWY_INLINE V Do(D d, V x) {
    const V a = hn::Abs(x);
    const V u = hn::Mul(a, a);
    V p = hn::Set(d, 0x1.496a28p-14f);
    p = hn::MulAdd(p, u, hn::Set(d, -0x1.a3f6fcp-11f));
    p = hn::MulAdd(p, u, hn::Set(d, 0x1.5405b2p-8f));
    p = hn::MulAdd(p, u, hn::Set(d, -0x1.b7f90cp-6f));
    p = hn::MulAdd(p, u, hn::Set(d, 0x1.ce2cf8p-4f));
    p = hn::MulAdd(p, u, hn::Set(d, -0x1.81273ep-2f));
    p = hn::MulAdd(p, u, hn::Set(d, 0x1.20dd74p+0f));
    const V small = hn::Mul(p, a);
    const V b = hn::Min(a, hn::Set(d, 4.1f));
    V q = hn::Set(d, 0x1.938bfep-13f);
    q = hn::MulAdd(q, b, hn::Set(d, -0x1.8a55c8p-9f));
    q = hn::MulAdd(q, b, hn::Set(d, 0x1.69e24cp-6f));
    q = hn::MulAdd(q, b, hn::Set(d, -0x1.a882c4p-4f));
    q = hn::MulAdd(q, b, hn::Set(d, -0x1.4668a0p-1f));
    q = hn::MulAdd(q, b, hn::Set(d, -0x1.20a234p+0f));
    q = hn::MulAdd(q, b, hn::Set(d, -0x1.0099a6p-12f));
    const V large = hn::Sub(hn::Set(d, 1.0f), hn::Exp(d, q));
    const V y = hn::IfThenElse(hn::Lt(a, hn::Set(d, 1.0f)), small, large);
    return PropagateNaN(d, x, hn::CopySign(y, x));
  }
};

// Highway reduces arguments well up to 39000; beyond, and for NaN and infinity, the C library.
template <bool kSine>
void SineCosineLoop(const Tile& tile) {
  const hn::ScalableTag<float> d;
  const float* in = static_cast<const float*>(tile.in[0]);
  float* out = static_cast<float*>(tile.out);
  const size_t n = static_cast<size_t>(tile.count);
  const size_t lanes = hn::Lanes(d);
  HWY_ALIGN float buffer[HWY_MAX_BYTES / sizeof(float)];
  for (size_t i = 0; i < n; i += lanes) {
    const size_t left = n - i < lanes ? n - i : lanes;
    for (size_t k = 0; k < lanes; ++k) buffer[k] = k < left ? in[i + k] : 0.0f;
    const auto x = hn::Load(d, buffer);
    const auto in_range = hn::Le(hn::Abs(x), hn::Set(d, 30000.0f));
    auto y = kSine ? hn::Sin(d, x) : hn::Cos(d, x);
    if (kSine) y = hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, 1e-5f)), x, y);
    if (!hn::AllTrue(d, in_range)) {
      HWY_ALIGN float values[HWY_MAX_BYTES / sizeof(float)];
      hn::Store(y, d, values);
      for (size_t k = 0; k < left; ++k) {
        if (std::fabs(buffer[k]) <= 30000.0f) continue;
        values[k] = kSine ? std::sin(buffer[k]) : std::cos(buffer[k]);
      }
      y = hn::Load(d, values);
    }
    hn::Store(y, d, buffer);
    for (size_t k = 0; k < left; ++k) out[i + k] = buffer[k];
  }
}

template <typename T, T (*kFunction)(T)>
void LibraryLoop(const Tile& tile) {
  const T* in = static_cast<const T*>(tile.in[0]);
  T* out = static_cast<T*>(tile.out);
  for (int64_t i = 0; i < tile.count; ++i) out[i] = kFunction(in[i]);
}
template <typename T, T (*kFunction)(T, T)>
void LibraryLoop2(const Tile& tile) {
  const T* a = static_cast<const T*>(tile.in[0]);
  const T* b = static_cast<const T*>(tile.in[1]);
  T* out = static_cast<T*>(tile.out);
  for (int64_t i = 0; i < tile.count; ++i) out[i] = kFunction(a[i], b[i]);
}

// The common exponents are products, as XLA computes them.
template <typename T>
T Power(T x, T y) {
  if (y == T{2}) return x * x;
  if (y == T{3}) return x * x * x;
  return std::pow(x, y);
}
// The loop of f32 or of f64, where they differ.
template <typename T, TileFunction kSingle, TileFunction kDouble>
constexpr TileFunction kEither = sizeof(T) == sizeof(float) ? kSingle : kDouble;

// One line an opcode.
template <typename T>
TileFunction FindFor(Opcode opcode) {
  switch (opcode) {
    case Opcode::kExponential:
      return &VectorLoop<ExpOp, T>;
    case Opcode::kLogistic:
      return &VectorLoop<LogisticOp, T>;
    case Opcode::kExponentialMinusOne:
      return kEither<T, &VectorLoop<Expm1Op, float>, &LibraryLoop<double, std::expm1>>;
    case Opcode::kLog:
      return kEither<T, &VectorLoop<LogOp, float>, &LibraryLoop<double, std::log>>;
    case Opcode::kLogPlusOne:
      return kEither<T, &VectorLoop<Log1pOp, float>, &LibraryLoop<double, std::log1p>>;
    case Opcode::kTanh:
      return kEither<T, &VectorLoop<TanhOp, float>, &LibraryLoop<double, std::tanh>>;
    case Opcode::kErf:
      return kEither<T, &VectorLoop<ErfOp, float>, &LibraryLoop<double, std::erf>>;
    case Opcode::kSine:
      return kEither<T, &SineCosineLoop<true>, &LibraryLoop<double, std::sin>>;
    case Opcode::kCosine:
      return kEither<T, &SineCosineLoop<false>, &LibraryLoop<double, std::cos>>;
    case Opcode::kCbrt:
      return &LibraryLoop<T, std::cbrt>;
    case Opcode::kTan:
      return &LibraryLoop<T, std::tan>;
    case Opcode::kSinh:
      return &LibraryLoop<T, std::sinh>;
    case Opcode::kCosh:
      return &LibraryLoop<T, std::cosh>;
    case Opcode::kAsin:
      return &LibraryLoop<T, std::asin>;
    case Opcode::kAcos:
      return &LibraryLoop<T, std::acos>;
    case Opcode::kAsinh:
      return &LibraryLoop<T, std::asinh>;
    case Opcode::kAcosh:
      return &LibraryLoop<T, std::acosh>;
    case Opcode::kAtanh:
      return &LibraryLoop<T, std::atanh>;
    case Opcode::kAtan2:
      return &LibraryLoop2<T, std::atan2>;
    case Opcode::kPower:
      return &LibraryLoop2<T, Power<T>>;
    default:  // no transcendental function
      return nullptr;
  }
}

TileFunction FindMath(Opcode opcode, DType type) {
  if (type == DType::kF32) return FindFor<float>(opcode);
  if (type == DType::kF64) return FindFor<double>(opcode);
  return nullptr;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gshard::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gshard::cpu {
HWY_EXPORT(FindMath);

TileFunction MathFunction(Opcode opcode, DType type) {
  return HWY_DYNAMIC_DISPATCH(FindMath)(opcode, type);
}
}  // namespace gshard::cpu
#endif
