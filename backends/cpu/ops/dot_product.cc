// Geometry of a contraction. Each operand is seen as loops x rows x contracted (x columns); dims
// that lie next to each other in memory merge. What cannot be passed on as strides is packed.
#include "backends/cpu/ops/dot_product.h"

#include <algorithm>
#include <complex>
#include <type_traits>

#include "backends/cpu/kernels/gemm.h"
#include "backends/cpu/kernels/onednn.h"
#include "ir/dims.h"

namespace gshard::cpu {

struct FreeDim {
  int64_t size, stride;
};

namespace {

struct PairDim {
  int64_t size, lhs, rhs;
};

// Merges neighbours, outermost first; drops dims of size 1.
std::vector<FreeDim> Merge(std::vector<FreeDim> dims) {
  std::vector<FreeDim> merged;
  for (const FreeDim& dim : dims) {
    if (dim.size == 1) continue;
    if (!merged.empty() && merged.back().stride == dim.stride * dim.size) {
      merged.back() = {merged.back().size * dim.size, dim.stride};
    } else {
      merged.push_back(dim);
    }
  }
  return merged;
}
std::vector<PairDim> Merge(std::vector<PairDim> dims) {
  std::vector<PairDim> merged;
  for (const PairDim& dim : dims) {
    if (dim.size == 1) continue;
    if (!merged.empty() && merged.back().lhs == dim.lhs * dim.size &&
        merged.back().rhs == dim.rhs * dim.size) {
      merged.back() = {merged.back().size * dim.size, dim.lhs, dim.rhs};
    } else {
      merged.push_back(dim);
    }
  }
  return merged;
}

std::vector<int64_t> FreeDimsOf(const DotProduct::Operand& x) {
  return FreeDims(static_cast<int64_t>(x.dims.size()), x.batch, x.contracting);
}

DType Wider(DType a, DType b) {
  const auto rank = [](DType d) {
    return d == DType::kC128 ? 3 : d == DType::kC64 ? 2 : d == DType::kF64 ? 1 : 0;
  };
  if ((a == DType::kC64 && b == DType::kF64) || (a == DType::kF64 && b == DType::kC64)) {
    return DType::kC128;
  }
  return rank(a) >= rank(b) ? a : b;
}

// s16 has all values of the type, as it is stored.
bool FitsShort(DType type) {
  return type == DType::kPred || type == DType::kS16 || (IsInteger(type) && DTypeBits(type) <= 8);
}

bool FitsInt8(DType type) { return FitsShort(type) && type != DType::kS16; }

// bf16 has all values of the type, none of them subnormal there if they are not here.
bool FitsBf16(DType type) {
  return type == DType::kBF16 ||
         (IsFloat(type) && DTypeBits(type) <= 8 && type != DType::kF8E8M0FNU);
}

// Are these multiplied as they are, 8-bit integers or bf16, each of both operands' rows and columns
// at a time?
bool StaysNarrow(const DotProduct::Operand& lhs, const DotProduct::Operand& rhs, DType accumulate) {
  // Below, small products of bf16 that share an operand are stacked.
  constexpr int64_t kWorthBf16 = 1 << 18;
  const auto sizes = [](const DotProduct::Operand& x, std::span<const int64_t> dims) {
    int64_t product = 1;
    for (int64_t dim : dims) product *= x.dims[static_cast<size_t>(dim)];
    return product;
  };
  const int64_t m = sizes(lhs, FreeDimsOf(lhs)), n = sizes(rhs, FreeDimsOf(rhs));
  const int64_t k = sizes(lhs, lhs.contracting);
  if (accumulate == DType::kU32 && FitsInt8(lhs.dtype) && FitsInt8(rhs.dtype)) {
    return m * n * k >= kWorthOneDnn && HasInt8Products();
  }
  if (accumulate != DType::kF32 || !FitsBf16(lhs.dtype) || !FitsBf16(rhs.dtype)) return false;
  return (m * n * k >= kWorthBf16 && HasBf16Products()) || PrefersPackedBf16(m, n, k);
}

DType FactorType(DType own, DType other, DType accumulate, bool narrow) {
  if (narrow) return accumulate == DType::kF32 ? DType::kBF16 : own;
  return accumulate == DType::kU32 && FitsShort(own) && FitsShort(other) ? DType::kS16 : accumulate;
}

template <typename T>
constexpr bool kIsNarrow = std::is_same_v<T, Bf16> || std::is_same_v<T, int8_t>;

}  // namespace

DType AccumulationType(DType lhs, DType rhs, DType result) {
  if (result == DType::kPred) return DType::kU32;
  if (IsInteger(result)) return DTypeBits(result) == 64 ? DType::kU64 : DType::kU32;
  DType type = ComputeType(result);
  for (DType operand : {lhs, rhs}) {
    if (!IsInteger(operand) && operand != DType::kPred) type = Wider(type, ComputeType(operand));
  }
  return type;
}

// Where each operand's dims lie while the geometry is worked out.
struct DotProduct::Side {
  const Operand& operand;
  Dims contracting;  // in the common order of pairs
  std::vector<int64_t> free;
  std::vector<int64_t> strides;
  bool packed = false;
  StridedCopy copy;

