// Rows of convolutions as products of overlapping matrices.
#include "backends/cpu/ops/sliding_product.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/gemm.h"

namespace gshard::cpu {
namespace {

constexpr int64_t kMinPositions = 12;
constexpr int64_t kMaxWindowRows = 64;
constexpr size_t kMaxRank = 64;

}  // namespace

bool SlidingProduct::Pays(const std::vector<SlidingDim>& spatial, int64_t features) {
  if (spatial.empty() || features == 0) return false;
  int64_t window_rows = 1;
  for (size_t i = 0; i + 1 < spatial.size(); ++i) window_rows *= spatial[i].window;
  const SlidingDim& inner = spatial.back();
  return inner.output >= kMinPositions && inner.base_dilation == 1 && inner.window > 0 &&
         window_rows > 0 && window_rows * inner.window <= kMaxWindowRows;
}

SlidingProduct::SlidingProduct(std::vector<SlidingDim> spatial, int64_t features, int64_t outputs)
    : outer_(spatial.begin(), spatial.end() - 1),
      inner_(spatial.back()),
      features_(features),
      outputs_(outputs) {
  for (const SlidingDim& dim : outer_) {
    rows_ *= dim.output;
    window_rows_ *= dim.window;
  }
  width_ = (inner_.output - 1) * inner_.stride + (inner_.window - 1) * inner_.window_dilation + 1;
  in_place_ = inner_.pad_low == 0 && width_ <= inner_.operand;
}

// The input rows under the current output row, with padding. A row stays as long as windows of
// following output rows meet it.
template <typename T>
struct SlidingProduct::RowCache {
  RowCache(const SlidingProduct& p, const T* data, Scratch& scratch)
      : product(p),
        image(data),
        row_elements(p.width_ * p.features_),
        input_row(reinterpret_cast<int64_t*>(
            scratch.Allocate(static_cast<size_t>(p.window_rows_) * 2 * sizeof(int64_t)))),
        used_by(input_row + p.window_rows_),
        rows(reinterpret_cast<T*>(
            scratch.Allocate(static_cast<size_t>(p.window_rows_ * row_elements) * sizeof(T)))) {
    std::fill_n(input_row, 2 * p.window_rows_, int64_t{-1});
  }

  // The copy of an input row for an output row.
  const T* Find(int64_t row, int64_t output_row) {
    int64_t slot = -1;
    for (int64_t s = 0; s < product.window_rows_; ++s) {
      if (input_row[s] == row) {
        used_by[s] = output_row;
        return rows + s * row_elements;
      }
      if (used_by[s] != output_row && (slot < 0 || input_row[s] < input_row[slot])) slot = s;
    }
    input_row[slot] = row;
    used_by[slot] = output_row;
    T* copy = rows + slot * row_elements;
    product.CopyRow(image + row * product.inner_.operand * product.features_, copy);
    return copy;
  }

  const SlidingProduct& product;
  const T* image;
  int64_t row_elements;
  int64_t* input_row;  // by slot; -1: empty
  int64_t* used_by;    // by slot: the last output row that asked for it
  T* rows;
};

template <typename T>
void SlidingProduct::CopyRow(const T* row, T* padded) const {
  const int64_t begin = std::clamp<int64_t>(inner_.pad_low, 0, width_);
  const int64_t end = std::clamp<int64_t>(inner_.operand + inner_.pad_low, begin, width_);
  std::fill_n(padded, begin * features_, T{0});
  std::copy_n(row + (begin - inner_.pad_low) * features_, (end - begin) * features_,
              padded + begin * features_);
  std::fill_n(padded + end * features_, (width_ - end) * features_, T{0});
}

template <typename T>
void SlidingProduct::RunTyped(int64_t begin, int64_t end, const T* image, const T* kernel,
                              T* result, Scratch& scratch) const {
  const Scratch::Mark mark = scratch.Position();
  // Window elements of a row that follow one another in memory are one factor.
  const bool adjacent = inner_.window_dilation == 1;
  const int64_t runs = adjacent ? 1 : inner_.window;
  const int64_t length = (adjacent ? inner_.window : 1) * features_;
  const auto pointers = static_cast<size_t>(window_rows_ * runs) * sizeof(const T*);
  const T** inputs = reinterpret_cast<const T**>(scratch.Allocate(pointers));
  const T** kernels = reinterpret_cast<const T**>(scratch.Allocate(pointers));
  RowCache<T> cache(*this, image, scratch);
  for (int64_t row = begin; row < end; ++row) {
    int64_t output[kMaxRank], window[kMaxRank] = {};
    for (int64_t i = static_cast<int64_t>(outer_.size()), rest = row; i-- > 0;) {
      output[i] = rest % outer_[static_cast<size_t>(i)].output;
      rest /= outer_[static_cast<size_t>(i)].output;
    }
    int64_t count = 0;
    for (int64_t w = 0; w < window_rows_; ++w) {
      int64_t input_row = 0;
      for (size_t i = 0; i < outer_.size() && input_row >= 0; ++i) {
        const int64_t index = outer_[i].Index(output[i], window[i]);
        input_row = index < 0 ? -1 : input_row * outer_[i].operand + index;
      }
      for (size_t i = outer_.size(); i-- > 0;) {
        if (++window[i] < outer_[i].window) break;
        window[i] = 0;
      }
      if (input_row < 0) continue;
      const T* data =
          in_place_ ? image + input_row * inner_.operand * features_ : cache.Find(input_row, row);
      for (int64_t r = 0; r < runs; ++r, ++count) {
        inputs[count] = data + r * inner_.window_dilation * features_;
        kernels[count] = kernel + (w * runs + r) * length * outputs_;
      }
    }
    RowGemmSum(count, inner_.output, outputs_, length,
               MatrixList<T>{inputs, inner_.stride * features_, 1},
               MatrixList<T>{kernels, outputs_, 1}, {result, outputs_});
    result += inner_.output * outputs_;
  }
  scratch.Rewind(mark);
}

void SlidingProduct::Run(int64_t begin, int64_t end, const float* image, const float* kernel,
                         float* result, Scratch& scratch) const {
  RunTyped(begin, end, image, kernel, result, scratch);
}
void SlidingProduct::Run(int64_t begin, int64_t end, const double* image, const double* kernel,
                         double* result, Scratch& scratch) const {
  RunTyped(begin, end, image, kernel, result, scratch);
}

}  // namespace gshard::cpu
