// Element types of HLO and their properties (docs/text-format.md, "Shapes").
#ifndef GSHARD_IR_DTYPE_H_
#define GSHARD_IR_DTYPE_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace gshard {

// clang-format off
// X(enumerator, text, bits, class): bits of one element as XLA counts memory.
#define GSHARD_DTYPES(X)                    \
  X(kPred, "pred", 8, kPredicate)           \
  X(kS1, "s1", 1, kSigned)                  \
  X(kS2, "s2", 2, kSigned)                  \
  X(kS4, "s4", 4, kSigned)                  \
  X(kS8, "s8", 8, kSigned)                  \
  X(kS16, "s16", 16, kSigned)               \
  X(kS32, "s32", 32, kSigned)               \
  X(kS64, "s64", 64, kSigned)               \
  X(kU1, "u1", 1, kUnsigned)                \
  X(kU2, "u2", 2, kUnsigned)                \
  X(kU4, "u4", 4, kUnsigned)                \
  X(kU8, "u8", 8, kUnsigned)                \
  X(kU16, "u16", 16, kUnsigned)             \
  X(kU32, "u32", 32, kUnsigned)             \
  X(kU64, "u64", 64, kUnsigned)             \
  X(kF16, "f16", 16, kFloat)                \
  X(kBF16, "bf16", 16, kFloat)              \
  X(kF32, "f32", 32, kFloat)                \
  X(kF64, "f64", 64, kFloat)                \
  X(kF8E5M2, "f8e5m2", 8, kFloat)           \
  X(kF8E4M3, "f8e4m3", 8, kFloat)           \
  X(kF8E4M3FN, "f8e4m3fn", 8, kFloat)       \
  X(kF8E4M3B11FNUZ, "f8e4m3b11fnuz", 8, kFloat) \
  X(kF8E3M4, "f8e3m4", 8, kFloat)           \
  X(kF8E5M2FNUZ, "f8e5m2fnuz", 8, kFloat)   \
  X(kF8E4M3FNUZ, "f8e4m3fnuz", 8, kFloat)   \
  X(kF8E8M0FNU, "f8e8m0fnu", 8, kFloat)     \
  X(kF4E2M1FN, "f4e2m1fn", 4, kFloat)       \
  X(kF6E3M2FN, "f6e3m2fn", 6, kFloat)       \
  X(kF6E2M3FN, "f6e2m3fn", 6, kFloat)       \
  X(kC64, "c64", 64, kComplex)              \
  X(kC128, "c128", 128, kComplex)           \
  X(kToken, "token", 0, kOther)             \
  X(kOpaque, "opaque", 0, kOther)
// clang-format on

enum class DType : uint8_t {
#define GSHARD_X(enumerator, text, bits, klass) enumerator,
  GSHARD_DTYPES(GSHARD_X)
#undef GSHARD_X
};
inline constexpr int kDTypeCount = static_cast<int>(DType::kOpaque) + 1;

enum class DTypeClass : uint8_t { kPredicate, kSigned, kUnsigned, kFloat, kComplex, kOther };

std::string_view DTypeName(DType dtype);
std::optional<DType> DTypeFromName(std::string_view name);
int DTypeBits(DType dtype);
DTypeClass ClassOf(DType dtype);

inline bool IsInteger(DType d) {
  return ClassOf(d) == DTypeClass::kSigned || ClassOf(d) == DTypeClass::kUnsigned;
}
inline bool IsFloat(DType d) { return ClassOf(d) == DTypeClass::kFloat; }
inline bool IsComplex(DType d) { return ClassOf(d) == DTypeClass::kComplex; }
inline bool IsArrayType(DType d) { return ClassOf(d) != DTypeClass::kOther; }

// Bytes of one element as gshard stores it in literals and buffers: types below 8 bits take a byte.
int StorageBytes(DType dtype);

}  // namespace gshard

#endif  // GSHARD_IR_DTYPE_H_
