// Tile functions between compute types, and between bf16/f16 and f32.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "backends/cpu/kernels/tile_functions.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/tile_convert.cc"
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

template <typename To>
struct CastOp {
  template <typename From>
  static To Do(From a) {
    return static_cast<To>(a);
  }
};
struct NonZeroOp {
  template <typename From>
  static uint8_t Do(From a) {
    return a != 0 ? 1 : 0;
  }
};
// Toward zero, saturating; NaN gives 0.
template <typename To>
struct SaturateOp {
  template <typename From>
  static To Do(From a) {
    constexpr From kLow = static_cast<From>(std::numeric_limits<To>::min());
    // One more than the maximum, exact in any float type.
    constexpr From kHigh = static_cast<From>(std::numeric_limits<To>::max() / 2 + 1) * From{2};
    if constexpr (sizeof(To) < 4) {
      From x = a > kLow ? a : kLow;
      x = x < kHigh - From{1} ? x : kHigh - From{1};
      x = a != a ? From{0} : x;
      return static_cast<To>(static_cast<int32_t>(x));
    } else {
      return a != a       ? To{0}
             : a <= kLow  ? std::numeric_limits<To>::min()
             : a >= kHigh ? std::numeric_limits<To>::max()
                          : static_cast<To>(a);
    }
  }
};
// Round to odd: toward zero, then the last bit is set if anything was lost.
struct OddOp {
  static float Do(double a) {
    const float nearest = static_cast<float>(a);
    uint32_t bits = std::bit_cast<uint32_t>(nearest);
    const double back = static_cast<double>(nearest);
    const uint32_t odd = (bits - (std::fabs(back) > std::fabs(a) ? 1u : 0u)) | 1u;
    bits = back == a || a != a ? bits : odd;
    return std::bit_cast<float>(bits);
  }
  template <typename T>
  static float Do(T a) {
    if constexpr (sizeof(T) < 8) {
      return Do(static_cast<double>(a));
    } else {
      const bool negative = std::is_signed_v<T> && a < 0;
      uint64_t magnitude = static_cast<uint64_t>(a);
      magnitude = negative ? uint64_t{0} - magnitude : magnitude;
      const bool large = (magnitude >> 52) != 0;
      const uint64_t sticky = (magnitude >> 12) | ((magnitude & 0xfff) != 0 ? 1u : 0u);
      const double scaled = large ? static_cast<double>(static_cast<int64_t>(sticky)) * 4096.0
                                  : static_cast<double>(static_cast<int64_t>(magnitude));
      return Do(negative ? -scaled : scaled);
    }
  }
};

template <typename From>
TileFunction FromInteger(DType to) {
  switch (to) {
    case DType::kPred:
      return &UnaryLoop<NonZeroOp, From, uint8_t>;
    case DType::kS8:
    case DType::kU8:
      return &UnaryLoop<CastOp<uint8_t>, From, uint8_t>;
    case DType::kS16:
    case DType::kU16:
      return &UnaryLoop<CastOp<uint16_t>, From, uint16_t>;
    case DType::kS32:
    case DType::kU32:
      return &UnaryLoop<CastOp<uint32_t>, From, uint32_t>;
    case DType::kS64:
    case DType::kU64:
      return &UnaryLoop<CastOp<uint64_t>, From, uint64_t>;
    case DType::kF32:
      return &UnaryLoop<CastOp<float>, From, float>;
    case DType::kF64:
      return &UnaryLoop<CastOp<double>, From, double>;
    default:
      return nullptr;
  }
}

template <typename From>
TileFunction FromFloat(DType to) {
  switch (to) {
    case DType::kPred:
      return &UnaryLoop<NonZeroOp, From, uint8_t>;
    case DType::kS8:
      return &UnaryLoop<SaturateOp<int8_t>, From, int8_t>;
    case DType::kS16:
      return &UnaryLoop<SaturateOp<int16_t>, From, int16_t>;
    case DType::kS32:
      return &UnaryLoop<SaturateOp<int32_t>, From, int32_t>;
    case DType::kS64:
      return &UnaryLoop<SaturateOp<int64_t>, From, int64_t>;
    case DType::kU8:
      return &UnaryLoop<SaturateOp<uint8_t>, From, uint8_t>;
    case DType::kU16:
      return &UnaryLoop<SaturateOp<uint16_t>, From, uint16_t>;
    case DType::kU32:
      return &UnaryLoop<SaturateOp<uint32_t>, From, uint32_t>;
    case DType::kU64:
      return &UnaryLoop<SaturateOp<uint64_t>, From, uint64_t>;
    case DType::kF32:
      return &UnaryLoop<CastOp<float>, From, float>;
    case DType::kF64:
      return &UnaryLoop<CastOp<double>, From, double>;
    default:
      return nullptr;
  }
}

