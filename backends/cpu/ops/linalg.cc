// cholesky and triangular-solve on LAPACK and BLAS, matrix by matrix.
//
// LAPACK is column-major: it sees the transpose of our matrices, and the other triangle. For
// Hermitian A, A^T = L L^H in its eyes is A = (L^T)^H L^T in ours, so no data need move. Types that
// it does not know are computed in f32 and rounded once.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <type_traits>

#include "backends/cpu/elementwise/array_convert.h"
#include "backends/cpu/kernels/lapack.h"
#include "backends/cpu/ops/factories.h"

namespace gshard::cpu {
namespace {

template <typename T>
class CholeskyKernel : public Kernel {
 public:
  CholeskyKernel(const Instruction& instruction, DType type)
      : lower_(instruction.attributes<CholeskyAttributes>().lower),
        n_(instruction.shape()->dims().back()),
        load_(instruction.shape()->dtype(), type),
        store_(type, instruction.shape()->dtype()) {
    const int64_t matrix = n_ * n_;
    batch_ = matrix == 0 ? 0 : instruction.shape()->element_count() / matrix;
  }

  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    RunRange(0, batch_ * n_ * n_, operands, results, scratch);
  }
  int64_t RangeGranule() const override { return n_ * n_; }
  void RunRange(int64_t first, int64_t count, ConstBuffers operands, Buffers results,
                Scratch& scratch) const override {
    if (count == 0) return;
    const std::byte* in = operands[0] + first * load_.from_bytes();
    std::byte* out = results[0];
    if (!store_.IsIdentity()) {
      out = scratch.Allocate(static_cast<size_t>(count * store_.from_bytes()));
    }
    load_.Run(count, in, out, scratch);
    T* matrices = reinterpret_cast<T*>(out);
    for (int64_t done = 0; done < count; done += n_ * n_) Factor(matrices + done);
    if (!store_.IsIdentity()) store_.Run(count, out, results[0], scratch);
  }
  int64_t Flops() const override { return batch_ * n_ * n_ * n_ / 3; }

 private:
  void Factor(T* a) const {
    bool failed = Lapack<T>::Potrf(lower_ ? 'U' : 'L', n_, a) != 0;
    for (int64_t i = 0; i < n_; ++i) {
      failed |= a[i * n_ + i] != a[i * n_ + i];
      for (int64_t k = 0; k < i; ++k) (lower_ ? a[k * n_ + i] : a[i * n_ + k]) = T{0};
    }
    if (failed)
      std::fill_n(a, n_ * n_, T{std::numeric_limits<typename Lapack<T>::Real>::quiet_NaN()});
  }

  bool lower_;
  int64_t n_, batch_;
  ArrayConvert load_, store_;
};

template <typename T>
class TriangularSolveKernel : public Kernel {
 public:
  TriangularSolveKernel(const Instruction& instruction, DType type)
      : attributes_(instruction.attributes<TriangularSolveAttributes>()),
        load_(instruction.shape()->dtype(), type),
        store_(type, instruction.shape()->dtype()) {
    const Shape* b = instruction.shape();
    rows_ = b->dim(b->rank() - 2);
    columns_ = b->dim(b->rank() - 1);
    n_ = attributes_.left_side ? rows_ : columns_;
    const int64_t matrix = rows_ * columns_;
    batch_ = matrix == 0 ? 0 : b->element_count() / matrix;
  }

  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    RunRange(0, batch_ * rows_ * columns_, operands, results, scratch);
  }
  int64_t RangeGranule() const override { return rows_ * columns_; }
  void RunRange(int64_t first, int64_t count, ConstBuffers operands, Buffers results,
                Scratch& scratch) const override {
    if (count == 0) return;
    const int64_t matrix = rows_ * columns_, matrices = count / matrix;
    const std::byte* a_bytes = load_.InScratch(
        matrices * n_ * n_, operands[0] + first / matrix * n_ * n_ * load_.from_bytes(), scratch);
    std::byte* x = results[0];
    if (!store_.IsIdentity()) {
      x = scratch.Allocate(static_cast<size_t>(count * store_.from_bytes()));
    }
    load_.Run(count, operands[1] + first * load_.from_bytes(), x, scratch);
    const T* a = reinterpret_cast<const T*>(a_bytes);
    // Transposed as a whole: sides and triangles change places, the operation stays.
    const TriangularProblem problem{attributes_.left_side ? 'R' : 'L',
                                    attributes_.lower ? 'U' : 'L',
                                    attributes_.transpose_a == TransposeKind::kNoTranspose ? 'N'
                                    : attributes_.transpose_a == TransposeKind::kTranspose ? 'T'
                                                                                           : 'C',
                                    attributes_.unit_diagonal ? 'U' : 'N'};
    T* b = reinterpret_cast<T*>(
        scratch.Allocate(static_cast<size_t>(matrix) * sizeof(T)));  // of one matrix
    for (int64_t i = 0; i < matrices; ++i) {
      T* solved = reinterpret_cast<T*>(x) + i * matrix;
      std::copy_n(solved, matrix, b);
      Lapack<T>::Trsm(problem, columns_, rows_, a + i * n_ * n_, solved);
      if (std::all_of(solved, solved + matrix, IsFinite)) continue;
      std::copy_n(b, matrix, solved);
      Substitute(a + i * n_ * n_, solved);
    }
    if (!store_.IsIdentity()) store_.Run(count, x, results[0], scratch);
  }
  int64_t Flops() const override { return batch_ * rows_ * columns_ * n_; }

