// Batch norm, cholesky, triangular-solve and fft from their definitions (docs/semantics.md,
// section 11).
#include <cmath>
#include <limits>
#include <numbers>

#include "tests/reference/families.h"

namespace gshard::cpu {
namespace {

using Z = std::complex<double>;

// Indices of the matrices of the last two dims.
template <typename Visit>
void ForEachMatrix(const ReferenceValue& value, Visit visit) {
  const std::span<const int64_t> dims = value.shape->dims();
  ForEachIndex(dims.first(dims.size() - 2), visit);
}
Index Element(Index batch, int64_t row, int64_t column) {
  batch.push_back(row);
  batch.push_back(column);
  return batch;
}

void RoundAll(ReferenceValue& value) {
  for (Number& number : value.data) number = RoundTo(value.shape->dtype(), number);
}

// lower: A = L L^H from the lower triangle; else A = U^H U from the upper.
ReferenceValue Cholesky(const Instruction& x, const ReferenceValue& a) {
  const bool lower = x.attributes<CholeskyAttributes>().lower;
  const int64_t n = x.shape()->dims().back();
  ReferenceValue result = Zeros(x.shape());
  ForEachMatrix(a, [&](const Index& batch) {
    const auto read = [&](int64_t i, int64_t j) {  // of the lower triangle
      const Z value =
          lower ? At(a, Element(batch, i, j)).z : std::conj(At(a, Element(batch, j, i)).z);
      return i == j ? Z(value.real()) : value;
    };
    std::vector<std::vector<Z>> l(static_cast<size_t>(n), std::vector<Z>(static_cast<size_t>(n)));
    bool failed = false;
    for (size_t j = 0; j < l.size(); ++j) {
      for (size_t i = j; i < l.size(); ++i) {
        Z sum = read(static_cast<int64_t>(i), static_cast<int64_t>(j));
        for (size_t k = 0; k < j; ++k) sum -= l[i][k] * std::conj(l[j][k]);
        if (i == j) failed |= !(sum.real() > 0);
        l[i][j] = i == j ? Z(std::sqrt(sum.real())) : sum / l[j][j];
      }
    }
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        const size_t row = static_cast<size_t>(i), column = static_cast<size_t>(j);
        Z value = lower ? l[row][column] : std::conj(l[column][row]);
        if (failed) value = std::numeric_limits<double>::quiet_NaN();
        At(result, Element(batch, i, j)).z = value;
      }
    }
  });
  RoundAll(result);
  return result;
}

ReferenceValue TriangularSolve(const Instruction& x, ReferenceOperands operands) {
  const auto& solve = x.attributes<TriangularSolveAttributes>();
  const ReferenceValue& a = operands[0];
  ReferenceValue result = operands[1];
  const int64_t n = a.shape->dims().back();
  const bool plain = solve.transpose_a == TransposeKind::kNoTranspose;
  // op(A) is lower triangular iff the named triangle and the transposition agree; from the right,
  // X op(A) = B is op(A)^T X^T = B^T.
  const bool forward = (solve.lower == plain) == solve.left_side;
  ForEachMatrix(a, [&](const Index& batch) {
    const auto coefficient = [&](int64_t i, int64_t k) {
      if (!solve.left_side) std::swap(i, k);
      if (i == k && solve.unit_diagonal) return Z(1);
      const Z value = At(a, plain ? Element(batch, i, k) : Element(batch, k, i)).z;
      return solve.transpose_a == TransposeKind::kAdjoint ? std::conj(value) : value;
    };
    const int64_t lines =
        solve.left_side ? result.shape->dims().back() : result.shape->dim(result.shape->rank() - 2);
    for (int64_t line = 0; line < lines; ++line) {
      const auto unknown = [&](int64_t i) -> Z& {
        return At(result, solve.left_side ? Element(batch, i, line) : Element(batch, line, i)).z;
      };
      for (int64_t step = 0; step < n; ++step) {
        const int64_t i = forward ? step : n - 1 - step;
        Z sum = unknown(i);
        for (int64_t k = forward ? 0 : i + 1; k < (forward ? i : n); ++k) {
          sum -= coefficient(i, k) * unknown(k);
        }
        unknown(i) = sum / coefficient(i, i);
      }
    }
  });
  RoundAll(result);
  return result;
}

// One dim of a complex array by the definition.
void Transform(std::vector<Z>& data, std::span<const int64_t> dims, size_t dim, double sign) {
  const std::vector<Z> in = data;
  const int64_t n = dims[dim];
  ForEachIndex(dims, [&](const Index& index) {
    Z sum = 0;
    for (int64_t k = 0; k < n; ++k) {
      Index source = index;
      source[dim] = k;
      const double turn = static_cast<double>(index[dim] * k % n) / static_cast<double>(n);
      sum += in[static_cast<size_t>(Flatten(dims, source))] *
             std::polar(1.0, sign * 2 * std::numbers::pi * turn);
    }
    data[static_cast<size_t>(Flatten(dims, index))] = sum;
  });
}

}  // namespace

