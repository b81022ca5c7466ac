// The dynamic programme against all partitions; the heuristic against its formula.
#include "core/pipeline/plan/balance.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <random>

namespace gshard::pipeline {
namespace {

std::vector<Layer> LayersOf(const std::vector<double>& seconds) {
  std::vector<Layer> layers;
  for (double s : seconds) {
    Layer& layer = layers.emplace_back();
    layer.backward_s = s;
    layer.has_backward = true;
    layer.backward_flops = s;
  }
  return layers;
}

double Longest(const std::vector<double>& seconds, const std::vector<int64_t>& first) {
  double longest = 0;
  for (size_t k = 0; k < first.size(); ++k) {
    size_t end = k + 1 < first.size() ? static_cast<size_t>(first[k + 1]) : seconds.size();
    double sum = 0;
    for (size_t i = static_cast<size_t>(first[k]); i < end; ++i) sum += seconds[i];
    longest = std::max(longest, sum);
  }
  return longest;
}

double BestOfAll(const std::vector<double>& seconds, size_t stages) {
  double best = 1e300;
  std::vector<int64_t> first = {0};
  std::function<void()> extend = [&] {
    if (first.size() == stages) {
      best = std::min(best, Longest(seconds, first));
      return;
    }
    for (int64_t i = first.back() + 1; i < static_cast<int64_t>(seconds.size()); ++i) {
      first.push_back(i);
      extend();
      first.pop_back();
    }
  };
  extend();
  return best;
}

}  // namespace

TEST_CASE("Stages by cost: no partition has a shorter longest stage") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    size_t layers = 2 + random() % 9, stages = 1 + random() % std::min<size_t>(layers, 5);
    std::vector<double> seconds;
    for (size_t i = 0; i < layers; ++i) seconds.push_back(static_cast<double>(1 + random() % 20));
    auto first = BalanceStages(LayersOf(seconds), static_cast<int64_t>(stages), {});
    REQUIRE(first);
    REQUIRE(first->size() == stages);
    CHECK(std::is_sorted(first->begin(), first->end()));
    CHECK(Longest(seconds, *first) <= BestOfAll(seconds, stages) * (1 + 1e-9));
  }
}

TEST_CASE("Equally many blocks, of which the first has what comes before it") {
  std::vector<Layer> layers(7);
  for (Layer& layer : layers) layer.weight_bytes = 100;
  layers[0].weight_bytes = 1000;  // an embedding
  layers[1].weight_bytes = 140;
  layers[5].weight_bytes = layers[6].weight_bytes = 0;  // a loss
  CHECK(AlikeStretches(layers, 2) == std::vector<int64_t>{0, 3});
  CHECK(AlikeStretches(layers, 4) == std::vector<int64_t>{0, 2, 3, 4});
  CHECK(AlikeStretches(layers, 3).empty());
  layers[3].weight_bytes = 30;
  CHECK(AlikeStretches(layers, 2).empty());
}

TEST_CASE("A stage's forward pass takes what it takes without values for the backward pass") {
  // Layer 0 alone is as long as layers 1 to 4, if what they keep counts in the backward pass only.
  std::vector<Layer> layers(5);
  for (Layer& layer : layers) layer.has_backward = true;
  layers[0].forward_s = layers[0].forward_only_s = 8;
  for (size_t i = 1; i < layers.size(); ++i) {
    layers[i].forward_s = 3;
    layers[i].forward_only_s = 1;
  }
  PipelineOptions options;
  options.schedule = ScheduleKind::kGPipe;
  options.stages = 2;
  options.remat = Remat::kStage;
  Expected<StagePartition> partition = PartitionByCost(layers, 2, options);
  REQUIRE(partition);
  CHECK(partition->first == std::vector<int64_t>{0, 1});
  CHECK(partition->seconds == std::vector<double>{16, 16});
  // The last repetition has what the backward pass reads, those before only what the next layer
  // reads; of a stage's last layer there is one repetition less.
  options.remat = Remat::kAll;
  partition = PartitionByCost(layers, 2, options);
  REQUIRE(partition);
  CHECK(partition->first == std::vector<int64_t>{0, 1});
  CHECK(partition->seconds == std::vector<double>{16, 4 + 12 + 3});
  // Where values are kept the forward pass has them all.
  options.remat = Remat::kNone;
  partition = PartitionByCost(layers, 2, options);
  REQUIRE(partition);
  CHECK(partition->first == std::vector<int64_t>{0, 2});
  CHECK(partition->seconds == std::vector<double>{11, 9});
}