  int64_t size(int64_t dim) const { return operand.dims[static_cast<size_t>(dim)]; }
  int64_t stride(int64_t dim) const { return strides[static_cast<size_t>(dim)]; }
  std::vector<FreeDim> Merged(std::span<const int64_t> dims) const {
    std::vector<FreeDim> list;
    for (int64_t dim : dims) list.push_back({size(dim), stride(dim)});
    return Merge(std::move(list));
  }
  // Is the dim that is innermost in memory contracted?
  bool ContractsLast() const {
    for (auto dim = static_cast<int64_t>(operand.dims.size()); dim-- > 0;) {
      if (size(dim) == 1) continue;
      return std::find(contracting.begin(), contracting.end(), dim) != contracting.end();
    }
    return true;
  }
  // Stores the operand anew as [batch, free, contracted], row-major, or as [batch, contracted,
  // free].
  void Pack(int64_t element_bytes, bool contracted_last) {
    std::vector<int64_t> order(operand.batch.begin(), operand.batch.end());
    const auto append = [&](std::span<const int64_t> list) {
      order.insert(order.end(), list.begin(), list.end());
    };
    append(contracted_last ? std::span<const int64_t>(free) : contracting);
    append(contracted_last ? contracting : std::span<const int64_t>(free));
    const std::vector<int64_t> source = RowMajorStrides(operand.dims);
    int64_t next = 1;
    for (size_t i = order.size(); i-- > 0;) {
      strides[static_cast<size_t>(order[i])] = next;
      next *= size(order[i]);
    }
    std::vector<StridedDim> box;
    for (size_t i = 0; i < source.size(); ++i) {
      box.push_back({operand.dims[i], source[i], strides[i]});
    }
    copy = StridedCopy(std::move(box), element_bytes);
    packed = true;
  }
};

// Sets loops, m, n, k and strides from where the dims lie. Returns which sides must be packed
// before that is a true picture.
std::pair<bool, bool> DotProduct::Arrange(const Side& lhs, const Side& rhs) {
  std::vector<PairDim> pairs;
  for (size_t i = 0; i < lhs.contracting.size(); ++i) {
    const int64_t l = lhs.contracting[i], r = rhs.contracting[i];
    pairs.push_back({lhs.size(l), lhs.stride(l), rhs.stride(r)});
  }
  pairs = Merge(std::move(pairs));
  std::vector<FreeDim> rows = lhs.Merged(lhs.free);
  const std::vector<FreeDim> columns = rhs.Merged(rhs.free);
  k_ = pairs.empty() ? 1 : pairs[0].size;
  lhs_column_ = pairs.empty() ? 1 : pairs[0].lhs;
  rhs_row_ = pairs.empty() ? 1 : pairs[0].rhs;
  n_ = columns.empty() ? 1 : columns[0].size;
  rhs_column_ = columns.empty() ? 1 : columns[0].stride;
  m_ = rows.empty() ? 1 : rows.back().size;
  lhs_row_ = rows.empty() ? k_ * lhs_column_ : rows.back().stride;

  // Rows in several pieces are looped over if the pieces are worth a call each.
  constexpr int64_t kWorthACall = 1 << 15;
  bool pack_lhs = rows.size() > 1 && m_ * n_ * k_ < kWorthACall;
  bool pack_rhs = columns.size() > 1;
  if (pairs.size() > 1) {  // whichever side keeps the pairs apart
    pack_lhs = pack_lhs || lhs.Merged(lhs.contracting).size() > 1;
    pack_rhs = pack_rhs || rhs.Merged(rhs.contracting).size() > 1;
    if (!pack_lhs && !pack_rhs) pack_rhs = true;
  }

  std::vector<PairDim> batch;
  for (size_t i = 0; i < lhs.operand.batch.size(); ++i) {
    const int64_t l = lhs.operand.batch[i], r = rhs.operand.batch[i];
    batch.push_back({lhs.size(l), lhs.stride(l), rhs.stride(r)});
  }
  loops_.clear();
  outer_ = 1;
  for (const PairDim& dim : Merge(std::move(batch))) loops_.push_back({dim.size, dim.lhs, dim.rhs});
  if (!rows.empty()) rows.pop_back();
  for (const FreeDim& row : rows) loops_.push_back({row.size, row.stride, 0});
  for (const Loop& loop : loops_) outer_ *= loop.size;
  rows_ = outer_ * m_;

  const bool is_float = accumulate_ == DType::kF32 || accumulate_ == DType::kF64;
  by_library_ = narrow_ || IsComplex(accumulate_) || (is_float && !PrefersRowGemm(m_, n_, k_));
  if (by_library_) {
    pack_lhs = pack_lhs || !IsBlasOperand(m_, k_, lhs_row_, lhs_column_);
    pack_rhs = pack_rhs || !IsBlasOperand(k_, n_, rhs_row_, rhs_column_);
  }
  return {pack_lhs && !lhs.packed, pack_rhs && !rhs.packed};
}

// Every call of a library packs both its operands: a block of rows packs all of the rhs once more,
// a block of columns all of the lhs. The blocks depend on nothing but the shape.
void DotProduct::ChooseBlocks() {
  constexpr int64_t kBlasRows = 512, kBlasColumns = 1024;
  block_columns_ = n_;
  block_rows_ = by_library_ ? std::clamp<int64_t>(m_, 1, kBlasRows) : 0;
  // Much work in few rows: at least four pieces, so that several threads have some.
  const int64_t worth_splitting = int64_t{1} << (narrow_ ? 26 : 28);
  if (!by_library_ || m_ * n_ * k_ < worth_splitting) return;
  const auto quarter = [](int64_t size) { return (size + 255) / 256 * 64; };
  // A share neither prepares the rhs (each would do all of it) nor converts sums.
  const bool can_share =
      outer_ == 1 && !pack_rhs_ && rhs_convert_.IsIdentity() && result_convert_.IsIdentity();
  if (n_ > m_ && n_ >= 256 && can_share) {
    block_columns_ = std::min(quarter(n_), kBlasColumns);
    block_rows_ = m_;
  } else if (m_ >= 256) {
    // Blocks of few columns are finished while they are in cache (EpilogueKernel).
    constexpr int64_t kFinishedColumns = 256, kManyRows = 1024;
    block_rows_ = std::min(n_ <= kFinishedColumns ? kBlasRows : kManyRows, quarter(m_));
  }
}

DotProduct::DotProduct(const Operand& lhs, const Operand& rhs, DType result)
    : accumulate_(AccumulationType(lhs.dtype, rhs.dtype, result)),
      narrow_(StaysNarrow(lhs, rhs, accumulate_)),
      lhs_signed_(ClassOf(lhs.dtype) == DTypeClass::kSigned),
      rhs_signed_(ClassOf(rhs.dtype) == DTypeClass::kSigned),
      lhs_factor_(FactorType(lhs.dtype, rhs.dtype, accumulate_, narrow_)),
      rhs_factor_(FactorType(rhs.dtype, lhs.dtype, accumulate_, narrow_)),
      lhs_convert_(lhs.dtype, lhs_factor_),
      rhs_convert_(rhs.dtype, rhs_factor_),
      // Integers end as their low bits; pred as "any".
      result_convert_(accumulate_, result),
      lhs_count_(gshard::cpu::Product(lhs.dims)),
      rhs_count_(gshard::cpu::Product(rhs.dims)) {
  LimitBlasThreads();
  // The order of contracted pairs is free: that of the lhs in memory.
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (size_t i = 0; i < lhs.contracting.size(); ++i) {
    pairs.emplace_back(lhs.contracting[i], rhs.contracting[i]);
  }
  std::sort(pairs.begin(), pairs.end());
  std::vector<int64_t> lhs_contracting, rhs_contracting;
  for (const auto& [l, r] : pairs) {
    lhs_contracting.push_back(l);
    rhs_contracting.push_back(r);
  }
  Side left{lhs, lhs_contracting, FreeDimsOf(lhs), RowMajorStrides(lhs.dims), false, {}};
  Side right{rhs, rhs_contracting, FreeDimsOf(rhs), RowMajorStrides(rhs.dims), false, {}};
  for (;;) {
    const auto [pack_lhs, pack_rhs] = Arrange(left, right);
    if (!pack_lhs && !pack_rhs) break;
    if (pack_lhs) left.Pack(StorageBytes(lhs_factor_), /*contracted_last=*/true);
    // Rows of adjacent columns are what RowGemm reads in place.
    if (pack_rhs) right.Pack(StorageBytes(rhs_factor_), right.ContractsLast());
  }
  pack_lhs_ = left.packed;
  pack_rhs_ = right.packed;
  lhs_pack_ = std::move(left.copy);
  rhs_pack_ = std::move(right.copy);
  ChooseBlocks();
  const bool prepares =
      pack_lhs_ || pack_rhs_ || !lhs_convert_.IsIdentity() || !rhs_convert_.IsIdentity();
  // What is prepared anew for every range should serve many rows, but two threads want a share
  // each.
  constexpr int64_t kFewPrepared = 128, kPreparedRows = 512;
  const int64_t prepared = std::clamp((rows_ + 1) / 2, kFewPrepared, kPreparedRows);
  row_granule_ = outer_ > 1 ? m_ : block_rows_ > 0 ? block_rows_ : prepares ? prepared : 1;
  can_stack_ = block_rows_ == 0 && (accumulate_ == DType::kF32 || accumulate_ == DType::kF64) &&
               loops_.empty() && !pack_lhs_ && lhs_row_ * m_ == lhs_count_;
  can_sum_ = (accumulate_ == DType::kF32 || accumulate_ == DType::kF64) && loops_.empty() &&
             !narrow_ && lhs_convert_.IsIdentity() && rhs_convert_.IsIdentity() &&
             result_convert_.IsIdentity();
  constexpr int64_t kNarrow = 64;  // bytes of a row of the result
  const bool dense_rhs =
      (rhs_column_ == 1 && rhs_row_ == n_) || (rhs_row_ == 1 && rhs_column_ == k_);
  can_widen_ = can_sum_ && block_rows_ == 0 && !pack_lhs_ && !pack_rhs_ && dense_rhs && m_ > 1 &&
               n_ * result_convert_.to_bytes() < kNarrow;
}

// A batch of products of a row and a column each.
bool DotProduct::IsPairs() const {
  return loops_.size() == 1 && m_ == 1 && n_ == 1 && k_ > 0 && !by_library_ &&
         DotRows<float>::MayLie(loops_[0].lhs) && DotRows<float>::MayLie(loops_[0].rhs);
}

int64_t DotProduct::Flops() const { return rows_ * n_ * k_ * (IsComplex(accumulate_) ? 8 : 2); }

constexpr int64_t kNarrowColumns = 8;

// A few columns leave most of a vector empty: rows of the transposed result are long. An element's
// products are added in the same order.
template <typename T>
void DotProduct::MultiplyNarrow(int64_t m, const T* lhs, const T* rhs, T* result) const {
  constexpr int64_t kBlock = 128;
  T block[kNarrowColumns * kBlock];
  for (int64_t i = 0; i < m; i += kBlock) {
    const int64_t rows = std::min(kBlock, m - i);
    RowGemm(n_, rows, k_, MatrixView<T>{rhs, rhs_column_, rhs_row_},
            MatrixView<T>{lhs + i * lhs_row_, lhs_column_, lhs_row_}, block, rows);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t j = 0; j < n_; ++j) *result++ = block[j * rows + r];
    }
  }
}

