#include "core/propagation/dot_dims.h"

#include <algorithm>

#include "ir/dims.h"

namespace gshard {
namespace {

DotDims OfDot(const Instruction& dot) {
  const DotAttributes& a = dot.attributes<DotAttributes>();
  DotDims dims;
  int64_t output = 0;
  for (size_t i = 0; i < a.lhs_batch.size(); ++i) {
    dims.batch.push_back({a.lhs_batch[i], a.rhs_batch[i], output++});
  }
  for (size_t i = 0; i < a.lhs_contracting.size(); ++i) {
    dims.contracting.push_back({a.lhs_contracting[i], a.rhs_contracting[i], -1});
  }
  for (int64_t d = 0; d < dot.operand(0)->shape()->rank(); ++d) {
    if (!Contains(a.lhs_batch, d) && !Contains(a.lhs_contracting, d)) {
      dims.lhs_free.push_back({d, -1, output++});
    }
  }
  for (int64_t d = 0; d < dot.operand(1)->shape()->rank(); ++d) {
    if (!Contains(a.rhs_batch, d) && !Contains(a.rhs_contracting, d)) {
      dims.rhs_free.push_back({-1, d, output++});
    }
  }
  return dims;
}

// What a spatial dim is in terms of a dot: by input size n and the window.
std::vector<DotDims::Dim> DotDims::*Classify(const WindowDim& w, int64_t n, int64_t kernel) {
  int64_t s = w.stride, d = w.base_dilation, e = w.window_dilation;
  bool no_padding = w.pad_low == 0 && w.pad_high == 0;
  auto padded_by = [&](int64_t p) { return w.pad_low == p && w.pad_high == p; };
  int64_t step = std::max<int64_t>(1, n - 1);
  if (w.size == n && d == n && no_padding && !w.reversal &&
      ((s == step && e == 1) || (s == 1 && e == step))) {
    return &DotDims::batch;
  }
  if (w.size == n && padded_by(n - 1) && w.reversal && e == 1 && s == n && d == n - 1) {
    return &DotDims::batch;
  }
  if (w.size == n && d == 1 && e == 1 && no_padding && !w.reversal) return &DotDims::contracting;
  if (s == 1 && d == 1 && e == 1 && w.size == 1 && kernel == 1 && no_padding && !w.reversal) {
    return &DotDims::lhs_free;
  }
  if (s == 1 && d == 1 && e == 1 && n == 1 && w.size == kernel && padded_by(w.size - 1) &&
      w.reversal) {
    return &DotDims::rhs_free;
  }
  return &DotDims::spatial;
}

DotDims OfConvolution(const Instruction& x) {
  const ConvolutionAttributes& a = x.attributes<ConvolutionAttributes>();
  DotDims dims;
  dims.lhs_free.push_back({a.input_batch, -1, a.output_batch});
  dims.rhs_free.push_back({-1, a.kernel_output_feature, a.output_feature});
  dims.contracting.push_back({a.input_feature, a.kernel_input_feature, -1});
  for (size_t i = 0; i < a.input_spatial.size(); ++i) {
    auto kind = Classify(a.window[i], x.operand(0)->shape()->dim(a.input_spatial[i]),
                         x.operand(1)->shape()->dim(a.kernel_spatial[i]));
    (dims.*kind).push_back({a.input_spatial[i], a.kernel_spatial[i], a.output_spatial[i]});
  }
  return dims;
}

std::vector<int64_t> Map(int64_t source_rank, int64_t DotDims::Dim::*from,
                         int64_t DotDims::Dim::*to, const std::vector<DotDims::Dim>& a,
                         const std::vector<DotDims::Dim>& b) {
  std::vector<int64_t> map(static_cast<size_t>(source_rank), -1);
  for (const auto* list : {&a, &b}) {
    for (const DotDims::Dim& d : *list) {
      if (d.*from >= 0 && d.*to >= 0) map[static_cast<size_t>(d.*from)] = d.*to;
    }
  }
  return map;
}

}  // namespace

DotDims DotDimsOf(const Instruction& x) {
  DotDims dims = x.opcode() == Opcode::kConvolution ? OfConvolution(x) : OfDot(x);
  using Dim = DotDims::Dim;
  int64_t Dim::*side[2] = {&Dim::lhs, &Dim::rhs};
  for (int k = 0; k < 2; ++k) {
    const std::vector<Dim>& free = k == 0 ? dims.lhs_free : dims.rhs_free;
    dims.operand_to_output[k] =
        Map(x.operand(k)->shape()->rank(), side[k], &Dim::output, dims.batch, free);
    dims.output_to_operand[k] = Map(x.shape()->rank(), &Dim::output, side[k], dims.batch, free);
    dims.other_to_operand[k] =
        Map(x.operand(1 - k)->shape()->rank(), side[1 - k], side[k], dims.batch, dims.contracting);
  }
  return dims;
}

const DotDims& DotDimsCache::Of(const Instruction& x) {
  auto [it, fresh] = cache_.try_emplace(&x);
  if (fresh) it->second = DotDimsOf(x);
  return it->second;
}

}  // namespace gshard
