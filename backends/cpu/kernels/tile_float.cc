// Tile functions of f32 and f64: arithmetic, rounding, comparison, selection, precision.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "backends/cpu/kernels/tile_functions.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/tile_float.cc"
#include "backends/cpu/kernels/targets.h"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace gshard::cpu {
namespace HWY_NAMESPACE {
namespace {

#include "backends/cpu/kernels/tile_loops-inl.h"

struct AddOp {
  template <typename T>
  static T Do(T a, T b) {
    return a + b;
  }
};
struct SubtractOp {
  template <typename T>
  static T Do(T a, T b) {
    return a - b;
  }
};
struct MultiplyOp {
  template <typename T>
  static T Do(T a, T b) {
    return a * b;
  }
};
struct DivideOp {
  template <typename T>
  static T Do(T a, T b) {
    return a / b;
  }
};
struct RemainderOp {
  template <typename T>
  static T Do(T a, T b) {
    return std::fmod(a, b);
  }
};
template <typename T>
using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

// NaN if either is NaN (a comparison with a NaN b chooses it); +0 > -0: equal values differ in the
// sign of zero only.
struct MaximumOp {
  template <typename T>
  static T Do(T a, T b) {
    const T larger = a > b ? a : b;
    const T equal = std::bit_cast<T>(std::bit_cast<Bits<T>>(a) & std::bit_cast<Bits<T>>(b));
    const T ordered = a == b ? equal : larger;
    return a != a ? a : ordered;
  }
};
struct MinimumOp {
  template <typename T>
  static T Do(T a, T b) {
    const T smaller = a < b ? a : b;
    const T equal = std::bit_cast<T>(std::bit_cast<Bits<T>>(a) | std::bit_cast<Bits<T>>(b));
    const T ordered = a == b ? equal : smaller;
    return a != a ? a : ordered;
  }
};
// NaN in any of the three gives NaN; crossed bounds give the upper one.
struct ClampOp {
  template <typename T>
  static T Do(T low, T x, T high) {
    return MinimumOp::Do(MaximumOp::Do(low, x), high);
  }
};
struct AbsOp {
  template <typename T>
  static T Do(T a) {
    return std::fabs(a);
  }
};
struct NegateOp {
  template <typename T>
  static T Do(T a) {
    return -a;
  }
};
struct SignOp {
  template <typename T>
  static T Do(T a) {
    const T one = a > 0 ? T{1} : T{-1};
    return a == 0 || a != a ? a : one;
  }
};
struct FloorOp {
  template <typename T>
  static T Do(T a) {
    return std::floor(a);
  }
};
struct CeilOp {
  template <typename T>
  static T Do(T a) {
    return std::ceil(a);
  }
};
// Adding the largest value below one half cannot carry 0.49999997 to 1.
struct RoundAfzOp {
  template <typename T>
  static T Do(T a) {
    const T half = T{0.5} - std::numeric_limits<T>::epsilon() / 4;
    return std::trunc(a + std::copysign(half, a));
  }
};
struct RoundEvenOp {
  template <typename T>
  static T Do(T a) {
    return std::rint(a);
  }
};
struct SqrtOp {
  template <typename T>
  static T Do(T a) {
    return std::sqrt(a);
  }
};
struct RsqrtOp {
  template <typename T>
  static T Do(T a) {
    return T{1} / std::sqrt(a);
  }
};
struct IsFiniteOp {
  template <typename T>
  static uint8_t Do(T a) {
    return std::fabs(a) <= std::numeric_limits<T>::max() ? 1 : 0;
  }
};

template <typename T>
TileFunction Find(Opcode opcode) {
  switch (opcode) {
    case Opcode::kAdd:
      return &BinaryLoop<AddOp, T, T>;
    case Opcode::kSubtract:
      return &BinaryLoop<SubtractOp, T, T>;
    case Opcode::kMultiply:
      return &BinaryLoop<MultiplyOp, T, T>;
    case Opcode::kDivide:
      return &BinaryLoop<DivideOp, T, T>;
    case Opcode::kRemainder:
      return &BinaryLoop<RemainderOp, T, T>;
    case Opcode::kMaximum:
      return &BinaryLoop<MaximumOp, T, T>;
    case Opcode::kMinimum:
      return &BinaryLoop<MinimumOp, T, T>;
    case Opcode::kClamp:
      return &TernaryLoop<ClampOp, T>;
    case Opcode::kAbs:
      return &UnaryLoop<AbsOp, T, T>;
    case Opcode::kNegate:
      return &UnaryLoop<NegateOp, T, T>;
    case Opcode::kSign:
      return &UnaryLoop<SignOp, T, T>;
    case Opcode::kFloor:
      return &UnaryLoop<FloorOp, T, T>;
    case Opcode::kCeil:
      return &UnaryLoop<CeilOp, T, T>;
    case Opcode::kRoundNearestAfz:
      return &UnaryLoop<RoundAfzOp, T, T>;
    case Opcode::kRoundNearestEven:
      return &UnaryLoop<RoundEvenOp, T, T>;
    case Opcode::kSqrt:
      return &UnaryLoop<SqrtOp, T, T>;
    case Opcode::kRsqrt:
      return &UnaryLoop<RsqrtOp, T, T>;
    case Opcode::kIsFinite:
      return &UnaryLoop<IsFiniteOp, T, uint8_t>;
    default:  // in tile_math.cc, or not of floats
      return nullptr;
  }
}

TileFunction FindFloat(Opcode opcode, DType type) {
  if (type == DType::kF32) return Find<float>(opcode);
  if (type == DType::kF64) return Find<double>(opcode);
  return nullptr;
}

template <ComparisonDirection kDirection>
struct CompareOp {
  template <typename T>
  static uint8_t Do(T a, T b) {
    if constexpr (kDirection == ComparisonDirection::kEq) return a == b;
    if constexpr (kDirection == ComparisonDirection::kNe) return a != b;
    if constexpr (kDirection == ComparisonDirection::kLt) return a < b;
    if constexpr (kDirection == ComparisonDirection::kLe) return a <= b;
    if constexpr (kDirection == ComparisonDirection::kGt) return a > b;
    if constexpr (kDirection == ComparisonDirection::kGe) return a >= b;
  }
};

// Sign-magnitude bits as integers of the same order: -NaN < -inf < .. < -0 < +0 < .. < +NaN.
template <ComparisonDirection kDirection>
struct TotalOrderOp {
  template <typename T>
  static uint8_t Do(T a, T b) {
    constexpr int kShift = static_cast<int>(sizeof(T) * 8) - 1;
    constexpr T kMagnitude = std::numeric_limits<T>::max();
    return CompareOp<kDirection>::Do(static_cast<T>(a ^ ((a >> kShift) & kMagnitude)),
                                     static_cast<T>(b ^ ((b >> kShift) & kMagnitude)));
  }
};

template <template <ComparisonDirection> typename Op, typename T>
TileFunction FindDirection(ComparisonDirection direction) {
  switch (direction) {
    case ComparisonDirection::kEq:
      return &BinaryLoop<Op<ComparisonDirection::kEq>, T, uint8_t>;
    case ComparisonDirection::kNe:
      return &BinaryLoop<Op<ComparisonDirection::kNe>, T, uint8_t>;
    case ComparisonDirection::kLt:
      return &BinaryLoop<Op<ComparisonDirection::kLt>, T, uint8_t>;
    case ComparisonDirection::kLe:
      return &BinaryLoop<Op<ComparisonDirection::kLe>, T, uint8_t>;
    case ComparisonDirection::kGt:
      return &BinaryLoop<Op<ComparisonDirection::kGt>, T, uint8_t>;
    case ComparisonDirection::kGe:
      return &BinaryLoop<Op<ComparisonDirection::kGe>, T, uint8_t>;
  }
  return nullptr;
}

TileFunction FindCompare(ComparisonDirection direction, bool total_order, DType type) {
  switch (type) {
    case DType::kF32:
      return total_order ? FindDirection<TotalOrderOp, int32_t>(direction)
                         : FindDirection<CompareOp, float>(direction);
    case DType::kF64:
      return total_order ? FindDirection<TotalOrderOp, int64_t>(direction)
                         : FindDirection<CompareOp, double>(direction);
    case DType::kPred:
    case DType::kU8:
      return FindDirection<CompareOp, uint8_t>(direction);
    case DType::kU16:
      return FindDirection<CompareOp, uint16_t>(direction);
    case DType::kU32:
      return FindDirection<CompareOp, uint32_t>(direction);
    case DType::kU64:
      return FindDirection<CompareOp, uint64_t>(direction);
    case DType::kS8:
      return FindDirection<CompareOp, int8_t>(direction);
    case DType::kS16:
      return FindDirection<CompareOp, int16_t>(direction);
    case DType::kS32:
      return FindDirection<CompareOp, int32_t>(direction);
    case DType::kS64:
      return FindDirection<CompareOp, int64_t>(direction);
    default:
      return nullptr;
  }
}

template <typename T>
void SelectLoop(const Tile& tile) {
  const uint8_t* pred = static_cast<const uint8_t*>(tile.in[0]);
  const T* a = static_cast<const T*>(tile.in[1]);
  const T* b = static_cast<const T*>(tile.in[2]);
  T* out = static_cast<T*>(tile.out);
  const int64_t n = tile.count;
  GSHARD_INDEPENDENT_STEPS
  for (int64_t i = 0; i < n; ++i) {
    const T x = a[i], y = b[i];
    out[i] = pred[i] != 0 ? x : y;
  }
}

struct Pair {
  uint64_t low, high;
};

TileFunction FindSelect(int64_t bytes) {
  switch (bytes) {
    case 1:
      return &SelectLoop<uint8_t>;
    case 2:
      return &SelectLoop<uint16_t>;
    case 4:
      return &SelectLoop<uint32_t>;
    case 8:
      return &SelectLoop<uint64_t>;
    case 16:
      return &SelectLoop<Pair>;
    default:
      return nullptr;
  }
}

// Rounds the mantissa to nearest even, then applies the range of an IEEE type with e exponent bits:
// overflow to infinity, below its smallest normal to signed zero.
template <typename Bits, int kMantissa, int kExponent>
void ReducePrecisionLoop(const Tile& tile) {
  const Bits* in = static_cast<const Bits*>(tile.in[0]);
  Bits* out = static_cast<Bits*>(tile.out);
  const int64_t n = tile.count;
  const int exponent_bits = static_cast<int>(tile.parameter & 0xff);
  const int mantissa_bits = static_cast<int>(tile.parameter >> 8);
  constexpr Bits kSign = static_cast<Bits>(Bits{1} << (kMantissa + kExponent));
  constexpr Bits kRest = static_cast<Bits>(~kSign);
  constexpr Bits kInfinity = static_cast<Bits>(((Bits{1} << kExponent) - 1) << kMantissa);
  const int drop = mantissa_bits < kMantissa ? kMantissa - mantissa_bits : 0;
  const Bits half = drop > 0 ? static_cast<Bits>(Bits{1} << (drop - 1)) : Bits{0};
  const Bits kept_mask = static_cast<Bits>(~((Bits{1} << drop) - 1));
  Bits largest = kInfinity, smallest = 0;  // finite values are in [smallest, largest)
  if (exponent_bits < kExponent) {
    const int bias = (1 << (kExponent - 1)) - 1;
    const int reduced_bias = (1 << (exponent_bits - 1)) - 1;
    largest = static_cast<Bits>(static_cast<Bits>(bias + reduced_bias + 1) << kMantissa);
    smallest = static_cast<Bits>(static_cast<Bits>(bias - reduced_bias + 1) << kMantissa);
  }
  GSHARD_INDEPENDENT_STEPS
  for (int64_t i = 0; i < n; ++i) {
    const Bits sign = in[i] & kSign;
    const Bits magnitude = in[i] & kRest;
    const Bits odd = drop > 0 ? static_cast<Bits>((magnitude >> drop) & 1) : Bits{0};
    Bits rounded =
        drop > 0 ? static_cast<Bits>((magnitude + (half - 1) + odd) & kept_mask) : magnitude;
    rounded = rounded >= largest ? kInfinity : rounded;
    rounded = rounded < smallest ? 0 : rounded;
    out[i] = static_cast<Bits>(sign | (magnitude >= kInfinity ? magnitude : rounded));
  }
}

TileFunction FindReducePrecision(DType type) {
  if (type == DType::kF16) return &ReducePrecisionLoop<uint16_t, 10, 5>;
  if (type == DType::kF32) return &ReducePrecisionLoop<uint32_t, 23, 8>;
  if (type == DType::kF64) return &ReducePrecisionLoop<uint64_t, 52, 11>;
  return nullptr;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gshard::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gshard::cpu {
HWY_EXPORT(FindFloat);
HWY_EXPORT(FindCompare);
HWY_EXPORT(FindSelect);
HWY_EXPORT(FindReducePrecision);

TileFunction FloatFunction(Opcode opcode, DType type) {
  return HWY_DYNAMIC_DISPATCH(FindFloat)(opcode, type);
}
TileFunction RealCompareFunction(ComparisonDirection direction, bool total_order, DType type) {
  return HWY_DYNAMIC_DISPATCH(FindCompare)(direction, total_order, type);
}
TileFunction SelectFunction(int64_t element_bytes) {
  return HWY_DYNAMIC_DISPATCH(FindSelect)(element_bytes);
}
TileFunction ReducePrecisionFunction(DType type) {
  return HWY_DYNAMIC_DISPATCH(FindReducePrecision)(type);
}
}  // namespace gshard::cpu
#endif