ReferenceValue FftReference(const Instruction& x, ReferenceOperands operands) {
  const FftAttributes& fft = x.attributes<FftAttributes>();
  const bool inverse = fft.type == FftType::kIfft || fft.type == FftType::kIrfft;
  ReferenceValue result = Zeros(x.shape());
  const std::span<const int64_t> in = operands[0].shape->dims();
  Index dims(in.begin(), in.end());
  const size_t rank = dims.size(), first = rank - fft.length.size();
  dims[rank - 1] = fft.length.back();  // whole lines, whatever half is stored
  int64_t count = 1, scale = 1;
  for (const int64_t size : dims) count *= size;
  for (const int64_t size : fft.length) scale *= size;
  if (count == 0) return result;
  std::vector<Z> data(static_cast<size_t>(count));
  const auto at = [&](const Index& index) -> Z& {
    return data[static_cast<size_t>(Flatten(dims, index))];
  };
  ForEachIndex(in, [&](const Index& index) { at(index) = At(operands[0], index).z; });
  const double sign = inverse ? 1 : -1;
  // Of a real line bin 0 and, for even n, bin n/2 are real.
  const auto make_real_bins = [&] {
    ForEachIndex(dims, [&](const Index& index) {
      const int64_t bin = index[rank - 1];
      if (bin == 0 || 2 * bin == dims[rank - 1]) at(index) = at(index).real();
    });
  };
  if (fft.type == FftType::kRfft) {
    Transform(data, dims, rank - 1, sign);
    make_real_bins();
  }
  for (size_t d = first; d + 1 < rank; ++d) Transform(data, dims, d, sign);
  if (fft.type == FftType::kIrfft) {
    const int64_t n = dims[rank - 1];
    ForEachIndex(dims, [&](const Index& index) {
      const int64_t bin = index[rank - 1];
      if (2 * bin > n) {
        Index mirrored = index;
        mirrored[rank - 1] = n - bin;
        at(index) = std::conj(at(mirrored));
      }
    });
    make_real_bins();
  }
  if (fft.type != FftType::kRfft) Transform(data, dims, rank - 1, sign);
  ForEachIndex(x.shape()->dims(), [&](const Index& index) {
    At(result, index).z = at(index) / static_cast<double>(inverse ? scale : 1);
  });
  RoundAll(result);
  return result;
}

ReferenceValue LinalgReference(const Instruction& x, ReferenceOperands operands) {
  return x.opcode() == Opcode::kCholesky ? Cholesky(x, operands[0]) : TriangularSolve(x, operands);
}

ReferenceValue BatchNormReference(const Instruction& x, ReferenceOperands operands) {
  const BatchNormAttributes& norm = x.attributes<BatchNormAttributes>();
  const ReferenceValue& input = operands[0];
  const size_t dim = static_cast<size_t>(norm.feature_index);
  const std::span<const int64_t> dims = input.shape->dims();
  const size_t features = static_cast<size_t>(dims[dim]);
  const double count =
      static_cast<double>(input.shape->element_count()) / static_cast<double>(features);
  ReferenceValue result = Zeros(x.shape());
  const auto vector = [&](size_t k) {
    std::vector<double> values;
    for (const Number& number : operands[k].data) values.push_back(number.z.real());
    return values;
  };
  const auto for_each = [&](auto visit) {
    ForEachIndex(dims, [&](const Index& index) { visit(index, static_cast<size_t>(index[dim])); });
  };
  std::vector<double> mean(features, 0), variance(features, 0), sum(features, 0),
      product(features, 0);
  const std::vector<double> scale = vector(1);
  const auto deviation = [&](size_t f) { return std::sqrt(variance[f] + norm.epsilon); };
  if (x.opcode() == Opcode::kBatchNormGrad) {
    mean = vector(2);
    variance = vector(3);
    for_each([&](const Index& index, size_t f) {
      const double dy = At(operands[4], index).z.real();
      sum[f] += dy;
      product[f] += dy * (At(input, index).z.real() - mean[f]) / deviation(f);
    });
    for_each([&](const Index& index, size_t f) {
      const double normal = (At(input, index).z.real() - mean[f]) / deviation(f);
      At(result.elements[0], index).z =
          scale[f] / deviation(f) / count *
          (count * At(operands[4], index).z.real() - sum[f] - normal * product[f]);
    });
    for (size_t f = 0; f < features; ++f) {
      result.elements[1].data[f].z = product[f];
      result.elements[2].data[f].z = sum[f];
    }
  } else {
    const bool training = x.opcode() == Opcode::kBatchNormTraining;
    const std::vector<double> offset = vector(2);
    if (training) {
      for_each([&](const Index& index, size_t f) { mean[f] += At(input, index).z.real() / count; });
      for_each([&](const Index& index, size_t f) {
        const double centred = At(input, index).z.real() - mean[f];
        variance[f] += centred * centred / count;
      });
    } else {
      mean = vector(3);
      variance = vector(4);
    }
    ReferenceValue& y = training ? result.elements[0] : result;
    for_each([&](const Index& index, size_t f) {
      At(y, index).z = (At(input, index).z.real() - mean[f]) / deviation(f) * scale[f] + offset[f];
    });
    for (size_t f = 0; training && f < features; ++f) {
      result.elements[1].data[f].z = mean[f];
      result.elements[2].data[f].z = variance[f];
    }
  }
  RoundAll(result);
  for (ReferenceValue& element : result.elements) RoundAll(element);
  return result;
}

}  // namespace gshard::cpu
