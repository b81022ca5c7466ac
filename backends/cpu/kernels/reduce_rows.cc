// Row reductions. Floats: four vectors of partial results over blocks of 4096 elements, which also
// keeps rounding errors of long sums small. Integers: the compiler's vectorised loops.
#include "backends/cpu/kernels/reduce_rows.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/reduce_rows.cc"
#include "backends/cpu/kernels/targets.h"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace gshard::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kBlock = 4096;

struct AddOp {
  template <typename T>
  static T Do(T a, T b) {
    return static_cast<T>(a + b);
  }
  template <class D, class V>
  static HWY_INLINE V Do(D, V a, V b) {
    return hn::Add(a, b);
  }
};
struct MultiplyOp {
  template <typename T>
  static T Do(T a, T b) {
    if constexpr (sizeof(T) < 4) {
      return static_cast<T>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
    } else {
      return static_cast<T>(a * b);
    }
  }
  template <class D, class V>
  static HWY_INLINE V Do(D, V a, V b) {
    return hn::Mul(a, b);
  }
};
// NaN wins; +0 > -0.
struct MaximumOp {
  template <typename T>
  static T Do(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (a == b) return std::signbit(a) ? b : a;
      return a != a || a > b ? a : b;
    }
    return a > b ? a : b;
  }
  template <class D, class V>
  static HWY_INLINE V Do(D d, V a, V b) {
    // Equal values differ in the sign of zero only: the conjunction of bits clears it.
    const V larger = hn::IfThenElse(hn::Gt(a, b), a, b);
    const V ordered = hn::IfThenElse(hn::Eq(a, b), hn::And(a, b), larger);
    (void)d;
    return hn::IfThenElse(hn::IsNaN(a), a, ordered);
  }
};
struct MinimumOp {
  template <typename T>
  static T Do(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (a == b) return std::signbit(a) ? a : b;
      return a != a || a < b ? a : b;
    }
    return a < b ? a : b;
  }
  template <class D, class V>
  static HWY_INLINE V Do(D d, V a, V b) {
    const V smaller = hn::IfThenElse(hn::Lt(a, b), a, b);
    const V ordered = hn::IfThenElse(hn::Eq(a, b), hn::Or(a, b), smaller);
    (void)d;
    return hn::IfThenElse(hn::IsNaN(a), a, ordered);
  }
};
struct AndOp {
  template <typename T>
  static T Do(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct OrOp {
  template <typename T>
  static T Do(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct XorOp {
  template <typename T>
  static T Do(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

// All lanes folded into one, halves onto halves.
template <typename Op, class D>
hn::TFromD<D> Folded(D d, hn::Vec<D> v) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (hn::MaxLanes(D()) > 4) {
    const hn::Half<D> half;
    return Folded<Op>(half, Op::Do(half, hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
#endif
  HWY_ALIGN hn::TFromD<D> partial[HWY_MAX_BYTES / sizeof(hn::TFromD<D>)];
  hn::Store(v, d, partial);
  for (size_t have = hn::Lanes(d); have > 1; have /= 2) {
    for (size_t k = 0; k < have / 2; ++k) partial[k] = Op::Do(partial[k], partial[k + have / 2]);
  }
  return partial[0];
}

template <typename Op, typename T>
T BlockOfFloats(const T* in, size_t n) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d);
  if (n < lanes) {
    T result = in[0];
    for (size_t i = 1; i < n; ++i) result = Op::Do(result, in[i]);
    return result;
  }
  V s0 = hn::LoadU(d, in);
  size_t i = lanes;
  if (n >= 4 * lanes) {
    V s1 = hn::LoadU(d, in + lanes);
    V s2 = hn::LoadU(d, in + 2 * lanes), s3 = hn::LoadU(d, in + 3 * lanes);
    for (i = 4 * lanes; i + 4 * lanes <= n; i += 4 * lanes) {
      s0 = Op::Do(d, s0, hn::LoadU(d, in + i));
      s1 = Op::Do(d, s1, hn::LoadU(d, in + i + lanes));
      s2 = Op::Do(d, s2, hn::LoadU(d, in + i + 2 * lanes));
      s3 = Op::Do(d, s3, hn::LoadU(d, in + i + 3 * lanes));
    }
    s0 = Op::Do(d, Op::Do(d, s0, s1), Op::Do(d, s2, s3));
  }
  for (; i + lanes <= n; i += lanes) s0 = Op::Do(d, s0, hn::LoadU(d, in + i));
  T result = Folded<Op>(d, s0);
  for (; i < n; ++i) result = Op::Do(result, in[i]);
  return result;
}

template <typename Op, typename T>
void FloatRows(const void* data, int64_t count, int64_t rows, int64_t stride, void* accumulators) {
  const T* in = static_cast<const T*>(data);
  T* result = static_cast<T*>(accumulators);
  const size_t n = static_cast<size_t>(count);
  for (int64_t r = 0; r < rows; ++r, in += stride, ++result) {
    for (size_t i = 0; i < n; i += kBlock) {
      *result = Op::Do(*result, BlockOfFloats<Op, T>(in + i, std::min(kBlock, n - i)));
    }
  }
}

template <typename Op, typename T>
void PlainRows(const void* data, int64_t count, int64_t rows, int64_t stride, void* accumulators) {
  const T* in = static_cast<const T*>(data);
  for (int64_t r = 0; r < rows; ++r, in += stride) {
    T sum = static_cast<T*>(accumulators)[r];
    for (int64_t i = 0; i < count; ++i) sum = Op::Do(sum, in[i]);
    static_cast<T*>(accumulators)[r] = sum;
  }
}

template <typename T>
ReduceRowsFunction FindFloat(Opcode opcode) {
  switch (opcode) {
    case Opcode::kAdd:
      return &FloatRows<AddOp, T>;
    case Opcode::kMultiply:
      return &FloatRows<MultiplyOp, T>;
    case Opcode::kMaximum:
      return &FloatRows<MaximumOp, T>;
    case Opcode::kMinimum:
      return &FloatRows<MinimumOp, T>;
    default:  // no such reduction
      return nullptr;
  }
}

// Operations for which the sign of the type does not matter run on the unsigned type.
template <typename T>
ReduceRowsFunction FindInteger(Opcode opcode) {
  using U = std::make_unsigned_t<T>;
  switch (opcode) {
    case Opcode::kAdd:
      return &PlainRows<AddOp, U>;
    case Opcode::kMultiply:
      return &PlainRows<MultiplyOp, U>;
    case Opcode::kMaximum:
      return &PlainRows<MaximumOp, T>;
    case Opcode::kMinimum:
      return &PlainRows<MinimumOp, T>;
    case Opcode::kAnd:
      return &PlainRows<AndOp, U>;
    case Opcode::kOr:
      return &PlainRows<OrOp, U>;
    case Opcode::kXor:
      return &PlainRows<XorOp, U>;
    default:  // no such reduction
      return nullptr;
  }
}

ReduceRowsFunction FindPred(Opcode opcode) {
  switch (opcode) {
    case Opcode::kAdd:
    case Opcode::kMaximum:
    case Opcode::kOr:
      return &PlainRows<OrOp, uint8_t>;
    case Opcode::kMultiply:
    case Opcode::kMinimum:
    case Opcode::kAnd:
      return &PlainRows<AndOp, uint8_t>;
    case Opcode::kXor:
      return &PlainRows<XorOp, uint8_t>;
    default:  // no such reduction
      return nullptr;
  }
}

ReduceRowsFunction Find(Opcode opcode, DType type) {
  switch (type) {
    case DType::kPred:
      return FindPred(opcode);
    case DType::kF32:
      return FindFloat<float>(opcode);
    case DType::kF64:
      return FindFloat<double>(opcode);
    case DType::kS8:
      return FindInteger<int8_t>(opcode);
    case DType::kS16:
      return FindInteger<int16_t>(opcode);
    case DType::kS32:
      return FindInteger<int32_t>(opcode);
    case DType::kS64:
      return FindInteger<int64_t>(opcode);
    case DType::kU8:
      return FindInteger<uint8_t>(opcode);
    case DType::kU16:
      return FindInteger<uint16_t>(opcode);
    case DType::kU32:
      return FindInteger<uint32_t>(opcode);
    case DType::kU64:
      return FindInteger<uint64_t>(opcode);
    case DType::kC64:
      return opcode == Opcode::kAdd ? &PlainRows<AddOp, std::complex<float>> : nullptr;
    case DType::kC128:
      return opcode == Opcode::kAdd ? &PlainRows<AddOp, std::complex<double>> : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gshard::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gshard::cpu {
HWY_EXPORT(Find);

ReduceRowsFunction FindReduceRows(Opcode opcode, DType type) {
  return HWY_DYNAMIC_DISPATCH(Find)(opcode, type);
}
}  // namespace gshard::cpu
#endif