TileFunction FindConvert(DType from, DType to) {
  switch (from) {
    case DType::kPred:
    case DType::kU8:
      return FromInteger<uint8_t>(to);
    case DType::kU16:
      return FromInteger<uint16_t>(to);
    case DType::kU32:
      return FromInteger<uint32_t>(to);
    case DType::kU64:
      return FromInteger<uint64_t>(to);
    case DType::kS8:
      return FromInteger<int8_t>(to);
    case DType::kS16:
      return FromInteger<int16_t>(to);
    case DType::kS32:
      return FromInteger<int32_t>(to);
    case DType::kS64:
      return FromInteger<int64_t>(to);
    case DType::kF32:
      return FromFloat<float>(to);
    case DType::kF64:
      return FromFloat<double>(to);
    default:
      return nullptr;
  }
}

TileFunction FindConvertToOdd(DType from) {
  switch (from) {
    case DType::kS32:
      return &UnaryLoop<OddOp, int32_t, float>;
    case DType::kU32:
      return &UnaryLoop<OddOp, uint32_t, float>;
    case DType::kS64:
      return &UnaryLoop<OddOp, int64_t, float>;
    case DType::kU64:
      return &UnaryLoop<OddOp, uint64_t, float>;
    case DType::kF64:
      return &UnaryLoop<OddOp, double, float>;
    default:
      return nullptr;
  }
}

