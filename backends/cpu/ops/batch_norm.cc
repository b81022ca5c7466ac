// batch-norm-training, -inference and -grad (Ioffe and Szegedy, "Batch normalization", 2015;
// formulas in docs/semantics.md, "FFT, linear algebra, batch norm").
//
// Operands are seen as [outer, features, inner]. Statistics are summed in f64, in order; everything
// else is computed in f32 (f64 where an operand is f64) and rounded once to the result's type.
#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/cpu/elementwise/array_convert.h"
#include "backends/cpu/ops/factories.h"

namespace gshard::cpu {
namespace {

template <typename T>
class BatchNormKernel : public Kernel {
 public:
  explicit BatchNormKernel(const Instruction& instruction)
      : opcode_(instruction.opcode()),
        epsilon_(instruction.attributes<BatchNormAttributes>().epsilon) {
    const Shape* x = instruction.operand(0)->shape();
    const int64_t feature = instruction.attributes<BatchNormAttributes>().feature_index;
    for (int64_t i = 0; i < x->rank(); ++i) {
      (i < feature ? outer_ : i == feature ? features_ : inner_) *= x->dim(i);
    }
    constexpr DType kType = std::is_same_v<T, double> ? DType::kF64 : DType::kF32;
    for (const Instruction* operand : instruction.operands()) {
      loads_.emplace_back(operand->shape()->dtype(), kType);
      counts_.push_back(operand->shape()->element_count());
    }
    const Shape* result = instruction.shape();
    const std::span<const Shape* const> leaves =
        result->IsTuple() ? result->elements() : std::span<const Shape* const>(&result, 1);
    for (const Shape* leaf : leaves) stores_.emplace_back(kType, leaf->dtype());
  }

  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    const T* in[5];
    for (size_t k = 0; k < loads_.size(); ++k) {
      in[k] = reinterpret_cast<const T*>(loads_[k].InScratch(counts_[k], operands[k], scratch));
    }
    // What has the shape of x is computed in place where no conversion is needed.
    T* full = stores_[0].IsIdentity() ? reinterpret_cast<T*>(results[0])
                                      : Allocate<T>(counts_[0], scratch);
    T* vectors[2] = {};
    for (size_t k = 1; k < stores_.size(); ++k) {
      vectors[k - 1] = stores_[k].IsIdentity() ? reinterpret_cast<T*>(results[k])
                                               : Allocate<T>(features_, scratch);
    }
    switch (opcode_) {
      case Opcode::kBatchNormTraining:
        Statistics(in[0], vectors[0], vectors[1], scratch);
        Normalize(in[0], in[1], in[2], vectors[0], vectors[1], full, scratch);
        break;
      case Opcode::kBatchNormInference:
        Normalize(in[0], in[1], in[2], in[3], in[4], full, scratch);
        break;
      case Opcode::kBatchNormGrad:
        Gradient(in, full, vectors[0], vectors[1], scratch);
        break;
      default:
        throw InternalError("not a batch norm");
    }
    Store(0, counts_[0], full, results[0], scratch);
    for (size_t k = 1; k < stores_.size(); ++k) {
      Store(k, features_, vectors[k - 1], results[k], scratch);
    }
  }
  int64_t Flops() const override { return 8 * counts_[0]; }

 private:
  template <typename U>
  static U* Allocate(int64_t count, Scratch& scratch) {
    return reinterpret_cast<U*>(scratch.Allocate(static_cast<size_t>(count) * sizeof(U)));
  }
  void Store(size_t k, int64_t count, const T* from, std::byte* to, Scratch& scratch) const {
    if (stores_[k].IsIdentity()) return;
    stores_[k].Run(count, reinterpret_cast<const std::byte*>(from), to, scratch);
  }

