#include "core/pipeline/plan/unlike_weights.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "core/cost/kernel_time.h"

namespace gshard::pipeline {
namespace {

// A weight that a stage uses.
struct WeightUse {
  uint32_t id;  // of the weight
  uint32_t stage;
  const Instruction* weight;
  auto operator<=>(const WeightUse& other) const = default;
};

// Each once, those of a weight side by side.
std::vector<WeightUse> UsesOfWeights(const Module& module, const LayerGraph& layers,
                                     const std::vector<int64_t>& first) {
  std::vector<WeightUse> uses;
  for (const Instruction* x : module.entry()->instructions()) {
    if (!layers.IsPlaced(x) || layers.LayerOf(x) < 0) continue;
    for (Instruction* operand : x->operands()) {
      const Instruction* weight = layers.WeightOf(operand);
      if (weight == nullptr) continue;
      const auto after = std::upper_bound(first.begin(), first.end(), layers.LayerOf(x));
      uses.push_back({weight->id(), static_cast<uint32_t>(after - first.begin()) - 1, weight});
    }
  }
  std::ranges::sort(uses);
  uses.erase(std::unique(uses.begin(), uses.end()), uses.end());
  return uses;
}

double CopySeconds(const Shape* shape, const Chip& chip) {
  KernelWork copy;
  copy.bytes = 2.0 * static_cast<double>(shape->byte_size());
  return KernelSeconds(copy, chip);
}

}  // namespace

std::vector<double> UnlikeWeightSeconds(const Module& module, const LayerGraph& layers,
                                        const std::vector<int64_t>& first,
                                        const PipelineOptions& options) {
  const std::vector<WeightUse> uses = UsesOfWeights(module, layers, first);
  std::vector<std::map<const Shape*, int64_t>> counts(first.size());
  std::map<const Shape*, int64_t> alike;  // as many as more than half of the stages have
  for (size_t begin = 0, end = 0; begin < uses.size(); begin = end) {
    while (end < uses.size() && uses[end].id == uses[begin].id) ++end;
    if (end - begin == first.size()) continue;  // all stages share it
    const Shape* shape = uses[begin].weight->shape()->bare();
    for (size_t i = begin; i < end; ++i) ++counts[uses[i].stage][shape];
    alike.emplace(shape, 0);
  }
  for (auto& [shape, count] : alike) {
    std::vector<int64_t> of_stages;
    for (auto& of : counts) of_stages.push_back(of[shape]);
    std::ranges::sort(of_stages, std::greater<>());
    count = of_stages[of_stages.size() / 2];
  }
  std::vector<double> seconds(first.size(), 0);
  for (size_t v = 0; v < first.size(); ++v) {
    // Out of the weights' pieces in a forward and a backward pass, which the last stage may have as
    // one; out of the sums' and back.
    const bool is_one = v + 1 == first.size() && !KeepsValues(*options.remat);
    const double copies = is_one ? 3 : 4;
    for (auto [shape, count] : counts[v]) {
      seconds[v] += copies * static_cast<double>(std::max<int64_t>(count - alike[shape], 0)) *
                    CopySeconds(shape, options.chip);
    }
  }
  return seconds;
}

}  // namespace gshard::pipeline