struct LoadBF16Op {
  static uint32_t Do(uint16_t a) { return static_cast<uint32_t>(a) << 16; }
};
uint32_t RoundBF16(uint32_t bits) {
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
  const uint32_t nan = (bits & 0x80000000u) | 0x7fc00000u;
  return (bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded;
}
struct StoreBF16Op {
  static uint16_t Do(uint32_t a) { return static_cast<uint16_t>(RoundBF16(a) >> 16); }
};
struct RoundBF16Op {
  static uint32_t Do(uint32_t a) { return RoundBF16(a); }
};

struct LoadF16Op {
  // The exponent is rebiased by a multiplication, which also normalises denormals.
  static uint32_t Do(uint16_t a) {
    const uint32_t magnitude = static_cast<uint32_t>(a & 0x7fff) << 13;
    const uint32_t sign = static_cast<uint32_t>(a & 0x8000) << 16;
    const float scaled = std::bit_cast<float>(magnitude) * 0x1p112f;
    const uint32_t special = magnitude | 0x7f800000u;
    const uint32_t bits = magnitude >= 0x0f800000u ? special : std::bit_cast<uint32_t>(scaled);
    return bits | sign;
  }
};
struct StoreF16Op {
  static uint16_t Do(uint32_t a) {
    const uint32_t sign = (a >> 16) & 0x8000u;
    const uint32_t magnitude = a & 0x7fffffffu;
    // Below the smallest normal: adding 1/2 lets the adder round at the bit of weight 2^-24.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    const uint32_t denormal = std::bit_cast<uint32_t>(shifted) - 0x3f000000u;
    const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    uint32_t bits = magnitude < 0x38800000u ? denormal : normal;
    bits = magnitude >= 0x47800000u ? 0x7c00u : bits;
    bits = magnitude > 0x7f800000u ? 0x7e00u : bits;
    return static_cast<uint16_t>(bits | sign);
  }
};
struct RoundF16Op {
  static uint32_t Do(uint32_t a) { return LoadF16Op::Do(StoreF16Op::Do(a)); }
};

TileFunction FindLoad(DType type) {
  if (type == DType::kBF16) return &UnaryLoop<LoadBF16Op, uint16_t, uint32_t>;
  if (type == DType::kF16) return &UnaryLoop<LoadF16Op, uint16_t, uint32_t>;
  return nullptr;
}
TileFunction FindStore(DType type) {
  if (type == DType::kBF16) return &UnaryLoop<StoreBF16Op, uint32_t, uint16_t>;
  if (type == DType::kF16) return &UnaryLoop<StoreF16Op, uint32_t, uint16_t>;
  return nullptr;
}
TileFunction FindRound(DType type) {
  if (type == DType::kBF16) return &UnaryLoop<RoundBF16Op, uint32_t, uint32_t>;
  if (type == DType::kF16) return &UnaryLoop<RoundF16Op, uint32_t, uint32_t>;
  return nullptr;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gshard::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "ir/literal.h"

namespace gshard::cpu {
HWY_EXPORT(FindConvert);
HWY_EXPORT(FindConvertToOdd);
HWY_EXPORT(FindLoad);
HWY_EXPORT(FindStore);
HWY_EXPORT(FindRound);

namespace {

// As a float of the same value; unlike a cast, it keeps all bits of NaNs, which have a total order.
float ToFloatKeepingNan(double value) {
  if (!std::isnan(value)) return static_cast<float>(value);
  const auto bits = std::bit_cast<uint64_t>(value);
  const auto sign = static_cast<uint32_t>(bits >> 32) & 0x80000000u;
  const auto payload = static_cast<uint32_t>(bits >> 29) & 0x007fffffu;
  return std::bit_cast<float>(sign | 0x7f800000u | payload);
}

// The types of at most 8 bits: decoding by table, encoding bit by bit.
template <DType kType>
struct TinyFloat {
  struct Table {
    float values[256];
    Table() {
      for (unsigned bits = 0; bits < 256; ++bits) {
        values[bits] = ToFloatKeepingNan(DecodeSmallFloat(kType, static_cast<uint16_t>(bits)));
      }
    }
  };
  static const Table& table() {
    static const Table table;
    return table;
  }
  static uint8_t Encode(float a) {
    return static_cast<uint8_t>(EncodeSmallFloat(kType, static_cast<double>(a)));
  }

  static void Load(const Tile& tile) {
    const uint8_t* in = static_cast<const uint8_t*>(tile.in[0]);
    float* out = static_cast<float*>(tile.out);
    const Table& decoded = table();
    for (int64_t i = 0; i < tile.count; ++i) out[i] = decoded.values[in[i]];
  }
  static void Store(const Tile& tile) {
    const float* in = static_cast<const float*>(tile.in[0]);
    uint8_t* out = static_cast<uint8_t*>(tile.out);
    for (int64_t i = 0; i < tile.count; ++i) out[i] = Encode(in[i]);
  }
  static void Round(const Tile& tile) {
    const float* in = static_cast<const float*>(tile.in[0]);
    float* out = static_cast<float*>(tile.out);
    const Table& decoded = table();
    for (int64_t i = 0; i < tile.count; ++i) out[i] = decoded.values[Encode(in[i])];
  }
};

enum class TinyUse { kLoad, kStore, kRound };

template <DType kType>
TileFunction TinyFunction(TinyUse use) {
  switch (use) {
    case TinyUse::kLoad:
      return &TinyFloat<kType>::Load;
    case TinyUse::kStore:
      return &TinyFloat<kType>::Store;
    case TinyUse::kRound:
      return &TinyFloat<kType>::Round;
  }
  return nullptr;
}

TileFunction TinyFunction(TinyUse use, DType type) {
  switch (type) {
    case DType::kF8E5M2:
      return TinyFunction<DType::kF8E5M2>(use);
    case DType::kF8E4M3:
      return TinyFunction<DType::kF8E4M3>(use);
    case DType::kF8E4M3FN:
      return TinyFunction<DType::kF8E4M3FN>(use);
    case DType::kF8E4M3B11FNUZ:
      return TinyFunction<DType::kF8E4M3B11FNUZ>(use);
    case DType::kF8E3M4:
      return TinyFunction<DType::kF8E3M4>(use);
    case DType::kF8E5M2FNUZ:
      return TinyFunction<DType::kF8E5M2FNUZ>(use);
    case DType::kF8E4M3FNUZ:
      return TinyFunction<DType::kF8E4M3FNUZ>(use);
    case DType::kF8E8M0FNU:
      return TinyFunction<DType::kF8E8M0FNU>(use);
    case DType::kF4E2M1FN:
      return TinyFunction<DType::kF4E2M1FN>(use);
    case DType::kF6E3M2FN:
      return TinyFunction<DType::kF6E3M2FN>(use);
    case DType::kF6E2M3FN:
      return TinyFunction<DType::kF6E2M3FN>(use);
    default:
      return nullptr;
  }
}

// Low bits of a byte as a signed or unsigned number of that many bits.
template <int kBits, bool kSigned>
void WrapLoop(const Tile& tile) {
  const uint8_t* in = static_cast<const uint8_t*>(tile.in[0]);
  uint8_t* out = static_cast<uint8_t*>(tile.out);
  for (int64_t i = 0; i < tile.count; ++i) {
    const unsigned low = in[i] & ((1u << kBits) - 1);
    const unsigned sign = kSigned ? low & (1u << (kBits - 1)) : 0;
    out[i] = static_cast<uint8_t>(low - (sign << 1));
  }
}

template <int kBits, typename T>
void SaturateLoop(const Tile& tile) {
  constexpr int kLow = std::is_signed_v<T> ? -(1 << (kBits - 1)) : 0;
  constexpr int kHigh = std::is_signed_v<T> ? (1 << (kBits - 1)) - 1 : (1 << kBits) - 1;
  const T* in = static_cast<const T*>(tile.in[0]);
  T* out = static_cast<T*>(tile.out);
  for (int64_t i = 0; i < tile.count; ++i) {
    out[i] = static_cast<T>(in[i] < kLow ? kLow : in[i] > kHigh ? kHigh : in[i]);
  }
}

}  // namespace

TileFunction ConvertFunction(DType from, DType to) {
  if (IsComplex(from) || IsComplex(to)) return ComplexConvertFunction(from, to);
  return HWY_DYNAMIC_DISPATCH(FindConvert)(from, to);
}
TileFunction ConvertToOddFunction(DType from) {
  return HWY_DYNAMIC_DISPATCH(FindConvertToOdd)(from);
}
TileFunction LoadFunction(DType small) {
  const TileFunction tiny = TinyFunction(TinyUse::kLoad, small);
  return tiny != nullptr ? tiny : HWY_DYNAMIC_DISPATCH(FindLoad)(small);
}
TileFunction StoreFunction(DType small) {
  const TileFunction tiny = TinyFunction(TinyUse::kStore, small);
  return tiny != nullptr ? tiny : HWY_DYNAMIC_DISPATCH(FindStore)(small);
}
TileFunction RoundFunction(DType small) {
  const TileFunction tiny = TinyFunction(TinyUse::kRound, small);
  return tiny != nullptr ? tiny : HWY_DYNAMIC_DISPATCH(FindRound)(small);
}

TileFunction WrapFunction(DType sub_byte) {
  switch (sub_byte) {
    case DType::kS1:
      return &WrapLoop<1, true>;
    case DType::kS2:
      return &WrapLoop<2, true>;
    case DType::kS4:
      return &WrapLoop<4, true>;
    case DType::kU1:
      return &WrapLoop<1, false>;
    case DType::kU2:
      return &WrapLoop<2, false>;
    case DType::kU4:
      return &WrapLoop<4, false>;
    default:
      return nullptr;
  }
}
TileFunction SaturateFunction(DType sub_byte) {
  switch (sub_byte) {
    case DType::kS1:
      return &SaturateLoop<1, int8_t>;
    case DType::kS2:
      return &SaturateLoop<2, int8_t>;
    case DType::kS4:
      return &SaturateLoop<4, int8_t>;
    case DType::kU1:
      return &SaturateLoop<1, uint8_t>;
    case DType::kU2:
      return &SaturateLoop<2, uint8_t>;
    case DType::kU4:
      return &SaturateLoop<4, uint8_t>;
    default:
      return nullptr;
  }
}

}  // namespace gshard::cpu
#endif
