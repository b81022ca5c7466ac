// Four vectors of candidates, each with its indices, folded together at the end of the row. A row
// with a NaN among its candidates is gone through once more in order: its first one counts.
#include "backends/cpu/kernels/arg_rows.h"

#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/arg_rows.cc"
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

constexpr size_t kChains = 4;  // against the latency of comparing and selecting

template <bool kLargest, typename T, typename I>
void FoldOne(T value, I index, T& best, I& best_index) {
  const bool keeps = (kLargest ? best > value : best < value) || best != best;
  const bool earlier = keeps || (best == value && best_index < index);
  best = keeps ? best : value;
  best_index = earlier ? best_index : index;
}

template <bool kLargest, class D, class DI>
HWY_INLINE void FoldVector(D d, DI di, hn::Vec<D> values, hn::Vec<DI> indices, hn::Vec<D>& best,
                           hn::Vec<DI>& best_index) {
  const auto better = kLargest ? hn::Gt(best, values) : hn::Lt(best, values);
  const auto keeps = hn::Or(better, hn::IsNaN(best));
  const auto tie = hn::And(hn::Eq(best, values), hn::RebindMask(d, hn::Lt(best_index, indices)));
  best = hn::IfThenElse(keeps, best, values);
  best_index = hn::IfThenElse(hn::RebindMask(di, hn::Or(keeps, tie)), best_index, indices);
}

template <bool kLargest, typename T, typename I>
void FoldRow(const T* values, const I* indices, size_t count, T& best, I& best_index) {
  for (size_t i = 0; i < count; ++i) FoldOne<kLargest>(values[i], indices[i], best, best_index);
}

template <bool kLargest, typename T, typename I>
void OneRow(const T* values, const I* indices, size_t count, T& best, I& best_index) {
  const hn::ScalableTag<T> d;
  const hn::ScalableTag<I> di;
  const size_t lanes = hn::Lanes(d), step = kChains * lanes;
  if (count < step) {
    FoldRow<kLargest>(values, indices, count, best, best_index);
    return;
  }
  hn::Vec<decltype(d)> candidates[kChains];
  hn::Vec<decltype(di)> places[kChains];
#pragma GCC unroll 4
  for (size_t c = 0; c < kChains; ++c) {
    candidates[c] = hn::LoadU(d, values + c * lanes);
    places[c] = hn::LoadU(di, indices + c * lanes);
  }
  size_t i = step;
  for (; i + step <= count; i += step) {
#pragma GCC unroll 4
    for (size_t c = 0; c < kChains; ++c) {
      FoldVector<kLargest>(d, di, hn::LoadU(d, values + i + c * lanes),
                           hn::LoadU(di, indices + i + c * lanes), candidates[c], places[c]);
    }
  }
  for (size_t c = 1; c < kChains; ++c) {
    FoldVector<kLargest>(d, di, candidates[c], places[c], candidates[0], places[0]);
  }
  HWY_ALIGN T last[HWY_MAX_BYTES / sizeof(T)];
  HWY_ALIGN I last_places[HWY_MAX_BYTES / sizeof(I)];
  hn::Store(candidates[0], d, last);
  hn::Store(places[0], di, last_places);
  T row_best = last[0];
  I row_index = last_places[0];
  FoldRow<kLargest>(last + 1, last_places + 1, lanes - 1, row_best, row_index);
  FoldRow<kLargest>(values + i, indices + i, count - i, row_best, row_index);
  if (row_best != row_best) {
    FoldRow<kLargest>(values, indices, count, best, best_index);
  } else {
    FoldOne<kLargest>(row_best, row_index, best, best_index);
  }
}

template <bool kLargest, typename T, typename I>
void ArgRows(const void* values, const void* indices, int64_t count, int64_t rows, void* best,
             void* index) {
  const T* value = static_cast<const T*>(values);
  const I* place = static_cast<const I*>(indices);
  for (int64_t r = 0; r < rows; ++r, value += count, place += count) {
    OneRow<kLargest>(value, place, static_cast<size_t>(count), static_cast<T*>(best)[r],
                     static_cast<I*>(index)[r]);
  }
}

ArgRowsFunction Find(DType value, DType index, bool largest) {
  if (value == DType::kF32 && index == DType::kS32) {
    return largest ? &ArgRows<true, float, int32_t> : &ArgRows<false, float, int32_t>;
  }
  if (value == DType::kF64 && index == DType::kS64) {
    return largest ? &ArgRows<true, double, int64_t> : &ArgRows<false, double, int64_t>;
  }
  return nullptr;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gshard::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gshard::cpu {
HWY_EXPORT(Find);

ArgRowsFunction FindArgRows(DType value, DType index, bool largest) {
  return HWY_DYNAMIC_DISPATCH(Find)(value, index, largest);
}
}  // namespace gshard::cpu
#endif