template <typename T, typename Sum>
void DotProduct::MultiplyBlock(int64_t m, int64_t n, const T* lhs, const T* rhs,
                               Sum* result) const {
  const MatrixView<T> a{lhs, lhs_row_, lhs_column_}, b{rhs, rhs_row_, rhs_column_};
  if constexpr (std::is_same_v<T, int8_t>) {
    const auto view = [](const MatrixView<T>& x, bool is_signed) {
      return Int8View{reinterpret_cast<const std::byte*>(x.data), x.row, x.column, is_signed};
    };
    OneDnnGemm(m, n, k_, view(a, lhs_signed_), view(b, rhs_signed_), result, n_);
  } else if constexpr (std::is_same_v<T, Bf16>) {
    if (HasBf16Products()) {
      OneDnnGemm(m, n, k_, a, b, result, n_);
    } else {
      RowGemm(m, n, k_, a, b, result, n_);
    }
  } else {
    BlasGemm(m, n, k_, a, b, {result, n_});
  }
}

template <typename T, typename Sum>
void DotProduct::Multiply(int64_t m, const T* lhs, const T* rhs, Sum* result) const {
  const MatrixView<T> a{lhs, lhs_row_, lhs_column_}, b{rhs, rhs_row_, rhs_column_};
  if (k_ == 0) {
    std::fill_n(result, m * n_, Sum{0});
  } else if constexpr (std::is_integral_v<T> && !kIsNarrow<T>) {
    IntegerGemm(m, n_, k_, a, b, result, n_);
  } else {
    if (block_columns_ < n_) {
      for (int64_t share = 0; share < ShareCount(); ++share) {
        MultiplyShare(share, m, lhs, rhs, result);
      }
      return;
    }
    if constexpr (std::is_floating_point_v<T>) {
      if (block_rows_ == 0 && n_ == 1 && lhs_row_ == 1) {
        // One column from columns: the other way round it is one long row.
        RowGemm(1, m, k_, MatrixView<T>{rhs, 0, rhs_row_}, MatrixView<T>{lhs, lhs_column_, 1},
                result, m);
        return;
      }
      if constexpr (std::is_same_v<T, float>) {
        if (block_rows_ == 0 && n_ == 1 && lhs_column_ == 1) {
          RowDots(m, k_, lhs, lhs_row_, rhs, rhs_row_, result);
          return;
        }
      }
      const bool narrow = std::is_same_v<T, float> && n_ > 1 && n_ <= kNarrowColumns && 4 * n_ <= m;
      if (block_rows_ == 0 && narrow) {
        MultiplyNarrow(m, lhs, rhs, result);
        return;
      }
      if (block_rows_ == 0) {
        RowGemm(m, n_, k_, a, b, result, n_);
        return;
      }
    }
    MultiplyBlock(m, n_, lhs, rhs, result);
  }
}

