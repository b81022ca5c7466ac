// dot, ragged-dot, scaled-dot and convolution as sums over index tuples (docs/semantics.md,
// sections 5 and 8).
#include <algorithm>

#include "tests/reference/families.h"

namespace gshard::cpu {
namespace {

bool Contains(Dims dims, size_t d) {
  return std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end();
}

Dims SizesAt(const ReferenceValue& value, Dims dims, Index& sizes) {
  for (const int64_t d : dims) sizes.push_back(value.shape->dim(d));
  return sizes;
}

// Walks over the result of a dot: batch dims, free dims of the lhs, free dims of the rhs but
// `skipped`. Calls term(lhs index, rhs index, contracted position in the ragged dim).
class DotWalk {
 public:
  DotWalk(const Instruction& x, ReferenceOperands operands)
      : dot_(x.attributes<DotAttributes>()), lhs_(operands[0]), rhs_(operands[1]) {
    SizesAt(lhs_, dot_.lhs_contracting, contracted_);
  }

  // `index`: of the result without a leading group dim.
  void Place(std::span<const int64_t> index, Index& left, Index& right) const {
    left.assign(static_cast<size_t>(lhs_.shape->rank()), 0);
    right.assign(static_cast<size_t>(rhs_.shape->rank()), 0);
    size_t at = 0;
    for (size_t k = 0; k < dot_.lhs_batch.size(); ++k, ++at) {
      left[static_cast<size_t>(dot_.lhs_batch[k])] = index[at];
      right[static_cast<size_t>(dot_.rhs_batch[k])] = index[at];
    }
    for (size_t d = 0; d < left.size(); ++d) {
      if (!Contains(dot_.lhs_batch, d) && !Contains(dot_.lhs_contracting, d)) left[d] = index[at++];
    }
    for (size_t d = 0; d < right.size(); ++d) {
      if (!Contains(dot_.rhs_batch, d) && !Contains(dot_.rhs_contracting, d) &&
          !Contains(dot_.rhs_group, d)) {
        right[d] = index[at++];
      }
    }
  }
  template <typename Term>
  void ForEachTerm(Index left, Index right, Term term) const {
    ForEachIndex(contracted_, [&](const Index& position) {
      for (size_t k = 0; k < position.size(); ++k) {
        left[static_cast<size_t>(dot_.lhs_contracting[k])] = position[k];
        right[static_cast<size_t>(dot_.rhs_contracting[k])] = position[k];
      }
      term(left, right);
    });
  }

