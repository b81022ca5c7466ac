// A pipeline of one stage is the loop over micro-batches.
#include "core/pipeline/microbatched_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

#include "core/spmd/per_device_module.h"

namespace gshard::pipeline {
namespace {

constexpr int64_t kMaxShards = int64_t{1} << 20;  // of a batch, together

// Up to `separator`, which goes as well.
std::string_view TakeUntil(std::string_view& text, char separator) {
  const std::string_view part = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(part.size() + 1, text.size()));
  return part;
}

bool ReadNumber(std::string_view text, int64_t least, int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= least;
}

void DropShardings(Module& module) {
  for (Computation* computation : module.computations()) {
    for (Instruction* x : computation->instructions()) x->set_sharding(nullptr);
  }
}

// The shards of the batch say which rows make a micro-batch; all else lies whole.
void CutBatch(Module& step, const BatchSplit& split) {
  DropShardings(step);
  std::vector<std::pair<Instruction*, const BatchSplit::Examples*>> cut;
  int64_t devices = 1;
  for (const BatchSplit::Examples& of : split.examples) {
    if (of.parameter >= static_cast<int64_t>(step.entry()->parameters().size())) continue;
    Instruction* x = step.entry()->parameter(of.parameter);
    const bool has_dim = x->shape()->IsArray() && of.dimension < x->shape()->rank();
    if (of.shards == 1 || !has_dim || of.shards > x->shape()->dim(of.dimension)) continue;
    if (std::lcm(devices, of.shards) > kMaxShards) continue;
    cut.emplace_back(x, &of);
    devices = std::lcm(devices, of.shards);
  }
  for (auto [x, of] : cut) {
    std::vector<int64_t> dims(static_cast<size_t>(x->shape()->rank()), 1);
    dims[static_cast<size_t>(of->dimension)] = of->shards;
    std::vector<SubgroupType> rest;
    if (of->shards < devices) {
      dims.push_back(devices / of->shards);
      rest.push_back(SubgroupType::kReplicated);
    }
    x->set_sharding(step.context().Tiled(TileAssignment::Iota(dims), rest));
  }
  step.header().num_partitions = devices;
}

}  // namespace

BatchSplit ReadBatchSplit(std::string_view attribute) {
  BatchSplit split;
  while (!attribute.empty()) {
    std::string_view value = TakeUntil(attribute, ' ');
    const std::string_view key = TakeUntil(value, '=');
    if (key == "microbatches" && !ReadNumber(value, 1, split.microbatches)) split.microbatches = 1;
    if (key == "microbatch_sums" && !ReadNumber(value, 0, split.microbatch_sums)) {
      split.microbatch_sums = -1;
    }
    if (key != "batch") continue;
    while (!value.empty()) {
      std::string_view words = TakeUntil(value, ',');
      BatchSplit::Examples of;
      if (ReadNumber(TakeUntil(words, ':'), 0, of.parameter) &&
          ReadNumber(TakeUntil(words, ':'), 0, of.dimension) && ReadNumber(words, 1, of.shards)) {
        split.examples.push_back(of);
      }
    }
  }
  return split;
}

Expected<MicrobatchedStep> MakeMicrobatchedStep(Module& step, const BatchSplit& split) {
  PipelineOptions options;
  options.stages = 1;
  options.microbatches = split.microbatches;
  options.schedule = ScheduleKind::kGPipe;
  options.remat = Remat::kNone;
  for (const BatchSplit::Examples& of : split.examples) {
    BatchRule& rule = options.batch.emplace_back();
    rule.pattern = fmt::format("^param:{}$", of.parameter);
    rule.dimension = of.dimension;
    rule.text = fmt::format("param:{}={}", of.parameter, of.dimension);
  }
  PassContext context;
  PerDeviceOptions way;  // up to inlined calls
  way.propagate = false;
  if (auto done = CompleteShardings(step, context, way); !done) return Fail(done.error());
  if (!split.examples.empty()) CutBatch(step, split);
  const std::vector<Instruction*> results = OutputsOf(*step.entry());
  std::vector<int64_t> leaves;
  for (const Instruction* x : results) leaves.push_back(x->shape()->leaf_count());
  Expected<PipelinePlan> plan = PipelineModule(step, options);
  if (!plan) return Fail(plan.error());
  DropShardings(step);
  step.header().num_partitions = 1;
  MicrobatchedStep made;
  made.microbatches = split.microbatches;
  made.sums = std::move(plan->microbatch_sums);
  for (size_t i = 0; i < plan->follows_microbatch_sum.size(); ++i) {
    made.follows_sum.insert(made.follows_sum.end(),
                            i < leaves.size() ? static_cast<size_t>(leaves[i]) : 1,
                            plan->follows_microbatch_sum[i]);
  }
  return made;
}

}  // namespace gshard::pipeline