template <typename T, typename Sum>
void DotProduct::MultiplyShare(int64_t share, int64_t m, const T* lhs, const T* rhs,
                               Sum* result) const {
  if constexpr (!std::is_integral_v<T> || kIsNarrow<T>) {  // other integers have one share
    const int64_t column = share * block_columns_;
    MultiplyBlock(m, std::min(block_columns_, n_ - column), lhs, rhs + column * rhs_column_,
                  result + column);
  }
}

template <typename T, typename Sum>
void DotProduct::RunTyped(int64_t begin, int64_t end, const std::byte* lhs_data,
                          const std::byte* rhs_data, std::byte* result_data) const {
  const T* lhs = reinterpret_cast<const T*>(lhs_data);
  const T* rhs = reinterpret_cast<const T*>(rhs_data);
  Sum* result = reinterpret_cast<Sum*>(result_data);
  if constexpr (std::is_floating_point_v<T>) {
    if (IsPairs()) {
      const DotRows<T> a{lhs + begin * loops_[0].lhs, loops_[0].lhs, lhs_column_};
      const DotRows<T> b{rhs + begin * loops_[0].rhs, loops_[0].rhs, rhs_row_};
      PairDots(end - begin, k_, a, b, result);
      return;
    }
  }
  const int64_t block = block_rows_ > 0 ? block_rows_ : m_;
  for (int64_t row = begin; row < end;) {
    int64_t rest = row / m_, lhs_offset = 0, rhs_offset = 0;
    for (size_t i = loops_.size(); i-- > 0;) {
      const int64_t index = rest % loops_[i].size;
      rest /= loops_[i].size;
      lhs_offset += index * loops_[i].lhs;
      rhs_offset += index * loops_[i].rhs;
    }
    const int64_t i = row % m_;
    const int64_t count = std::min({end - row, m_ - i, block - i % block});
    Multiply(count, lhs + lhs_offset + i * lhs_row_, rhs + rhs_offset, result);
    result += count * n_;
    row += count;
  }
}

