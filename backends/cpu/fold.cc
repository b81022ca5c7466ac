// Typed loops for the usual reductions; any other computation runs as an ElementFunction.
#include "backends/cpu/fold.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "ir/computation.h"

namespace gshard::cpu {
namespace {

// Accumulators of one tile stay in the first-level cache while all members pass by.
constexpr int64_t kTile = 2048;

struct Add {
  template <typename T>
  static T Of(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    } else {
      return a + b;
    }
  }
};
struct Multiply {
  template <typename T>
  static T Of(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      // Through 64 bits: small unsigned types would be promoted to int, which may overflow.
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    } else {
      return a * b;
    }
  }
};
// NaN wins; +0 is greater than -0.
struct Maximum {
  template <typename T>
  static T Of(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return std::max(a, b);
    } else {
      if (a != a) return a;
      if (b != b) return b;
      if (a == b) return std::signbit(a) ? b : a;
      return a > b ? a : b;
    }
  }
};
struct Minimum {
  template <typename T>
  static T Of(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return std::min(a, b);
    } else {
      if (a != a) return a;
      if (b != b) return b;
      if (a == b) return std::signbit(a) ? a : b;
      return a < b ? a : b;
    }
  }
};
struct And {
  template <typename T>
  static T Of(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <typename T>
  static T Of(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <typename T>
  static T Of(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

template <typename T, typename F>
class TypedFold final : public Fold {
 public:
  void Run(int64_t count, std::span<const std::byte* const> members, std::byte* result,
           Scratch&) const override {
    for (int64_t begin = 0; begin < count; begin += kTile) {
      const int64_t n = std::min(kTile, count - begin);
      T* out = reinterpret_cast<T*>(result) + begin;
      const T* first = reinterpret_cast<const T*>(members[0]) + begin;
      if (first != out) std::memcpy(out, first, static_cast<size_t>(n) * sizeof(T));
      for (const std::byte* member : members.subspan(1)) {
        const T* next = reinterpret_cast<const T*>(member) + begin;
        for (int64_t i = 0; i < n; ++i) out[i] = F::Of(out[i], next[i]);
      }
    }
  }
};

float FromBF16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }
uint16_t ToBF16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (value != value) return static_cast<uint16_t>((bits >> 16 & 0x8000u) | 0x7fc0u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

template <typename F>
class BF16Fold final : public Fold {
 public:
  void Run(int64_t count, std::span<const std::byte* const> members, std::byte* result,
           Scratch&) const override {
    float accumulated[kTile];
    for (int64_t begin = 0; begin < count; begin += kTile) {
      const int64_t n = std::min(kTile, count - begin);
      const auto* first = reinterpret_cast<const uint16_t*>(members[0]) + begin;
      for (int64_t i = 0; i < n; ++i) accumulated[i] = FromBF16(first[i]);
      for (const std::byte* member : members.subspan(1)) {
        const auto* next = reinterpret_cast<const uint16_t*>(member) + begin;
        for (int64_t i = 0; i < n; ++i) {
          accumulated[i] = F::Of(accumulated[i], FromBF16(next[i]));
        }
      }
      auto* out = reinterpret_cast<uint16_t*>(result) + begin;
      for (int64_t i = 0; i < n; ++i) out[i] = ToBF16(accumulated[i]);
    }
  }
};

class GeneralFold final : public Fold {
 public:
  GeneralFold(std::unique_ptr<ElementFunction> function, int64_t element_bytes)
      : function_(std::move(function)), element_bytes_(element_bytes) {}

  void Run(int64_t count, std::span<const std::byte* const> members, std::byte* result,
           Scratch& scratch) const override {
    for (int64_t begin = 0; begin < count; begin += kTile) {
      const int64_t n = std::min(kTile, count - begin);
      std::byte* out = result + begin * element_bytes_;
      const std::byte* first = members[0] + begin * element_bytes_;
      if (first != out) std::memcpy(out, first, static_cast<size_t>(n * element_bytes_));
      for (const std::byte* member : members.subspan(1)) {
        const std::byte* arguments[] = {out, member + begin * element_bytes_};
        std::byte* results[] = {out};
        function_->Run(n, arguments, results, scratch);
      }
    }
  }

 private:
  std::unique_ptr<ElementFunction> function_;
  int64_t element_bytes_;
};

template <typename F>
std::unique_ptr<Fold> FoldOfFloats(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return std::make_unique<TypedFold<float, F>>();
    case DType::kF64:
      return std::make_unique<TypedFold<double, F>>();
    case DType::kBF16:
      return std::make_unique<BF16Fold<F>>();
    default:
      return nullptr;
  }
}

template <typename F>
std::unique_ptr<Fold> FoldOfIntegers(DType dtype) {
  switch (dtype) {
    case DType::kS8:
      return std::make_unique<TypedFold<int8_t, F>>();
    case DType::kS16:
      return std::make_unique<TypedFold<int16_t, F>>();
    case DType::kS32:
      return std::make_unique<TypedFold<int32_t, F>>();
    case DType::kS64:
      return std::make_unique<TypedFold<int64_t, F>>();
    case DType::kU8:
      return std::make_unique<TypedFold<uint8_t, F>>();
    case DType::kU16:
      return std::make_unique<TypedFold<uint16_t, F>>();
    case DType::kU32:
      return std::make_unique<TypedFold<uint32_t, F>>();
    case DType::kU64:
      return std::make_unique<TypedFold<uint64_t, F>>();
    default:
      return nullptr;
  }
}

template <typename F>
std::unique_ptr<Fold> FoldOf(DType dtype) {
  std::unique_ptr<Fold> fold = FoldOfFloats<F>(dtype);
  return fold != nullptr ? std::move(fold) : FoldOfIntegers<F>(dtype);
}

// Logic on 0/1 bytes.
std::unique_ptr<Fold> FoldOfPred(Opcode opcode) {
  switch (opcode) {
    case Opcode::kAdd:
    case Opcode::kOr:
    case Opcode::kMaximum:
      return std::make_unique<TypedFold<uint8_t, Or>>();
    case Opcode::kMultiply:
    case Opcode::kAnd:
    case Opcode::kMinimum:
      return std::make_unique<TypedFold<uint8_t, And>>();
    case Opcode::kXor:
      return std::make_unique<TypedFold<uint8_t, Xor>>();
    default:
      return nullptr;
  }
}

std::unique_ptr<Fold> KnownFold(Opcode opcode, DType dtype) {
  if (dtype == DType::kPred) return FoldOfPred(opcode);
  switch (opcode) {
    case Opcode::kAdd:
      return FoldOf<Add>(dtype);
    case Opcode::kMultiply:
      return FoldOf<Multiply>(dtype);
    case Opcode::kMaximum:
      return FoldOf<Maximum>(dtype);
    case Opcode::kMinimum:
      return FoldOf<Minimum>(dtype);
    case Opcode::kAnd:
      return FoldOfIntegers<And>(dtype);
    case Opcode::kOr:
      return FoldOfIntegers<Or>(dtype);
    case Opcode::kXor:
      return FoldOfIntegers<Xor>(dtype);
    default:
      return nullptr;
  }
}

}  // namespace

bool AccumulatesInPlace(DType dtype) { return dtype != DType::kBF16; }

Expected<std::unique_ptr<Fold>> MakeFold(const Computation& to_apply, DType dtype) {
  const Instruction& root = *to_apply.root();
  if (root.operand_count() == 2 && root.operand(0)->opcode() == Opcode::kParameter &&
      root.operand(1)->opcode() == Opcode::kParameter && root.operand(0) != root.operand(1)) {
    if (std::unique_ptr<Fold> fold = KnownFold(root.opcode(), dtype)) return fold;
  }
  auto function = CompileElementFunction(to_apply);
  if (!function) return Fail(function.error());
  return std::make_unique<GeneralFold>(std::move(*function), StorageBytes(dtype));
}

}  // namespace gshard::cpu
