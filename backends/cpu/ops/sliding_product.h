// Convolution without patches: one row of outputs along the last spatial dim is a sum of products.
//
//   output row [positions, outputs] = sum over window rows w of  A(w) [positions, width * features]
//                                                               * kernel(w) [width * features,
//                                                               outputs]
//
// Windows of neighbouring positions overlap in memory, so A(w) is the input row itself, read with a
// distance of stride * features from row to row. Only padding and holes along the last dim ask for
// a copy of the row. Immutable; bits of a row do not depend on which rows are run together.
#ifndef GSHARD_BACKENDS_CPU_OPS_SLIDING_PRODUCT_H_
#define GSHARD_BACKENDS_CPU_OPS_SLIDING_PRODUCT_H_

#include <cstdint>
#include <vector>

#include "backends/cpu/arrays/window_geometry.h"
#include "backends/cpu/elementwise/kernel.h"

namespace gshard::cpu {

class SlidingProduct {
 public:
  // Images [spatial.., features], kernels [window.., features, outputs], results
  // [positions.., outputs], all dense. At least one spatial dim.
  SlidingProduct(std::vector<SlidingDim> spatial, int64_t features, int64_t outputs);

  // Whether rows are long enough, and windows small enough, for this to beat patches.
  static bool Pays(const std::vector<SlidingDim>& spatial, int64_t features);

  int64_t rows() const { return rows_; }  // of one image's result
  // Rows [begin, end) of one image; `result` points at row `begin`.
  void Run(int64_t begin, int64_t end, const float* image, const float* kernel, float* result,
           Scratch& scratch) const;
  void Run(int64_t begin, int64_t end, const double* image, const double* kernel, double* result,
           Scratch& scratch) const;

 private:
  template <typename T>
  struct RowCache;
  template <typename T>
  void RunTyped(int64_t begin, int64_t end, const T* image, const T* kernel, T* result,
                Scratch& scratch) const;
  template <typename T>
  void CopyRow(const T* row, T* padded) const;

  std::vector<SlidingDim> outer_;  // all but the last dim
  SlidingDim inner_;
  int64_t features_, outputs_;
  int64_t rows_ = 1, window_rows_ = 1;
  int64_t width_ = 0;      // positions of a row that windows meet
  bool in_place_ = false;  // without a copy
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_OPS_SLIDING_PRODUCT_H_
