#include "core/pipeline/balance.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "fmt/format.h"

namespace gshard::pipeline {
namespace {

constexpr double kLinkBytesPerSecond = 82e9;  // TPU v3, one way

Expected<std::vector<int64_t>> ExplicitCuts(const std::string& text, int64_t layers,
                                            int64_t stages) {
  std::vector<int64_t> first;
  const char* at = text.data();
  const char* end = at + text.size();
  while (at <= end) {
    int64_t layer = -1;
    auto [next, error] = std::from_chars(at, end, layer);
    bool ascends = first.empty() ? layer == 0 : layer > first.back();
    if (error != std::errc() || !ascends || layer >= layers || (next != end && *next != ',')) break;
    first.push_back(layer);
    if (next == end) {
      if (static_cast<int64_t>(first.size()) == stages) return first;
      break;
    }
    at = next + 1;
  }
  return Fail(MakeError(
      "E-PIPELINE-005",
      fmt::format("--balance '{}' does not name the first layers of {} stages", text, stages),
      fmt::format("cost, layers, gpipe, or {} ascending numbers from 0 below {}", stages, layers)));
}

std::vector<int64_t> ByHeuristic(const std::vector<Layer>& layers, int64_t stages) {
  double total = 0, sum = 0;
  for (const Layer& layer : layers) total += layer.forward_flops + layer.backward_flops;
  std::vector<int64_t> first = {0};
  for (size_t i = 0; i < layers.size(); ++i) {
    sum += layers[i].forward_flops + layers[i].backward_flops;
    int64_t cell = std::min<int64_t>(
        stages - 1,
        total > 0 ? static_cast<int64_t>(sum / total * static_cast<double>(stages)) : 0);
    // A cell that the heuristic leaves empty takes one layer all the same.
    int64_t left = static_cast<int64_t>(layers.size() - i);
    while (static_cast<int64_t>(first.size()) <= cell && i > 0 &&
           static_cast<int64_t>(i) > first.back()) {
      first.push_back(static_cast<int64_t>(i));
    }
    if (i > 0 && stages - static_cast<int64_t>(first.size()) >= left &&
        static_cast<int64_t>(i) > first.back()) {
      first.push_back(static_cast<int64_t>(i));
    }
  }
  return first;
}

std::vector<int64_t> ByCost(const std::vector<Layer>& layers, int64_t stages,
                            const PipelineOptions& options) {
  const size_t n = layers.size(), k = static_cast<size_t>(stages);
  std::vector<double> before(n + 1, 0);
  const double forwards = options.remat == Remat::kNone ? 1 : 2;
  for (size_t i = 0; i < n; ++i) {
    before[i + 1] = before[i] + forwards * layers[i].forward_s + layers[i].backward_s;
  }
  // Both ways: activations and their cotangents.
  auto time = [&](size_t from, size_t to) {
    double sent = to < n ? 2 * static_cast<double>(layers[to - 1].output_bytes) : 0;
    return before[to] - before[from] + sent / kLinkBytesPerSecond;
  };
  struct Best {
    double longest = std::numeric_limits<double>::infinity(), squares = 0;
    size_t from = 0;
    bool operator<(const Best& other) const {
      double slack = 1e-9 * other.longest;
      if (longest < other.longest - slack) return true;
      return longest <= other.longest + slack && squares < other.squares * (1 - 1e-12);
    }
  };
  std::vector<std::vector<Best>> best(k + 1, std::vector<Best>(n + 1));
  best[0][0] = {0, 0, 0};
  for (size_t s = 1; s <= k; ++s) {
    for (size_t to = s; to + (k - s) <= n; ++to) {
      for (size_t from = s - 1; from < to; ++from) {
        if (best[s - 1][from].longest == std::numeric_limits<double>::infinity()) continue;
        double t = time(from, to);
        Best candidate{std::max(best[s - 1][from].longest, t), best[s - 1][from].squares + t * t,
                       from};
        if (best[s][to].longest == std::numeric_limits<double>::infinity() ||
            candidate < best[s][to]) {
          best[s][to] = candidate;
        }
      }
    }
  }
  std::vector<int64_t> first(k);
  size_t to = n;
  for (size_t s = k; s > 0; --s) {
    to = best[s][to].from;
    first[s - 1] = static_cast<int64_t>(to);
  }
  return first;
}

}  // namespace

Expected<std::vector<int64_t>> BalanceStages(const std::vector<Layer>& layers, int64_t stages,
                                             const PipelineOptions& options) {
  const int64_t n = static_cast<int64_t>(layers.size());
  if (n < stages) {
    return Fail(MakeError("E-PIPELINE-005",
                          fmt::format("{} layers are too few for {} stages", n, stages),
                          "--cut REGEX names more boundaries"));
  }
  if (options.balance == "cost") return ByCost(layers, stages, options);
  if (options.balance == "gpipe") return ByHeuristic(layers, stages);
  if (options.balance == "layers") {
    std::vector<int64_t> first;
    for (int64_t s = 0; s < stages; ++s) first.push_back(s * n / stages);
    return first;
  }
  return ExplicitCuts(options.balance, n, stages);
}

}  // namespace gshard::pipeline
