// Order-preserving bits; least-significant-digit radix sort over the digits that differ.
#include "backends/cpu/ops/sort_keys.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "ir/diagnostic.h"

namespace gshard::cpu {
namespace {

template <typename T>
void IntegerKeys(const std::byte* in, int64_t count, uint64_t* keys) {
  using U = std::make_unsigned_t<T>;
  constexpr U kFlip = std::is_signed_v<T> ? static_cast<U>(std::numeric_limits<T>::min()) : U{0};
  for (int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, in + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    keys[i] = static_cast<U>(static_cast<U>(value) ^ kFlip);
  }
}

template <typename Bits>
void FloatKeys(bool zeros_equal, const std::byte* in, int64_t count, uint64_t* keys) {
  constexpr Bits kSign = Bits{1} << (sizeof(Bits) * 8 - 1);
  for (int64_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, in + i * static_cast<int64_t>(sizeof(Bits)), sizeof(Bits));
    if (zeros_equal && bits == kSign) bits = 0;
    keys[i] = (bits & kSign) != 0 ? static_cast<Bits>(~bits) : static_cast<Bits>(bits | kSign);
  }
}

}  // namespace

void SortKeys(DType type, bool descending, bool zeros_equal, const std::byte* in, int64_t count,
              uint64_t* keys) {
  switch (type) {
    case DType::kPred:
    case DType::kU8:
      IntegerKeys<uint8_t>(in, count, keys);
      break;
    case DType::kU16:
      IntegerKeys<uint16_t>(in, count, keys);
      break;
    case DType::kU32:
      IntegerKeys<uint32_t>(in, count, keys);
      break;
    case DType::kU64:
      IntegerKeys<uint64_t>(in, count, keys);
      break;
    case DType::kS8:
      IntegerKeys<int8_t>(in, count, keys);
      break;
    case DType::kS16:
      IntegerKeys<int16_t>(in, count, keys);
      break;
    case DType::kS32:
      IntegerKeys<int32_t>(in, count, keys);
      break;
    case DType::kS64:
      IntegerKeys<int64_t>(in, count, keys);
      break;
    case DType::kF32:
      FloatKeys<uint32_t>(zeros_equal, in, count, keys);
      break;
    case DType::kF64:
      FloatKeys<uint64_t>(zeros_equal, in, count, keys);
      break;
    default:
      throw InternalError("type of a sort key");
  }
  if (descending) {
    for (int64_t i = 0; i < count; ++i) keys[i] = ~keys[i];
  }
}

void SortByKey(KeyedIndex* items, int64_t count, KeyedIndex* room) {
  constexpr int64_t kRadixFrom = 512;
  if (count < kRadixFrom) {
    std::sort(items, items + count, Before);
    return;
  }
  uint64_t differing = 0;
  for (int64_t i = 1; i < count; ++i) differing |= items[i].key ^ items[0].key;
  KeyedIndex* from = items;
  KeyedIndex* to = room;
  for (int shift = 0; shift < 64; shift += 8) {
    if (((differing >> shift) & 0xff) == 0) continue;
    std::array<int64_t, 256> begin{};
    for (int64_t i = 0; i < count; ++i) ++begin[(from[i].key >> shift) & 0xff];
    int64_t sum = 0;
    for (int64_t& b : begin) {
      const int64_t size = b;
      b = sum;
      sum += size;
    }
    for (int64_t i = 0; i < count; ++i) to[begin[(from[i].key >> shift) & 0xff]++] = from[i];
    std::swap(from, to);
  }
  if (from != items) std::copy_n(from, count, items);
}

}  // namespace gshard::cpu