template <typename F>
void DotProduct::WithTypes(F&& f) const {
  if (narrow_) return accumulate_ == DType::kF32 ? f(Bf16{}, float{}) : f(int8_t{}, uint32_t{});
  if (lhs_factor_ == DType::kS16) return f(int16_t{}, uint32_t{});
  WithAccumulationType(accumulate_, [&](auto tag) { f(tag, tag); });
}

void DotProduct::Dispatch(int64_t begin, int64_t end, const std::byte* lhs, const std::byte* rhs,
                          std::byte* result) const {
  WithTypes([&](auto factor, auto sum) {
    RunTyped<decltype(factor), decltype(sum)>(begin, end, lhs, rhs, result);
  });
}

const std::byte* DotProduct::Prepare(const ArrayConvert& convert, const StridedCopy* pack,
                                     int64_t count, const std::byte* data, Scratch& scratch) const {
  data = convert.InScratch(count, data, scratch);
  if (pack == nullptr) return data;
  std::byte* packed = scratch.Allocate(static_cast<size_t>(count * convert.to_bytes()));
  pack->Run(data, packed);
  return packed;
}

const std::byte* DotProduct::PreparePart(const ArrayConvert& convert, const StridedCopy* pack,
                                         int64_t count, const Part& part, const std::byte* data,
                                         Scratch& scratch) const {
  const int64_t n = part.end - part.begin;
  const bool dense = part.stride * part.of == count;
  if (pack == nullptr && dense) {
    return convert.InScratch(n * part.stride,
                             data + part.begin * part.stride * convert.from_bytes(), scratch);
  }
  // Whole rows of the copy, or the operand is prepared as a whole.
  const int64_t rows = pack == nullptr ? 0 : pack->RowCount();
  const int64_t first = part.begin * rows / part.of, last = part.end * rows / part.of;
  if (!dense || first * part.of != part.begin * rows || last * part.of != part.end * rows) {
    return Prepare(convert, pack, count, data, scratch) +
           part.begin * part.stride * convert.to_bytes();
  }
  data = convert.InScratch(count, data, scratch);
  std::byte* packed = scratch.Allocate(static_cast<size_t>(n * part.stride * convert.to_bytes()));
  pack->RunRows(first, last - first, data, packed);
  return packed;
}