TEST_CASE(
    "Frozen layers are not computed again, but before layers that are trained in their stage") {
  std::vector<Layer> layers(6);
  for (Layer& layer : layers) layer.forward_s = layer.forward_only_s = 1;
  layers[4].has_backward = layers[5].has_backward = true;
  PipelineOptions options;
  options.schedule = ScheduleKind::kGPipe;
  options.stages = 2;
  options.remat = Remat::kStage;
  const Expected<StagePartition> partition = PartitionByCost(layers, 2, options);
  REQUIRE(partition);
  CHECK(partition->first == std::vector<int64_t>{0, 4});
  CHECK(partition->seconds == std::vector<double>{4, 4});
}

TEST_CASE("With a memory limit the best of the partitions that fit, or none") {
  std::mt19937 random(13);
  int fitting = 0, failing = 0;
  for (int round = 0; round < 200; ++round) {
    const size_t n = 3 + random() % 6;
    PipelineOptions options;
    options.stages = 3;
    options.microbatches = 4;
    options.memory_limit_bytes = 60 + static_cast<int64_t>(random() % 200);
    std::vector<double> seconds;
    for (size_t i = 0; i < n; ++i) seconds.push_back(static_cast<double>(1 + random() % 20));
    std::vector<Layer> layers = LayersOf(seconds);
    for (Layer& layer : layers) {
      layer.weight_bytes = static_cast<int64_t>(random() % 30);
      layer.state_bytes = 2 * layer.weight_bytes;
      layer.saved_bytes = static_cast<int64_t>(random() % 50);
    }
    // 1F1B: 3, 2 micro-batches in flight; the last stage's forward pass is in its backward pass.
    double best = 1e300;
    for (size_t a = 1; a < n; ++a) {
      for (size_t b = a + 1; b < n; ++b) {
        const bool fits = StageBytes(layers, 0, a, 3, options) <= options.memory_limit_bytes &&
                          StageBytes(layers, a, b, 2, options) <= options.memory_limit_bytes &&
                          StageBytes(layers, b, n, 1, options) <= options.memory_limit_bytes;
        if (!fits) continue;
        best =
            std::min(best, Longest(seconds, {0, static_cast<int64_t>(a), static_cast<int64_t>(b)}));
      }
    }
    auto first = BalanceStages(layers, 3, options);
    REQUIRE(first.has_value() == (best < 1e300));
    ++(first ? fitting : failing);
    if (!first) CHECK(first.error().code == "E-PIPELINE-007");
    if (first) CHECK(Longest(seconds, *first) <= best * (1 + 1e-9));
  }
  CHECK(fitting > 20);
  CHECK(failing > 20);
}

TEST_CASE("Of equal partitions the even one") {
  auto first = BalanceStages(LayersOf({1, 1, 1, 1, 1, 1, 1, 1}), 4, {});
  REQUIRE(first);
  CHECK(*first == std::vector<int64_t>{0, 2, 4, 6});
}

TEST_CASE("GPipe's heuristic: stage floor(K * share of the FLOPs up to the layer)") {
  PipelineOptions options;
  options.balance = "gpipe";
  // Shares .1 .2 .3 .4 | .6 .8 1: layers 0..3 are below 1/2.
  auto first = BalanceStages(LayersOf({1, 1, 1, 1, 2, 2, 2}), 2, options);
  REQUIRE(first);
  CHECK(*first == std::vector<int64_t>{0, 4});
  // One heavy layer: the stages after it still get one each.
  first = BalanceStages(LayersOf({1, 1, 100, 1, 1}), 4, options);
  REQUIRE(first);
  CHECK(first->size() == 4);
}

TEST_CASE("Stages as they are named") {
  PipelineOptions options;
  options.balance = "0,5,6";
  auto layers = LayersOf(std::vector<double>(8, 1));
  auto first = BalanceStages(layers, 3, options);
  REQUIRE(first);
  CHECK(*first == std::vector<int64_t>{0, 5, 6});
  for (const char* wrong : {"1,5,6", "0,5", "0,6,5", "0,5,8", "0,,5", "0,5,x", "", "0,5,6,"}) {
    options.balance = wrong;
    auto failed = BalanceStages(layers, 3, options);
    REQUIRE_FALSE(failed);
    CHECK(failed.error().code == "E-PIPELINE-005");
  }
  CHECK_FALSE(BalanceStages(layers, 9, {}));
}

TEST_CASE("Stages by cost: a boundary counts what crosses it backward, too") {
  std::vector<Layer> layers = LayersOf({1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3});
  auto first = BalanceStages(layers, 2, {});
  REQUIRE(first);
  CHECK(*first == std::vector<int64_t>{0, 3});
  layers[2].cotangent_bytes = int64_t{1} << 30;
  first = BalanceStages(layers, 2, {});
  REQUIRE(first);
  CHECK(first->at(1) != 3);
}

}  // namespace gshard::pipeline
