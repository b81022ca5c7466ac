// Tile functions of integers and pred. Arithmetic wraps; Tile::parameter is the true bit width
// (types below 8 bits are stored in a byte and wrapped by the caller afterwards).
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "backends/cpu/kernels/tile_functions.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/tile_integer.cc"
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

template <typename T>
using Unsigned = std::make_unsigned_t<T>;
// Arithmetic happens in an unsigned type that does not promote to int.
template <typename T>
using Wide = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
template <typename T>
Wide<T> Widen(T a) {
  return static_cast<Wide<T>>(a);
}
// The low `width` bits.
template <typename T>
Wide<T> Mask(T a, int width) {
  const Wide<T> bits = static_cast<Wide<T>>(static_cast<Unsigned<T>>(a));
  return bits & (~Wide<T>{0} >> (static_cast<int>(sizeof(Wide<T>) * 8) - width));
}
// The low `width` bits read as a signed number.
template <typename T>
std::make_signed_t<Wide<T>> SignExtend(T a, int width) {
  const int shift = static_cast<int>(sizeof(Wide<T>) * 8) - width;
  return static_cast<std::make_signed_t<Wide<T>>>(Widen(a) << shift) >> shift;
}

struct AddOp {
  template <typename T>
  static T Do(T a, T b) {
    return static_cast<T>(Widen(a) + Widen(b));
  }
};
struct SubtractOp {
  template <typename T>
  static T Do(T a, T b) {
    return static_cast<T>(Widen(a) - Widen(b));
  }
};
struct MultiplyOp {
  template <typename T>
  static T Do(T a, T b) {
    return static_cast<T>(Widen(a) * Widen(b));
  }
};
// The upper half of the double-width product.
struct MulhiOp {
  template <typename T>
  static T Do(T a, T b, int width) {
    if constexpr (sizeof(T) == 8) {
      __extension__ using Product =
          std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
      return static_cast<T>((static_cast<Product>(a) * static_cast<Product>(b)) >> 64);
    } else {
      using Product = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
      return static_cast<T>((static_cast<Product>(a) * static_cast<Product>(b)) >> width);
    }
  }
};
// x / 0 = all ones; MIN / -1 = MIN.
struct DivideOp {
  template <typename T>
  static T Do(T a, T b) {
    if (b == 0) return static_cast<T>(-1);
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return static_cast<T>(Wide<T>{0} - Widen(a));
    }
    return static_cast<T>(a / b);
  }
};
// x rem 0 = x; MIN rem -1 = 0.
struct RemainderOp {
  template <typename T>
  static T Do(T a, T b) {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
    }
    return static_cast<T>(a % b);
  }
};
// Negative exponents: base 1 -> 1, -1 -> +-1 by parity, all others 0.
struct PowerOp {
  template <typename T>
  static T Do(T a, T b) {
    if constexpr (std::is_signed_v<T>) {
      if (b < 0) {
        if (a == 1) return 1;
        if (a == -1) return (b & 1) != 0 ? static_cast<T>(-1) : static_cast<T>(1);
        return 0;
      }
    }
    Wide<T> base = Widen(a), result = 1;
    for (Unsigned<T> exponent = static_cast<Unsigned<T>>(b); exponent != 0;
         exponent = static_cast<Unsigned<T>>(exponent >> 1)) {
      if ((exponent & 1) != 0) result *= base;
      base *= base;
    }
    return static_cast<T>(result);
  }
};
struct MaximumOp {
  template <typename T>
  static T Do(T a, T b) {
    return a > b ? a : b;
  }
};
struct MinimumOp {
  template <typename T>
  static T Do(T a, T b) {
    return a < b ? a : b;
  }
};
struct ClampOp {
  template <typename T>
  static T Do(T low, T x, T high) {
    return MinimumOp::Do(MaximumOp::Do(low, x), high);
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
struct NotOp {
  template <typename T>
  static T Do(T a) {
    return static_cast<T>(~a);
  }
};
struct LogicalNotOp {
  static uint8_t Do(uint8_t a) { return a == 0 ? 1 : 0; }
};
struct AbsOp {
  template <typename T>
  static T Do(T a) {
    if constexpr (std::is_unsigned_v<T>) return a;
    return a < 0 ? static_cast<T>(Wide<T>{0} - Widen(a)) : a;
  }
};
struct NegateOp {
  template <typename T>
  static T Do(T a) {
    return static_cast<T>(Wide<T>{0} - Widen(a));
  }
};
struct SignOp {
  template <typename T>
  static T Do(T a) {
    return static_cast<T>((a > 0 ? 1 : 0) - (a < 0 ? 1 : 0));
  }
};
struct PopcntOp {
  template <typename T>
  static T Do(T a, int width) {
    return static_cast<T>(std::popcount(Mask(a, width)));
  }
};
struct CountLeadingZerosOp {
  template <typename T>
  static T Do(T a, int width) {
    const int wide = static_cast<int>(sizeof(Wide<T>) * 8);
    return static_cast<T>(std::countl_zero(Mask(a, width)) - (wide - width));
  }
};
// Amounts are read as unsigned; at or beyond the width all bits are shifted out.
struct ShiftLeftOp {
  template <typename T>
  static T Do(T a, T b, int width) {
    const Wide<T> amount = Mask(b, width);
    const Wide<T> in_range = amount < static_cast<Wide<T>>(width) ? amount : 0;
    return amount == in_range ? static_cast<T>(Widen(a) << in_range) : T{0};
  }
};
struct ShiftRightLogicalOp {
  template <typename T>
  static T Do(T a, T b, int width) {
    const Wide<T> amount = Mask(b, width);
    const Wide<T> in_range = amount < static_cast<Wide<T>>(width) ? amount : 0;
    return amount == in_range ? static_cast<T>(Mask(a, width) >> in_range) : T{0};
  }
};
struct ShiftRightArithmeticOp {
  template <typename T>
  static T Do(T a, T b, int width) {
    const Wide<T> amount = Mask(b, width);
    const Wide<T> last = static_cast<Wide<T>>(width - 1);
    return static_cast<T>(SignExtend(a, width) >> (amount < last ? amount : last));
  }
};
// To the left, by 1 to width - 1 bits.
struct RotateOp {
  template <typename T>
  static T Do(T a, int by) {
    return static_cast<T>((a << by) | (a >> (static_cast<int>(sizeof(T) * 8) - by)));
  }
};

// Operations for which the sign of the type does not matter run on the unsigned type.
template <typename T>
TileFunction FindSignless(Opcode opcode) {
  switch (opcode) {
    case Opcode::kAdd:
      return &BinaryLoop<AddOp, T, T>;
    case Opcode::kSubtract:
      return &BinaryLoop<SubtractOp, T, T>;
    case Opcode::kMultiply:
      return &BinaryLoop<MultiplyOp, T, T>;
    case Opcode::kAnd:
      return &BinaryLoop<AndOp, T, T>;
    case Opcode::kOr:
      return &BinaryLoop<OrOp, T, T>;
    case Opcode::kXor:
      return &BinaryLoop<XorOp, T, T>;
    case Opcode::kNot:
      return &UnaryLoop<NotOp, T, T>;
    case Opcode::kNegate:
      return &UnaryLoop<NegateOp, T, T>;
    case Opcode::kPopcnt:
      return &UnaryParameterLoop<PopcntOp, T, T>;
    case Opcode::kCountLeadingZeros:
      return &UnaryParameterLoop<CountLeadingZerosOp, T, T>;
    case Opcode::kShiftLeft:
      return &BinaryParameterLoop<ShiftLeftOp, T, T>;
    case Opcode::kShiftRightLogical:
      return &BinaryParameterLoop<ShiftRightLogicalOp, T, T>;
    case Opcode::kShiftRightArithmetic:
      return &BinaryParameterLoop<ShiftRightArithmeticOp, T, T>;
    default:  // by sign, or not of integers
      return nullptr;
  }
}

template <typename T>
TileFunction FindSigned(Opcode opcode) {
  switch (opcode) {
    case Opcode::kDivide:
      return &BinaryLoop<DivideOp, T, T>;
    case Opcode::kRemainder:
      return &BinaryLoop<RemainderOp, T, T>;
    case Opcode::kPower:
      return &BinaryLoop<PowerOp, T, T>;
    case Opcode::kMaximum:
      return &BinaryLoop<MaximumOp, T, T>;
    case Opcode::kMinimum:
      return &BinaryLoop<MinimumOp, T, T>;
    case Opcode::kClamp:
      return &TernaryLoop<ClampOp, T>;
    case Opcode::kMulhi:
      return &BinaryParameterLoop<MulhiOp, T, T>;
    case Opcode::kAbs:
      return &UnaryLoop<AbsOp, T, T>;
    case Opcode::kSign:
      return &UnaryLoop<SignOp, T, T>;
    default:  // the sign does not matter
      return FindSignless<Unsigned<T>>(opcode);
  }
}

TileFunction FindPred(Opcode opcode) {
  switch (opcode) {
    case Opcode::kAdd:
    case Opcode::kOr:
    case Opcode::kMaximum:
      return &BinaryLoop<OrOp, uint8_t, uint8_t>;
    case Opcode::kMultiply:
    case Opcode::kAnd:
    case Opcode::kMinimum:
      return &BinaryLoop<AndOp, uint8_t, uint8_t>;
    case Opcode::kXor:
      return &BinaryLoop<XorOp, uint8_t, uint8_t>;
    case Opcode::kNot:
      return &UnaryLoop<LogicalNotOp, uint8_t, uint8_t>;
    case Opcode::kClamp:
      return &TernaryLoop<ClampOp, uint8_t>;
    default:  // not of predicates
      return nullptr;
  }
}

TileFunction FindRotate(int64_t element_bytes) {
  return element_bytes == 4 ? &UnaryParameterLoop<RotateOp, uint32_t, uint32_t>
                            : &UnaryParameterLoop<RotateOp, uint64_t, uint64_t>;
}

TileFunction FindInteger(Opcode opcode, DType type) {
  switch (type) {
    case DType::kPred:
      return FindPred(opcode);
    case DType::kS8:
      return FindSigned<int8_t>(opcode);
    case DType::kS16:
      return FindSigned<int16_t>(opcode);
    case DType::kS32:
      return FindSigned<int32_t>(opcode);
    case DType::kS64:
      return FindSigned<int64_t>(opcode);
    case DType::kU8:
      return FindSigned<uint8_t>(opcode);
    case DType::kU16:
      return FindSigned<uint16_t>(opcode);
    case DType::kU32:
      return FindSigned<uint32_t>(opcode);
    case DType::kU64:
      return FindSigned<uint64_t>(opcode);
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
HWY_EXPORT(FindInteger);
HWY_EXPORT(FindRotate);

TileFunction IntegerFunction(Opcode opcode, DType type) {
  return HWY_DYNAMIC_DISPATCH(FindInteger)(opcode, type);
}

Rotation RotationOf(int64_t element_bytes) {
  if (element_bytes != 4 && element_bytes != 8) return {};
  const DType type = element_bytes == 4 ? DType::kU32 : DType::kU64;
  return {IntegerFunction(Opcode::kOr, type), IntegerFunction(Opcode::kShiftLeft, type),
          IntegerFunction(Opcode::kShiftRightLogical, type),
          HWY_DYNAMIC_DISPATCH(FindRotate)(element_bytes)};
}
}  // namespace gshard::cpu
#endif