void DotProduct::RunRows(int64_t begin, int64_t end, const std::byte* lhs, const std::byte* rhs,
                         std::byte* result, Scratch& scratch) const {
  const int64_t count = (end - begin) * n_;
  if (count == 0) return;
  Part left{0, 1, 1, lhs_count_}, right{0, 1, 1, rhs_count_};
  int64_t first = begin;  // as the parts have it
  if (outer_ == 1) {
    left = {begin, end, rows_, lhs_row_};
    first = 0;
  } else if (loops_.size() == 1) {
    const int64_t first_pass = begin / m_, last_pass = (end + m_ - 1) / m_;
    left = {first_pass, last_pass, outer_, loops_[0].lhs};
    right = {first_pass, last_pass, outer_, loops_[0].rhs};
    first = begin % m_;
  }
  lhs = PreparePart(lhs_convert_, pack_lhs_ ? &lhs_pack_ : nullptr, lhs_count_, left, lhs, scratch);
  rhs =
      PreparePart(rhs_convert_, pack_rhs_ ? &rhs_pack_ : nullptr, rhs_count_, right, rhs, scratch);
  if (result_convert_.IsIdentity()) {
    Dispatch(first, first + end - begin, lhs, rhs, result);
    return;
  }
  std::byte* sums = scratch.Allocate(static_cast<size_t>(count * result_convert_.from_bytes()));
  Dispatch(first, first + end - begin, lhs, rhs, sums);
  result_convert_.Run(count, sums, result, scratch);
}

