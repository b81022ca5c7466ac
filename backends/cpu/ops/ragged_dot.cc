// ragged-dot: groups are consecutive blocks of the ragged dim (docs/semantics.md, "Dot").
//
// Operands are stored anew with the ragged dim outermost inside the batch, so that every group is
// one product of matrices.
#include <algorithm>
#include <vector>

#include "backends/cpu/arrays/index_value.h"
#include "backends/cpu/arrays/strided.h"
#include "backends/cpu/elementwise/array_convert.h"
#include "backends/cpu/kernels/gemm.h"
#include "backends/cpu/ops/dot_kernels.h"
#include "backends/cpu/ops/dot_product.h"
#include "ir/dims.h"

namespace gshard::cpu {
namespace {

int64_t SizeOf(const Shape* shape, std::span<const int64_t> dims) {
  int64_t size = 1;
  for (int64_t dim : dims) size *= shape->dim(dim);
  return size;
}

class RaggedDotKernel : public Kernel {
 public:
  explicit RaggedDotKernel(const Instruction& instruction)
      : accumulate_(AccumulationType(instruction.operand(0)->shape()->dtype(),
                                     instruction.operand(1)->shape()->dtype(),
                                     instruction.shape()->dtype())),
        lhs_convert_(instruction.operand(0)->shape()->dtype(), accumulate_),
        rhs_convert_(instruction.operand(1)->shape()->dtype(), accumulate_),
        result_convert_(accumulate_, instruction.shape()->dtype()),
        bytes_(StorageBytes(accumulate_)) {
    const DotAttributes& dot = instruction.attributes<DotAttributes>();
    const Shape* lhs = instruction.operand(0)->shape();
    const Shape* rhs = instruction.operand(1)->shape();
    const Shape* sizes = instruction.operand(2)->shape();
    const int64_t ragged = dot.lhs_ragged[0];
    contracts_ragged_ = Contains(dot.lhs_contracting, ragged);
    sizes_type_ = sizes->dtype();
    groups_ = sizes->dim(sizes->rank() - 1);
    sizes_per_batch_ = sizes->rank() > 1;
    ragged_ = lhs->dim(ragged);
    batch_ = SizeOf(lhs, dot.lhs_batch);
    const int64_t group_dim = dot.rhs_group.empty() ? -1 : dot.rhs_group[0];
    const std::vector<int64_t> lhs_free =
        FreeDims(lhs->rank(), dot.lhs_batch, dot.lhs_contracting, contracts_ragged_ ? -1 : ragged);
    const std::vector<int64_t> rhs_free =
        FreeDims(rhs->rank(), dot.rhs_batch, dot.rhs_contracting, group_dim);
    // Contracted dims in pairs, the ragged one first.
    std::vector<int64_t> lhs_k, rhs_k;
    for (size_t i = 0; i < dot.lhs_contracting.size(); ++i) {
      const bool first = dot.lhs_contracting[i] == ragged;
      lhs_k.insert(first ? lhs_k.begin() : lhs_k.end(), dot.lhs_contracting[i]);
      rhs_k.insert(first ? rhs_k.begin() : rhs_k.end(), dot.rhs_contracting[i]);
    }
    m_ = SizeOf(lhs, lhs_free);
    n_ = SizeOf(rhs, rhs_free);
    k_ = SizeOf(lhs, lhs_k) / (contracts_ragged_ ? std::max<int64_t>(ragged_, 1) : 1);

    const auto order = [](std::initializer_list<std::vector<int64_t>> parts) {
      std::vector<int64_t> all;
      for (const std::vector<int64_t>& part : parts)
        all.insert(all.end(), part.begin(), part.end());
      return all;
    };
    const std::vector<int64_t> lhs_batch(dot.lhs_batch.begin(), dot.lhs_batch.end());
    const std::vector<int64_t> rhs_batch(dot.rhs_batch.begin(), dot.rhs_batch.end());
    if (contracts_ragged_) {
      lhs_pack_ = Pack(lhs, order({lhs_batch, lhs_k, lhs_free}));
      rhs_pack_ = Pack(rhs, order({rhs_batch, rhs_k, rhs_free}));
    } else {
      lhs_pack_ = Pack(lhs, order({lhs_batch, {ragged}, lhs_free, lhs_k}));
      rhs_pack_ = Pack(rhs, order({rhs_batch, {group_dim}, rhs_k, rhs_free}));
    }
    lhs_count_ = lhs->element_count();
    rhs_count_ = rhs->element_count();
    result_count_ = instruction.shape()->element_count();

    // Products come as [batch, ragged, other rows, columns], or [group, batch, rows, columns].
    if (!contracts_ragged_) {
      const auto dims = instruction.shape()->dims();
      const std::vector<int64_t> strides = RowMajorStrides(dims);
      std::vector<int64_t> kept;  // lhs free dims in result order, with the ragged one
      for (int64_t i = 0; i < lhs->rank(); ++i) {
        if (!Contains(dot.lhs_batch, i) && !Contains(dot.lhs_contracting, i)) kept.push_back(i);
      }
      const size_t b = lhs_batch.size();
      const size_t at =
          b + static_cast<size_t>(std::find(kept.begin(), kept.end(), ragged) - kept.begin());
      std::vector<size_t> result_order;
      for (size_t i = 0; i < b; ++i) result_order.push_back(i);
      result_order.push_back(at);
      for (size_t i = b; i < dims.size(); ++i) {
        if (i != at) result_order.push_back(i);
      }
      std::vector<StridedDim> box(dims.size());
      int64_t dense = 1;
      for (size_t i = result_order.size(); i-- > 0;) {
        box[i] = {dims[result_order[i]], dense, strides[result_order[i]]};
        dense *= dims[result_order[i]];
      }
      unpack_ = StridedCopy(std::move(box), bytes_);
    }
  }

  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    if (result_count_ == 0) return;
    const std::byte* lhs = Prepare(lhs_convert_, lhs_pack_, lhs_count_, operands[0], scratch);
    const std::byte* rhs = Prepare(rhs_convert_, rhs_pack_, rhs_count_, operands[1], scratch);
    std::byte* products = scratch.Allocate(static_cast<size_t>(result_count_ * bytes_));
    WithAccumulationType(accumulate_, [&](auto tag) {
      using T = decltype(tag);
      std::fill_n(reinterpret_cast<T*>(products), result_count_, T{0});
      for (int64_t b = 0; b < batch_; ++b) {
        int64_t begin = 0;
        for (int64_t g = 0; g < groups_; ++g) {
          const int64_t size = std::max<int64_t>(
              IndexValue(sizes_type_, operands[2], (sizes_per_batch_ ? b * groups_ : 0) + g), 0);
          const int64_t end = std::min(begin + std::min(size, ragged_), ragged_);
          Group<T>(b, g, begin, end, reinterpret_cast<const T*>(lhs),
                   reinterpret_cast<const T*>(rhs), reinterpret_cast<T*>(products));
          begin = end;
        }
      }
    });
    if (!contracts_ragged_) {
      std::byte* ordered = scratch.Allocate(static_cast<size_t>(result_count_ * bytes_));
      unpack_.Run(products, ordered);
      products = ordered;
    }
    result_convert_.Run(result_count_, products, results[0], scratch);
  }
  int64_t Flops() const override { return 2 * batch_ * ragged_ * m_ * n_ * k_; }

