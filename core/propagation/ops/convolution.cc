// Convolution: a dot where the windows are trivial; otherwise tiles of the input pass while the
// kernel is small enough for halo exchange.
#include "core/propagation/dot_dims.h"
#include "core/propagation/rules.h"

namespace gshard {
namespace {

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

bool SplitOnSpatial(const PropagationContext& c, const Instruction& x, const DotDims& dims) {
  const Sharding* lhs = c.of(x.operand(0));
  const Sharding* rhs = c.of(x.operand(1));
  for (const DotDims::Dim& d : dims.spatial) {
    if (lhs != nullptr && lhs->TileCount(d.lhs) > 1) return true;
    if (rhs != nullptr && rhs->TileCount(d.rhs) > 1) return true;
  }
  return false;
}

}  // namespace

void ConvolutionForward(const PropagationContext& c, const Instruction& x, Offers& offers) {
  const ConvolutionAttributes& a = x.attributes<ConvolutionAttributes>();
  const DotDims& dims = c.dot_dims().Of(x);
  if (dims.spatial.empty() ||
      (!SplitOnSpatial(c, x, dims) && a.feature_group_count == 1 && a.batch_group_count == 1)) {
    DotLikeForward(c, x, offers);
    return;
  }
  const Instruction* lhs = x.operand(0);
  const Sharding* s = c.NotMaximal(lhs);
  if (s == nullptr) return;
  if (!s->IsTiled()) {
    offers.Add(s, lhs, false);
    return;
  }
  if (!KernelIsSmall(x)) {
    const int64_t batch[] = {a.input_batch};
    offers.Add(c.derive().KeepOnlyDims(s, batch), lhs, false);
    return;
  }
  if (s->TileCount(a.input_feature) > 1) return;
  std::vector<int64_t> to(static_cast<size_t>(lhs->shape()->rank()), -1);
  to[static_cast<size_t>(a.input_batch)] = a.output_batch;
  to[static_cast<size_t>(a.input_feature)] = a.output_feature;
  for (size_t i = 0; i < a.input_spatial.size(); ++i) {
    to[static_cast<size_t>(a.input_spatial[i])] = a.output_spatial[i];
  }
  offers.Add(c.derive().MapDims(s, to, x.shape()->rank()), lhs, false);
}

const Sharding* ConvolutionBackward(const PropagationContext& c, const Instruction& user,
                                    const Sharding* s, const Instruction& x) {
  if (!c.dot_dims().Of(user).spatial.empty()) return nullptr;
  return DotLikeBackward(c, user, s, x);
}

}  // namespace gshard
