// Batched contraction of two dense arrays: canonical geometry, packing, products, conversions.
// dot, ragged-dot, scaled-dot and 0-d convolutions are built on it.
#ifndef GSHARD_BACKENDS_CPU_OPS_DOT_PRODUCT_H_
#define GSHARD_BACKENDS_CPU_OPS_DOT_PRODUCT_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "backends/cpu/arrays/strided.h"
#include "backends/cpu/elementwise/array_convert.h"
#include "backends/cpu/elementwise/kernel.h"
#include "ir/attributes.h"

namespace gshard::cpu {

// The type in which products are summed: f32 for small floats, the result's or the wider operand's
// type otherwise; integers in u32 or u64 (wrapping), pred in u32.
DType AccumulationType(DType lhs, DType rhs, DType result);

class DotProduct {
 public:
  struct Operand {
    DType dtype;
    std::span<const int64_t> dims;
    Dims batch, contracting;
  };
  // Result dims: batch, then free dims of lhs, then of rhs; row-major.
  DotProduct(const Operand& lhs, const Operand& rhs, DType result);

  void Run(const std::byte* lhs, const std::byte* rhs, std::byte* result, Scratch& scratch) const {
    RunRows(0, rows_, lhs, rhs, result, scratch);
  }
  // Rows [begin, end) of the result seen as rows() x columns(): ends are multiples of row_granule()
  // or rows(). `result` points at row `begin`.
  void RunRows(int64_t begin, int64_t end, const std::byte* lhs, const std::byte* rhs,
               std::byte* result, Scratch& scratch) const;
  // Blocks of columns that may be computed at once: RunShare of each is Run, bit for bit. `result`
  // is that of the whole product.
  int64_t ShareCount() const {
    return block_columns_ == 0 ? 1 : (n_ + block_columns_ - 1) / block_columns_;
  }
  void RunShare(int64_t share, const std::byte* lhs, const std::byte* rhs, std::byte* result,
                Scratch& scratch) const;
  // `count` lhs instances at distance lhs_bytes() against one rhs, results dense: as one product.
  bool CanStack() const { return can_stack_; }
  void RunStacked(int64_t count, const std::byte* lhs, const std::byte* rhs, std::byte* result,
                  Scratch& scratch) const;

  // `count` rhs instances against one lhs, as one product of so many times the columns: for rhs of
  // less than a vector's width. Results at distance `result_stride` in bytes.
  bool CanWiden() const { return can_widen_; }
  void RunWidened(int64_t count, const std::byte* lhs, const std::byte* const* rhs,
                  std::byte* result, int64_t result_stride, Scratch& scratch) const;
  // sum (accumulate: +)= the products of `count` pairs, whose result is f32 or f64.
  bool CanSum() const { return can_sum_; }
  void RunSum(int64_t count, const std::byte* const* lhs, const std::byte* const* rhs,
              bool accumulate, std::byte* sum, Scratch& scratch) const;

  int64_t rows() const { return rows_; }
  int64_t columns() const { return n_; }
  int64_t row_granule() const { return row_granule_; }
  int64_t lhs_bytes() const { return lhs_count_ * lhs_convert_.from_bytes(); }
  int64_t result_bytes() const { return rows_ * n_ * result_convert_.to_bytes(); }
  int64_t Flops() const;

 private:
  // One batch dim, or a free dim of the lhs that cannot be merged into the rows.
  struct Loop {
    int64_t size, lhs, rhs;  // strides in elements
  };
  struct Side;
  std::pair<bool, bool> Arrange(const Side& lhs, const Side& rhs);
  void ChooseBlocks();
  bool IsPairs() const;
  // Calls f with a value of the C++ type of factors and one of that of sums.
  template <typename F>
  void WithTypes(F&& f) const;
  // T: of factors. As many rows and columns as OpenBLAS or oneDNN does at once.
  template <typename T, typename Sum>
  void MultiplyBlock(int64_t m, int64_t n, const T* lhs, const T* rhs, Sum* result) const;
  template <typename T, typename Sum>
  void MultiplyShare(int64_t share, int64_t m, const T* lhs, const T* rhs, Sum* result) const;
  template <typename T, typename Sum>
  void Multiply(int64_t m, const T* lhs, const T* rhs, Sum* result) const;
  template <typename T>
  void MultiplyNarrow(int64_t m, const T* lhs, const T* rhs, T* result) const;
  template <typename T, typename Sum>
  void RunTyped(int64_t begin, int64_t end, const std::byte* lhs, const std::byte* rhs,
                std::byte* result) const;
  void Dispatch(int64_t begin, int64_t end, const std::byte* lhs, const std::byte* rhs,
                std::byte* result) const;
  template <typename T>
  void WidenTyped(int64_t count, const T* lhs, const std::byte* const* rhs, std::byte* result,
                  int64_t result_stride, Scratch& scratch) const;
  template <typename T>
  void SumTyped(int64_t count, const T* const* lhs, const T* const* rhs, bool accumulate, T* sum,
                Scratch& scratch) const;
  template <typename T>
  void SumNarrow(int64_t count, const T* const* lhs, const T* const* rhs, bool accumulate, T* sum,
                 Scratch& scratch) const;
  const std::byte* Prepare(const ArrayConvert& convert, const StridedCopy* pack, int64_t count,
                           const std::byte* data, Scratch& scratch) const;
  // [begin, end) of so many equal parts of an operand, at distance `stride` as it is multiplied.
  struct Part {
    int64_t begin, end, of, stride;
  };
  // Points at the first of them; no others are prepared where they lie one after another.
  const std::byte* PreparePart(const ArrayConvert& convert, const StridedCopy* pack, int64_t count,
                               const Part& part, const std::byte* data, Scratch& scratch) const;

  DType accumulate_;
  bool narrow_;  // factors are multiplied as 8-bit integers, or as bf16
  bool lhs_signed_, rhs_signed_;
  DType lhs_factor_, rhs_factor_;  // types of operands when they are multiplied
  ArrayConvert lhs_convert_, rhs_convert_, result_convert_;
  int64_t lhs_count_, rhs_count_;
  bool pack_lhs_ = false, pack_rhs_ = false;
  StridedCopy lhs_pack_, rhs_pack_;  // of converted elements
  std::vector<Loop> loops_;          // outermost first
  int64_t outer_ = 1;                // product of the loops
  int64_t m_ = 1, n_ = 1, k_ = 1;
  int64_t lhs_row_ = 0, lhs_column_ = 0, rhs_row_ = 0, rhs_column_ = 0;
  int64_t rows_ = 1;
  int64_t row_granule_ = 1;
  bool by_library_ = false;    // OpenBLAS or oneDNN, whose calls are cut alike every time
  int64_t block_rows_ = 0;     // rows of one of its calls; 0: our own kernels
  int64_t block_columns_ = 0;  // columns of one call
  bool can_stack_ = false, can_sum_ = false, can_widen_ = false;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_OPS_DOT_PRODUCT_H_
