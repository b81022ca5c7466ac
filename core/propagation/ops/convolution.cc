// Convolution: a dot where the windows are trivial; otherwise tiles of the input pass while the
// kernel is small enough for halo exchange.
#include <algorithm>

#include "core/propagation/dot_dims.h"
#include "ir/sharding_algebra.h"

namespace gshard {
namespace {

enum class SpatialKind { kBatch, kContracting, kLhsFree, kRhsFree, kSpatial };

SpatialKind Classify(const WindowDim& w, int64_t n, int64_t kernel) {
  int64_t s = w.stride, d = w.base_dilation, e = w.window_dilation;
  bool no_padding = w.pad_low == 0 && w.pad_high == 0;
  auto padded_by = [&](int64_t p) { return w.pad_low == p && w.pad_high == p; };
  int64_t step = std::max<int64_t>(1, n - 1);
  if (w.size == n && d == n && no_padding && !w.reversal &&
      ((s == step && e == 1) || (s == 1 && e == step))) {
    return SpatialKind::kBatch;
  }
  if (w.size == n && padded_by(n - 1) && w.reversal && e == 1 && s == n && d == n - 1) {
    return SpatialKind::kBatch;
  }
  if (w.size == n && d == 1 && e == 1 && no_padding && !w.reversal) {
    return SpatialKind::kContracting;
  }
  if (s == 1 && d == 1 && e == 1 && w.size == 1 && kernel == 1 && no_padding && !w.reversal) {
    return SpatialKind::kLhsFree;
  }
  if (s == 1 && d == 1 && e == 1 && n == 1 && w.size == kernel && padded_by(w.size - 1) &&
      w.reversal) {
    return SpatialKind::kRhsFree;
  }
  return SpatialKind::kSpatial;
}

struct ConvolutionDims {
  DotDims dot;
  std::vector<DotDims::Dim> spatial;  // true spatial dims
};

ConvolutionDims DimsOf(const Instruction& x) {
  const ConvolutionAttributes& a = x.attributes<ConvolutionAttributes>();
  ConvolutionDims dims;
  dims.dot.lhs_free.push_back({a.input_batch, -1, a.output_batch});
  dims.dot.rhs_free.push_back({-1, a.kernel_output_feature, a.output_feature});
  dims.dot.contracting.push_back({a.input_feature, a.kernel_input_feature, -1});
  for (size_t i = 0; i < a.input_spatial.size(); ++i) {
    DotDims::Dim dim = {a.input_spatial[i], a.kernel_spatial[i], a.output_spatial[i]};
    switch (Classify(a.window[i], x.operand(0)->shape()->dim(dim.lhs),
                     x.operand(1)->shape()->dim(dim.rhs))) {
      case SpatialKind::kBatch:
        dims.dot.batch.push_back(dim);
        break;
      case SpatialKind::kContracting:
        dims.dot.contracting.push_back(dim);
        break;
      case SpatialKind::kLhsFree:
        dims.dot.lhs_free.push_back(dim);
        break;
      case SpatialKind::kRhsFree:
        dims.dot.rhs_free.push_back(dim);
        break;
      case SpatialKind::kSpatial:
        dims.spatial.push_back(dim);
        break;
    }
  }
  return dims;
}

bool KernelIsSmall(const Instruction& x) {
  const ConvolutionAttributes& a = x.attributes<ConvolutionAttributes>();
  int64_t kernel_product = 1, output_product = 1;
  for (size_t i = 0; i < a.kernel_spatial.size(); ++i) {
    int64_t kernel = x.operand(1)->shape()->dim(a.kernel_spatial[i]);
    int64_t output = x.shape()->dim(a.output_spatial[i]);
    kernel_product *= kernel;
    output_product *= output;
    if (kernel >= output && (i < 2 || kernel > 3 || kernel_product >= output_product)) {
      return false;
    }
  }
  return true;
}

bool SplitOnSpatial(const RuleContext& c, const Instruction& x, const ConvolutionDims& dims) {
  const Sharding* lhs = c.of(x.operand(0));
  const Sharding* rhs = c.of(x.operand(1));
  for (const DotDims::Dim& d : dims.spatial) {
    if (lhs != nullptr && lhs->TileCount(d.lhs) > 1) return true;
    if (rhs != nullptr && rhs->TileCount(d.rhs) > 1) return true;
  }
  return false;
}

}  // namespace

void ConvolutionForward(const RuleContext& c, const Instruction& x, Offers& offers) {
  const ConvolutionAttributes& a = x.attributes<ConvolutionAttributes>();
  ConvolutionDims dims = DimsOf(x);
  if (dims.spatial.empty() || (!SplitOnSpatial(c, x, dims) && a.feature_group_count == 1 &&
                               a.batch_group_count == 1)) {
    DotLikeForward(c, x, dims.dot, offers);
    return;
  }
  const Instruction* lhs = x.operand(0);
  const Sharding* s = c.Partitioned(lhs);
  if (s == nullptr) return;
  if (!s->IsTiled()) {
    offers.Add(s, lhs, false);
    return;
  }
  if (!KernelIsSmall(x)) {
    const int64_t batch[] = {a.input_batch};
    offers.Add(KeepOnlyDims(c.context(), s, batch), lhs, false);
    return;
  }
  if (s->TileCount(a.input_feature) > 1) return;
  std::vector<int64_t> to(static_cast<size_t>(lhs->shape()->rank()), -1);
  to[static_cast<size_t>(a.input_batch)] = a.output_batch;
  to[static_cast<size_t>(a.input_feature)] = a.output_feature;
  for (size_t i = 0; i < a.input_spatial.size(); ++i) {
    to[static_cast<size_t>(a.input_spatial[i])] = a.output_spatial[i];
  }
  offers.Add(MapDims(c.context(), s, to, x.shape()->rank()), lhs, false);
}

const Sharding* ConvolutionBackward(const RuleContext& c, const Instruction& user,
                                    const Sharding* s, const Instruction& x) {
  ConvolutionDims dims = DimsOf(user);
  if (!dims.spatial.empty()) return nullptr;
  return DotLikeBackward(c, user, dims.dot, s, x);
}

}  // namespace gshard