 private:
  StridedCopy Pack(const Shape* shape, const std::vector<int64_t>& order) const {
    const std::vector<int64_t> strides = RowMajorStrides(shape->dims());
    std::vector<StridedDim> box(order.size());
    int64_t dense = 1;
    for (size_t i = order.size(); i-- > 0;) {
      box[i] = {shape->dim(order[i]), strides[static_cast<size_t>(order[i])], dense};
      dense *= shape->dim(order[i]);
    }
    return {std::move(box), bytes_};
  }
  const std::byte* Prepare(const ArrayConvert& convert, const StridedCopy& pack, int64_t count,
                           const std::byte* data, Scratch& scratch) const {
    data = convert.InScratch(count, data, scratch);
    std::byte* packed = scratch.Allocate(static_cast<size_t>(count * bytes_));
    pack.Run(data, packed);
    return packed;
  }

  template <typename T>
  void Group(int64_t b, int64_t g, int64_t begin, int64_t end, const T* lhs, const T* rhs,
             T* products) const {
    if (begin == end || m_ == 0 || n_ == 0) return;
    if (contracts_ragged_) {
      const MatrixView<T> left{lhs + (b * ragged_ + begin) * k_ * m_, 1, m_};
      const MatrixView<T> right{rhs + (b * ragged_ + begin) * k_ * n_, n_, 1};
      RowwiseGemm(m_, n_, (end - begin) * k_, left, right, products + (g * batch_ + b) * m_ * n_,
                  n_);
      return;
    }
    const MatrixView<T> left{lhs + (b * ragged_ + begin) * m_ * k_, k_, 1};
    const MatrixView<T> right{rhs + (b * groups_ + g) * k_ * n_, n_, 1};
    if (k_ > 0) {
      RowwiseGemm((end - begin) * m_, n_, k_, left, right,
                  products + (b * ragged_ + begin) * m_ * n_, n_);
    }
  }

  DType accumulate_;
  ArrayConvert lhs_convert_, rhs_convert_, result_convert_;
  int64_t bytes_;
  bool contracts_ragged_ = false, sizes_per_batch_ = false;
  DType sizes_type_ = DType::kS32;
  int64_t groups_ = 0, ragged_ = 0, batch_ = 1;
  int64_t m_ = 1, n_ = 1, k_ = 1;  // without the ragged dim
  int64_t lhs_count_ = 0, rhs_count_ = 0, result_count_ = 0;
  StridedCopy lhs_pack_, rhs_pack_, unpack_;
};

}  // namespace

std::unique_ptr<Kernel> MakeRaggedDotKernel(const Instruction& instruction) {
  return std::make_unique<RaggedDotKernel>(instruction);
}

}  // namespace gshard::cpu