 private:
  static bool IsFinite(const T& x) {
    return std::isfinite(std::real(x)) && std::isfinite(std::imag(x));
  }

  // BLAS solves blocks by their inverses, on some processors: an unknown that is not finite would
  // spoil those before it. Here each has only the ones that it follows from.
  void Substitute(const T* a, T* x) const {
    const bool transposed = attributes_.transpose_a != TransposeKind::kNoTranspose;
    // X A = B is A^T X^T = B^T.
    const bool by_columns = transposed == attributes_.left_side;
    const auto entry = [&](int64_t i, int64_t k) {
      const T value = by_columns ? a[k * n_ + i] : a[i * n_ + k];
      if constexpr (!std::is_floating_point_v<T>) {
        if (attributes_.transpose_a == TransposeKind::kAdjoint) return std::conj(value);
      }
      return value;
    };
    const bool forward = attributes_.lower != by_columns;
    const int64_t stride = attributes_.left_side ? columns_ : 1;
    const int64_t systems = rows_ * columns_ / n_;
    for (int64_t system = 0; system < systems; ++system) {
      T* unknowns = x + system * (attributes_.left_side ? 1 : columns_);
      for (int64_t step = 0; step < n_; ++step) {
        const int64_t i = forward ? step : n_ - 1 - step;
        T value = unknowns[i * stride];
        for (int64_t done = 0; done < step; ++done) {
          const int64_t k = forward ? done : n_ - 1 - done;
          value -= entry(i, k) * unknowns[k * stride];
        }
        unknowns[i * stride] = attributes_.unit_diagonal ? value : value / entry(i, i);
      }
    }
  }

  TriangularSolveAttributes attributes_;
  int64_t rows_, columns_, n_, batch_;
  ArrayConvert load_, store_;
};

template <template <typename> class KernelOf>
KernelOrError MakeForType(const Instruction& instruction) {
  switch (instruction.shape()->dtype()) {
    case DType::kF64:
      return std::make_unique<KernelOf<double>>(instruction, DType::kF64);
    case DType::kC64:
      return std::make_unique<KernelOf<std::complex<float>>>(instruction, DType::kC64);
    case DType::kC128:
      return std::make_unique<KernelOf<std::complex<double>>>(instruction, DType::kC128);
    default:
      return std::make_unique<KernelOf<float>>(instruction, DType::kF32);
  }
}

}  // namespace

KernelOrError MakeLinalg(const Instruction& instruction) {
  return instruction.opcode() == Opcode::kCholesky
             ? MakeForType<CholeskyKernel>(instruction)
             : MakeForType<TriangularSolveKernel>(instruction);
}

}  // namespace gshard::cpu
