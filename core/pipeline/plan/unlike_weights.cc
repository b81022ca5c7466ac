#include "core/pipeline/plan/unlike_weights.h"

#include <algorithm>
#include <functional>
#include <map>
#include <unordered_set>

#include "core/cost/kernel_time.h"

namespace gshard::pipeline {
namespace {

using WeightSet = std::unordered_set<const Instruction*>;

std::vector<WeightSet> WeightsByStage(const Module& module, const LayerGraph& layers,
                                      const std::vector<int64_t>& first) {
  std::vector<WeightSet> weights(first.size());
  for (const Instruction* x : module.entry()->instructions()) {
    if (!layers.IsPlaced(x) || layers.LayerOf(x) < 0) continue;
    const auto after = std::upper_bound(first.begin(), first.end(), layers.LayerOf(x));
    for (Instruction* operand : x->operands()) {
      const Instruction* weight = layers.WeightOf(operand);
      if (weight != nullptr) weights[static_cast<size_t>(after - first.begin()) - 1].insert(weight);
    }
  }
  return weights;
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
  const std::vector<WeightSet> weights = WeightsByStage(module, layers, first);
  auto is_shared = [&](const Instruction* x) {
    return std::ranges::all_of(weights, [&](const WeightSet& of) { return of.contains(x); });
  };
  std::vector<std::map<const Shape*, int64_t>> counts(first.size());
  std::map<const Shape*, int64_t> alike;  // as many as more than half of the stages have
  for (size_t v = 0; v < first.size(); ++v) {
    for (const Instruction* x : weights[v]) {
      if (is_shared(x)) continue;
      ++counts[v][x->shape()->bare()];
      alike.emplace(x->shape()->bare(), 0);
    }
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