 private:
  const DotAttributes& dot_;
  const ReferenceValue &lhs_, &rhs_;
  Index contracted_;
};

// The factor of an element: scale dims divide the operand's, each factor serves a block.
double ScaleAt(const ReferenceValue& scale, const ReferenceValue& x, const Index& index) {
  if (scale.shape->IsScalar()) return scale.data[0].z.real();
  Index at = index;
  for (size_t d = 0; d < at.size(); ++d) {
    at[d] /= x.shape->dims()[d] / scale.shape->dims()[d];
  }
  return At(scale, at).z.real();
}

ReferenceValue RaggedDot(const Instruction& x, ReferenceOperands operands) {
  const DotAttributes& dot = x.attributes<DotAttributes>();
  const DType lhs_type = operands[0].shape->dtype(), rhs_type = operands[1].shape->dtype();
  const size_t ragged = static_cast<size_t>(dot.lhs_ragged[0]);
  const bool contracting = Contains(dot.lhs_contracting, ragged);
  const bool batch = Contains(dot.lhs_batch, ragged);
  const DotWalk walk(x, operands);
  ReferenceValue result = Zeros(x.shape());
  const int64_t groups = operands[2].shape->dims().back();
  Index left, right;
  ForEachIndex(x.shape()->dims(), [&](const Index& index) {
    Number sum;
    walk.Place(std::span(index).subspan(contracting ? 1 : 0), left, right);
    walk.ForEachTerm(left, right, [&](const Index& a, Index b) {
      if (!batch) {
        int64_t group = 0, end = operands[2].data[0].i;
        while (group < groups && a[ragged] >= end) {
          ++group;
          if (group < groups) end += operands[2].data[static_cast<size_t>(group)].i;
        }
        if (group == groups || (contracting && group != index[0])) return;
        if (!contracting) b[static_cast<size_t>(dot.rhs_group[0])] = group;
      }
      AddProduct(x.shape()->dtype(), lhs_type, rhs_type, At(operands[0], a), At(operands[1], b),
                 sum);
    });
    At(result, index) = RoundTo(x.shape()->dtype(), sum);
  });
  return result;
}

}  // namespace

void AddProduct(DType result, DType lhs, DType rhs, const Number& a, const Number& b, Number& sum) {
  if (result == DType::kPred) {
    sum.i |= a.i & b.i;
    return;
  }
  const bool whole = !IsFloat(lhs) && !IsComplex(lhs) && !IsFloat(rhs) && !IsComplex(rhs);
  if (!IsFloat(result) && !IsComplex(result)) {
    sum.i = static_cast<int64_t>(static_cast<uint64_t>(sum.i) +
                                 static_cast<uint64_t>(a.i) * static_cast<uint64_t>(b.i));
    return;
  }
  if (whole) {
    sum.z += static_cast<double>(a.i) * static_cast<double>(b.i);
    return;
  }
  const auto real = [](DType type, const Number& number) {
    return IsFloat(type) || IsComplex(type) ? number.z : static_cast<double>(number.i);
  };
  const std::complex<double> p = real(lhs, a), q = real(rhs, b);
  sum.z += IsComplex(lhs) || IsComplex(rhs) ? p * q : p.real() * q.real();
}

ReferenceValue DotReference(const Instruction& x, ReferenceOperands operands) {
  if (x.opcode() == Opcode::kRaggedDot) return RaggedDot(x, operands);
  const DotWalk walk(x, operands);
  ReferenceValue result = Zeros(x.shape());
  Index left, right;
  ForEachIndex(x.shape()->dims(), [&](const Index& index) {
    Number sum;
    walk.Place(index, left, right);
    walk.ForEachTerm(left, right, [&](const Index& a, const Index& b) {
      Number p = At(operands[0], a), q = At(operands[1], b);
      if (x.opcode() == Opcode::kScaledDot) {
        p.z *= ScaleAt(operands[2], operands[0], a);
        q.z *= ScaleAt(operands[3], operands[1], b);
      }
      AddProduct(x.shape()->dtype(), operands[0].shape->dtype(), operands[1].shape->dtype(), p, q,
                 sum);
    });
    At(result, index) = RoundTo(x.shape()->dtype(), sum);
  });
  return result;
}

ReferenceValue ConvolutionReference(const Instruction& x, ReferenceOperands operands) {
  const ConvolutionAttributes& conv = x.attributes<ConvolutionAttributes>();
  const ReferenceValue &lhs = operands[0], &rhs = operands[1];
  const auto at = [](int64_t d) { return static_cast<size_t>(d); };
  const int64_t outputs = rhs.shape->dim(conv.kernel_output_feature);
  const int64_t inputs = rhs.shape->dim(conv.kernel_input_feature);
  const int64_t batch = lhs.shape->dim(conv.input_batch) / conv.batch_group_count;
  Index window;
  for (const int64_t d : conv.kernel_spatial) window.push_back(rhs.shape->dim(d));
  window.push_back(inputs);
  ReferenceValue result = Zeros(x.shape());
  ForEachIndex(x.shape()->dims(), [&](const Index& out) {
    const int64_t o = out[at(conv.output_feature)];
    Index left(out.size(), 0), right(out.size(), 0);
    left[at(conv.input_batch)] =
        o / (outputs / conv.batch_group_count) * batch + out[at(conv.output_batch)];
    right[at(conv.kernel_output_feature)] = o;
    Number sum;
    ForEachIndex(window, [&](const Index& k) {
      const int64_t c = k.back();
      left[at(conv.input_feature)] = o / (outputs / conv.feature_group_count) * inputs + c;
      right[at(conv.kernel_input_feature)] = c;
      for (size_t s = 0; s < conv.window.size(); ++s) {
        const WindowDim& w = conv.window[s];
        const int64_t p =
            out[at(conv.output_spatial[s])] * w.stride + k[s] * w.window_dilation - w.pad_low;
        if (p < 0 || p % w.base_dilation != 0) return;
        left[at(conv.input_spatial[s])] = p / w.base_dilation;
        right[at(conv.kernel_spatial[s])] = w.reversal ? w.size - 1 - k[s] : k[s];
      }
      if (!IsInside(lhs.shape->dims(), left)) return;
      AddProduct(x.shape()->dtype(), lhs.shape->dtype(), rhs.shape->dtype(), At(lhs, left),
                 At(rhs, right), sum);
    });
    At(result, out) = RoundTo(x.shape()->dtype(), sum);
  });
  return result;
}

}  // namespace gshard::cpu