void DotProduct::RunShare(int64_t share, const std::byte* lhs, const std::byte* rhs,
                          std::byte* result, Scratch& scratch) const {
  if (ShareCount() == 1) {
    Run(lhs, rhs, result, scratch);
    return;
  }
  lhs = Prepare(lhs_convert_, pack_lhs_ ? &lhs_pack_ : nullptr, lhs_count_, lhs, scratch);
  WithTypes([&](auto factor, auto sum) {
    using T = decltype(factor);
    MultiplyShare(share, m_, reinterpret_cast<const T*>(lhs), reinterpret_cast<const T*>(rhs),
                  reinterpret_cast<decltype(sum)*>(result));
  });
}

void DotProduct::RunStacked(int64_t count, const std::byte* lhs, const std::byte* rhs,
                            std::byte* result, Scratch& scratch) const {
  const int64_t m = count * m_, elements = m * n_;
  if (elements == 0) return;
  lhs = lhs_convert_.InScratch(count * lhs_count_, lhs, scratch);
  rhs = Prepare(rhs_convert_, pack_rhs_ ? &rhs_pack_ : nullptr, rhs_count_, rhs, scratch);
  std::byte* sums = result;
  if (!result_convert_.IsIdentity()) {
    sums = scratch.Allocate(static_cast<size_t>(elements * result_convert_.from_bytes()));
  }
  if (accumulate_ == DType::kF32) {
    Multiply(m, reinterpret_cast<const float*>(lhs), reinterpret_cast<const float*>(rhs),
             reinterpret_cast<float*>(sums));
  } else {
    Multiply(m, reinterpret_cast<const double*>(lhs), reinterpret_cast<const double*>(rhs),
             reinterpret_cast<double*>(sums));
  }
  if (sums != result) result_convert_.Run(elements, sums, result, scratch);
}

template <typename T>
void DotProduct::WidenTyped(int64_t count, const T* lhs, const std::byte* const* rhs,
                            std::byte* result, int64_t result_stride, Scratch& scratch) const {
  const int64_t columns = count * n_;
  T* wide = reinterpret_cast<T*>(scratch.Allocate(static_cast<size_t>(k_ * columns) * sizeof(T)));
  T* product =
      reinterpret_cast<T*>(scratch.Allocate(static_cast<size_t>(m_ * columns) * sizeof(T)));
  const bool by_columns = rhs_column_ != 1;
  for (int64_t s = 0; s < count; ++s) {
    const T* from = reinterpret_cast<const T*>(rhs[s]);
    if (by_columns) {
      std::copy_n(from, n_ * k_, wide + s * n_ * k_);
    } else {
      for (int64_t p = 0; p < k_; ++p) std::copy_n(from + p * n_, n_, wide + p * columns + s * n_);
    }
  }
  const MatrixView<T> b = by_columns ? MatrixView<T>{wide, 1, k_} : MatrixView<T>{wide, columns, 1};
  RowGemm(m_, columns, k_, MatrixView<T>{lhs, lhs_row_, lhs_column_}, b, product, columns);
  for (int64_t s = 0; s < count; ++s) {
    T* to = reinterpret_cast<T*>(result + s * result_stride);
    for (int64_t i = 0; i < m_; ++i) std::copy_n(product + i * columns + s * n_, n_, to + i * n_);
  }
}

void DotProduct::RunWidened(int64_t count, const std::byte* lhs, const std::byte* const* rhs,
                            std::byte* result, int64_t result_stride, Scratch& scratch) const {
  const Scratch::Mark mark = scratch.Position();
  if (accumulate_ == DType::kF32) {
    WidenTyped(count, reinterpret_cast<const float*>(lhs), rhs, result, result_stride, scratch);
  } else {
    WidenTyped(count, reinterpret_cast<const double*>(lhs), rhs, result, result_stride, scratch);
  }
  scratch.Rewind(mark);
}

