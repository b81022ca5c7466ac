// Magnitudes are compared as signed integers: with the sign bit gone all are positive, and NaN is
// above infinity above all numbers.
#include "backends/cpu/kernels/compare_bits.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/compare_bits.cc"
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

constexpr size_t kChains = 4;

template <typename Bits>
BitsLook LookAt(const void* a, const void* b, int64_t count, uint64_t infinity) {
  constexpr Bits kMagnitude = std::numeric_limits<Bits>::max();
  const hn::ScalableTag<Bits> d;
  using Vector = hn::Vec<decltype(d)>;
  const auto* x = static_cast<const Bits*>(a);
  const auto* y = static_cast<const Bits*>(b);
  const auto limit = static_cast<Bits>(infinity);
  const size_t lanes = hn::Lanes(d), step = kChains * lanes, size = static_cast<size_t>(count);
  const Vector mask = hn::Set(d, kMagnitude), limits = hn::Set(d, limit);
  Vector largest[kChains], other[kChains];
  for (size_t c = 0; c < kChains; ++c) largest[c] = other[c] = hn::Zero(d);
  size_t i = 0;
  for (; i + step <= size; i += step) {
#pragma GCC unroll 4
    for (size_t c = 0; c < kChains; ++c) {
      const Vector of_x = hn::LoadU(d, x + i + c * lanes);
      other[c] = hn::Or(other[c], hn::Xor(of_x, hn::LoadU(d, y + i + c * lanes)));
      const Vector magnitude = hn::And(of_x, mask);
      const Vector finite = hn::IfThenElseZero(hn::Lt(magnitude, limits), magnitude);
      largest[c] = hn::Max(largest[c], finite);
    }
  }
  for (size_t c = 1; c < kChains; ++c) {
    largest[0] = hn::Max(largest[0], largest[c]);
    other[0] = hn::Or(other[0], other[c]);
  }
  HWY_ALIGN Bits last[HWY_MAX_BYTES / sizeof(Bits)];
  hn::Store(largest[0], d, last);
  Bits most = *std::max_element(last, last + lanes);
  bool differs = !hn::AllTrue(d, hn::Eq(other[0], hn::Zero(d)));
  for (; i < size; ++i) {
    differs = differs || x[i] != y[i];
    const auto magnitude = static_cast<Bits>(x[i] & kMagnitude);
    if (magnitude < limit) most = std::max(most, magnitude);
  }
  return {static_cast<uint64_t>(most), differs};
}

BitsLook Look(const void* a, const void* b, int64_t count, int bytes, uint64_t infinity) {
  if (bytes == 2) return LookAt<int16_t>(a, b, count, infinity);
  if (bytes == 4) return LookAt<int32_t>(a, b, count, infinity);
  return LookAt<int64_t>(a, b, count, infinity);
}

template <typename T>
T DistanceOf(const T* a, const T* b, int64_t count) {
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> di;
  using Bits = hn::TFromD<decltype(di)>;
  using Vector = hn::Vec<decltype(di)>;
  const size_t lanes = hn::Lanes(d), step = kChains * lanes, size = static_cast<size_t>(count);
  Vector largest[kChains];
  for (size_t c = 0; c < kChains; ++c) largest[c] = hn::Zero(di);
  size_t i = 0;
  for (; i + step <= size; i += step) {
#pragma GCC unroll 4
    for (size_t c = 0; c < kChains; ++c) {
      const auto distance =
          hn::Abs(hn::Sub(hn::LoadU(d, a + i + c * lanes), hn::LoadU(d, b + i + c * lanes)));
      largest[c] = hn::Max(largest[c], hn::BitCast(di, distance));
    }
  }
  for (size_t c = 1; c < kChains; ++c) largest[0] = hn::Max(largest[0], largest[c]);
  HWY_ALIGN Bits last[HWY_MAX_BYTES / sizeof(Bits)];
  hn::Store(largest[0], di, last);
  Bits most = *std::max_element(last, last + lanes);
  for (; i < size; ++i) {
    const Bits distance = std::bit_cast<Bits>(a[i] - b[i]) & std::numeric_limits<Bits>::max();
    most = std::max(most, distance);
  }
  return std::bit_cast<T>(most);
}

float DistanceOfFloats(const float* a, const float* b, int64_t count) {
  return DistanceOf(a, b, count);
}
double DistanceOfDoubles(const double* a, const double* b, int64_t count) {
  return DistanceOf(a, b, count);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gshard::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gshard::cpu {
HWY_EXPORT(Look);
HWY_EXPORT(DistanceOfFloats);
HWY_EXPORT(DistanceOfDoubles);

BitsLook LookAtBits(const void* a, const void* b, int64_t count, int bytes, uint64_t infinity) {
  return HWY_DYNAMIC_DISPATCH(Look)(a, b, count, bytes, infinity);
}
float LargestDistance(const float* a, const float* b, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(DistanceOfFloats)(a, b, count);
}
double LargestDistance(const double* a, const double* b, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(DistanceOfDoubles)(a, b, count);
}
}  // namespace gshard::cpu
#endif
