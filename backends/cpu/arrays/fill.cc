// A counter-based generator; small floats are rounded once.
#include "backends/cpu/arrays/fill.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

namespace gshard::cpu {
namespace {

// splitmix64 (Steele, Lea, Flood 2014): a bijection that scrambles a counter.
uint64_t Scramble(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t KeyOf(uint64_t seed, uint64_t stream) { return Scramble(Scramble(seed) ^ stream); }
uint64_t BitsAt(uint64_t key, int64_t index) {
  return Scramble(key + static_cast<uint64_t>(index));
}

// The sum of four 16-bit uniforms, centred, with deviation 0.1: near enough to normal.
float NormalOf(uint64_t bits) {
  const auto sum = static_cast<int32_t>((bits & 0xffff) + (bits >> 16 & 0xffff) +
                                        (bits >> 32 & 0xffff) + (bits >> 48));
  constexpr float kScale = 0.1f * 1.7320508f / 65536.0f;
  return static_cast<float>(sum - 2 * 65535) * kScale;
}

template <typename T>
void Store(std::byte* out, int64_t index, T value) {
  std::memcpy(out + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

float RandomFloat(uint64_t bits, bool positive) {
  const float x = NormalOf(bits);
  return positive ? std::fabs(x) + 0.5f : x;
}

template <typename T>
void StoreAll(std::byte* out, int64_t count, T value) {
  for (int64_t i = 0; i < count; ++i) Store(out, i, value);
}

// Floats of one value; integers and truth values of one byte.
void FillPadding(DType dtype, double number, int byte, std::byte* out, int64_t count) {
  const int bytes = StorageBytes(dtype);
  if (dtype == DType::kF32 || dtype == DType::kC64) {
    StoreAll(out, count * bytes / 4, static_cast<float>(number));
  } else if (dtype == DType::kF64 || dtype == DType::kC128) {
    StoreAll(out, count * bytes / 8, number);
  } else if (IsFloat(dtype) && DTypeBits(dtype) >= 8) {
    const uint16_t bits = EncodeSmallFloat(dtype, number);
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(out + i * bytes, &bits, static_cast<size_t>(bytes));
    }
  } else {
    std::memset(out, byte, static_cast<size_t>(count * bytes));
  }
}

}  // namespace

void FillPadding(DType dtype, Padding padding, std::byte* out, int64_t count) {
  if (padding == Padding::kHarmless) return FillPadding(dtype, 1.0, 0, out, count);
  const bool small = dtype == DType::kPred || DTypeBits(dtype) < 8;
  FillPadding(dtype, std::nan(""), small ? 1 : 0x7f, out, count);
}

void FillRandom(DType dtype, int64_t rank, uint64_t seed, uint64_t stream, int64_t first,
                int64_t count, std::byte* out) {
  const uint64_t key = KeyOf(seed, stream);
  const bool positive = rank == 1;
  switch (dtype) {
    case DType::kF32:
      for (int64_t i = 0; i < count; ++i)
        Store(out, i, RandomFloat(BitsAt(key, first + i), positive));
      return;
    case DType::kF64:
      for (int64_t i = 0; i < count; ++i) {
        Store(out, i, static_cast<double>(RandomFloat(BitsAt(key, first + i), positive)));
      }
      return;
    case DType::kC64:
      for (int64_t i = 0; i < 2 * count; ++i) {
        Store(out, i, RandomFloat(BitsAt(key, 2 * first + i), false));
      }
      return;
    case DType::kC128:
      for (int64_t i = 0; i < 2 * count; ++i) {
        Store(out, i, static_cast<double>(RandomFloat(BitsAt(key, 2 * first + i), false)));
      }
      return;
    default:
      break;
  }
  const int bytes = StorageBytes(dtype);
  if (IsFloat(dtype)) {
    for (int64_t i = 0; i < count; ++i) {
      const float value =
          RandomFloat(BitsAt(key, first + i), positive || dtype == DType::kF8E8M0FNU);
      const uint16_t encoded = EncodeSmallFloat(dtype, static_cast<double>(value));
      std::memcpy(out + i * bytes, &encoded, static_cast<size_t>(bytes));
    }
    return;
  }
  const int bits = DTypeBits(dtype);
  const uint64_t most = dtype == DType::kPred || bits <= 2 ? 1 : 3;
  for (int64_t i = 0; i < count; ++i) {
    uint64_t value = BitsAt(key, first + i) & most;
    if (dtype == DType::kS1) value = 0;
    std::memcpy(out + i * bytes, &value, static_cast<size_t>(bytes));
  }
}

uint64_t RandomBits(uint64_t seed, uint64_t stream, int64_t index) {
  return BitsAt(KeyOf(seed, stream), index);
}

void FillElided(const Shape* shape, uint64_t seed, std::span<std::byte> out) {
  if (!shape->IsArray()) return;
  uint64_t stream = 0x656c69646564;  // apart from the parameters' streams
  for (char c : ToString(shape, false)) stream = Scramble(stream ^ static_cast<unsigned char>(c));
  FillRandom(shape->dtype(), shape->rank(), seed, stream, 0, shape->element_count(), out.data());
}

}  // namespace gshard::cpu