// Sums that do not fill half a vector's width, from columns of the lhs: the other way round, rows
// of the transposed sum are long.
template <typename T>
void DotProduct::SumNarrow(int64_t count, const T* const* lhs, const T* const* rhs, bool accumulate,
                           T* sum, Scratch& scratch) const {
  const Scratch::Mark mark = scratch.Position();
  T* transposed = reinterpret_cast<T*>(scratch.Allocate(static_cast<size_t>(m_ * n_) * sizeof(T)));
  for (int64_t i = 0; accumulate && i < m_; ++i) {
    for (int64_t j = 0; j < n_; ++j) transposed[j * m_ + i] = sum[i * n_ + j];
  }
  RowGemmSum(count, n_, m_, k_, MatrixList<T>{rhs, rhs_column_, rhs_row_},
             MatrixList<T>{lhs, lhs_column_, lhs_row_}, {transposed, m_, accumulate});
  for (int64_t i = 0; i < m_; ++i) {
    for (int64_t j = 0; j < n_; ++j) sum[i * n_ + j] = transposed[j * m_ + i];
  }
  scratch.Rewind(mark);
}

template <typename T>
void DotProduct::SumTyped(int64_t count, const T* const* lhs, const T* const* rhs, bool accumulate,
                          T* sum, Scratch& scratch) const {
  constexpr int64_t kNarrow = 32;  // bytes of a row of the result
  if (n_ * static_cast<int64_t>(sizeof(T)) <= kNarrow && n_ * 4 <= m_ && lhs_row_ == 1) {
    SumNarrow(count, lhs, rhs, accumulate, sum, scratch);
    return;
  }
  // Short products gain more from being one than from OpenBLAS.
  constexpr int64_t kShort = 64;
  if (block_rows_ == 0 || k_ < kShort) {
    RowGemmSum(count, m_, n_, k_, MatrixList<T>{lhs, lhs_row_, lhs_column_},
               MatrixList<T>{rhs, rhs_row_, rhs_column_}, {sum, n_, accumulate});
    return;
  }
  for (int64_t s = 0; s < count; ++s) {
    for (int64_t i = 0; i < m_; i += block_rows_) {
      BlasGemm(std::min(block_rows_, m_ - i), n_, k_,
               MatrixView<T>{lhs[s] + i * lhs_row_, lhs_row_, lhs_column_},
               MatrixView<T>{rhs[s], rhs_row_, rhs_column_},
               {sum + i * n_, n_, accumulate || s > 0});
    }
  }
}

void DotProduct::RunSum(int64_t count, const std::byte* const* lhs, const std::byte* const* rhs,
                        bool accumulate, std::byte* sum, Scratch& scratch) const {
  const auto prepare = [&](const ArrayConvert& convert, const StridedCopy& pack, int64_t elements,
                           const std::byte* const* data) {
    auto** packed = reinterpret_cast<const std::byte**>(
        scratch.Allocate(static_cast<size_t>(count) * sizeof(const std::byte*)));
    for (int64_t s = 0; s < count; ++s) {
      packed[s] = s > 0 && data[s] == data[s - 1]
                      ? packed[s - 1]
                      : Prepare(convert, &pack, elements, data[s], scratch);
    }
    return packed;
  };
  if (pack_lhs_) lhs = prepare(lhs_convert_, lhs_pack_, lhs_count_, lhs);
  if (pack_rhs_) rhs = prepare(rhs_convert_, rhs_pack_, rhs_count_, rhs);
  if (accumulate_ == DType::kF32) {
    SumTyped(count, reinterpret_cast<const float* const*>(lhs),
             reinterpret_cast<const float* const*>(rhs), accumulate, reinterpret_cast<float*>(sum),
             scratch);
  } else {
    SumTyped(count, reinterpret_cast<const double* const*>(lhs),
             reinterpret_cast<const double* const*>(rhs), accumulate,
             reinterpret_cast<double*>(sum), scratch);
  }
}

}  // namespace gshard::cpu