  // visit(flat index, feature) for all elements, in order.
  template <typename Visit>
  void ForEach(Visit visit) const {
    int64_t i = 0;
    for (int64_t o = 0; o < outer_; ++o) {
      if (inner_ == 1) {
        for (int64_t f = 0; f < features_; ++f) visit(i++, f);
        continue;
      }
      for (int64_t f = 0; f < features_; ++f) {
        for (int64_t k = 0; k < inner_; ++k) visit(i++, f);
      }
    }
  }
  double PerFeature() const { return static_cast<double>(outer_ * inner_); }

  void Statistics(const T* x, T* mean, T* variance, Scratch& scratch) const {
    double* sums = Allocate<double>(features_, scratch);
    double* squares = Allocate<double>(features_, scratch);
    std::fill_n(sums, features_, 0.0);
    std::fill_n(squares, features_, 0.0);
    ForEach([&](int64_t i, int64_t f) { sums[f] += static_cast<double>(x[i]); });
    for (int64_t f = 0; f < features_; ++f) sums[f] /= PerFeature();
    ForEach([&](int64_t i, int64_t f) {
      const double centred = static_cast<double>(x[i]) - sums[f];
      squares[f] += centred * centred;
    });
    for (int64_t f = 0; f < features_; ++f) {
      mean[f] = static_cast<T>(sums[f]);
      variance[f] = static_cast<T>(squares[f] / PerFeature());
    }
  }

  T InverseDeviation(T variance) const {
    return static_cast<T>(1 / std::sqrt(static_cast<double>(variance) + epsilon_));
  }

  void Normalize(const T* x, const T* scale, const T* offset, const T* mean, const T* variance,
                 T* y, Scratch& scratch) const {
    T* factor = Allocate<T>(features_, scratch);
    for (int64_t f = 0; f < features_; ++f) factor[f] = scale[f] * InverseDeviation(variance[f]);
    ForEach([&](int64_t i, int64_t f) { y[i] = (x[i] - mean[f]) * factor[f] + offset[f]; });
  }

  // `in`: x, scale, mean, variance and the gradient of the result, as the operation's operands.
  template <typename Operands>
  void Gradient(const Operands& in, T* dx, T* dscale, T* doffset, Scratch& scratch) const {
    const T *x = in[0], *scale = in[1], *mean = in[2], *variance = in[3], *dy = in[4];
    double* sums = Allocate<double>(features_, scratch);
    double* products = Allocate<double>(features_, scratch);
    T* inverse = Allocate<T>(features_, scratch);
    std::fill_n(sums, features_, 0.0);
    std::fill_n(products, features_, 0.0);
    for (int64_t f = 0; f < features_; ++f) inverse[f] = InverseDeviation(variance[f]);
    ForEach([&](int64_t i, int64_t f) {
      sums[f] += static_cast<double>(dy[i]);
      products[f] +=
          static_cast<double>(dy[i]) * static_cast<double>((x[i] - mean[f]) * inverse[f]);
    });
    T* sum_share = Allocate<T>(features_, scratch);
    T* product_share = Allocate<T>(features_, scratch);
    for (int64_t f = 0; f < features_; ++f) {
      doffset[f] = static_cast<T>(sums[f]);
      dscale[f] = static_cast<T>(products[f]);
      sum_share[f] = static_cast<T>(sums[f] / PerFeature());
      product_share[f] = static_cast<T>(products[f] / PerFeature());
    }
    ForEach([&](int64_t i, int64_t f) {
      const T normal = (x[i] - mean[f]) * inverse[f];
      dx[i] = scale[f] * inverse[f] * (dy[i] - sum_share[f] - normal * product_share[f]);
    });
  }

  Opcode opcode_;
  double epsilon_;
  int64_t outer_ = 1, features_ = 1, inner_ = 1;
  std::vector<ArrayConvert> loads_, stores_;
  std::vector<int64_t> counts_;
};

}  // namespace

KernelOrError MakeBatchNorm(const Instruction& instruction) {
  for (const Instruction* operand : instruction.operands()) {
    if (operand->shape()->dtype() == DType::kF64) {
      return std::make_unique<BatchNormKernel<double>>(instruction);
    }
  }
  return std::make_unique<BatchNormKernel<float>>(instruction);
}

}  // namespace gshard::cpu
