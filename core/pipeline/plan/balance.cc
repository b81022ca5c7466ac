#include "core/pipeline/plan/balance.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <utility>

#include "core/pipeline/plan/schedule.h"
#include "fmt/format.h"

namespace gshard::pipeline {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double LinkBytesPerSecond(const Chip& chip) {
  if (chip.network.empty()) return kInfinity;
  return chip.network[0].bytes_per_s * chip.network[0].efficiency;
}

// By virtual stage, as the schedule orders passes.
struct Kept {
  std::vector<int64_t> in_flight, delayed;
};
Kept KeptOf(int64_t stages, const PipelineOptions& options) {
  ScheduleOptions schedule;
  schedule.kind = options.schedule;
  schedule.repeats = StagesOfDevice(options);
  schedule.stages = stages / schedule.repeats;
  schedule.microbatches = options.microbatches;
  schedule.has_forward_of_last = KeepsValues(*options.remat);
  schedule.puts_off_weights = options.remat == Remat::kNone;
  const Schedule made = MakeSchedule(schedule);
  return {MicrobatchesInFlight(made), MicrobatchesDelayed(made)};
}

// Weights that lie on another device between steps than the stage that uses them, and are sent.
class AwayBytes {
 public:
  AwayBytes(const std::vector<Layer>& layers, int64_t devices)
      : of_device_(static_cast<size_t>(devices)) {
    for (size_t i = 0; i < layers.size(); ++i) {
      int64_t sum = 0;
      for (auto [home, bytes] : layers[i].home_bytes) {
        auto& list = of_device_[static_cast<size_t>(home)];
        list.push_back({i, bytes + (list.empty() ? 0 : list.back().bytes)});
        sum += bytes;
      }
      all_.push_back(all_.back() + sum);
    }
  }

  // Of layers [from, to) as a stage of `device`.
  int64_t Of(size_t device, size_t from, size_t to) const {
    return all_[to] - all_[from] - (At(device, to) - At(device, from));
  }

 private:
  struct Sum {
    size_t layer;
    int64_t bytes;  // of that layer and those before
  };
  // Bytes of layers before `layer` that lie on the device.
  int64_t At(size_t device, size_t layer) const {
    const std::vector<Sum>& list = of_device_[device];
    const auto after = std::ranges::lower_bound(list, layer, {}, &Sum::layer);
    return after == list.begin() ? 0 : std::prev(after)->bytes;
  }

  std::vector<int64_t> all_ = {0};
  std::vector<std::vector<Sum>> of_device_;
};

// Seconds of a micro-batch's passes of a stage, without what it sends.
class PassSeconds {
 public:
  PassSeconds(const std::vector<Layer>& layers, size_t stages, const PipelineOptions& options)
      : layers_(layers),
        again_of_others_(ForwardsInBackward(*options.remat, false)),
        again_of_last_(ForwardsInBackward(*options.remat, true)),
        is_folded_(!KeepsValues(*options.remat) &&
                   (options.schedule != ScheduleKind::kGPipe || stages == 1)) {
    for (size_t i = 0; i < layers.size(); ++i) {
      const double forward_s = layers[i].ForwardPassSeconds(again_of_others_);
      forward_.push_back(forward_.back() + forward_s);
      backward_.push_back(backward_.back() + layers[i].backward_s);
      again_.push_back(again_.back() + layers[i].AgainSeconds(again_of_others_));
      end_of_backward_.push_back(layers[i].has_backward ? i + 1 : end_of_backward_.back());
    }
  }

  // Of layers [from, to) as a stage; the last stage if `to` is the number of layers.
  double Of(size_t from, size_t to) const {
    const bool is_last = to == layers_.size();
    // Layers after the last one with a backward pass need not be computed again, but those of the
    // last stage for the loss.
    const size_t end = is_last ? to : std::max(from, end_of_backward_[to]);
    double work = backward_[to] - backward_[from] + again_[end] - again_[from];
    if (end > from) {
      work -= layers_[end - 1].AgainSeconds(again_of_others_) -
              layers_[end - 1].AgainSeconds(again_of_last_);
    }
    // The last stage's first forward pass is that of its backward pass. With gpipe it waits for the
    // others' forward passes first.
    return is_last && is_folded_ ? work : work + forward_[to] - forward_[from];
  }
  // If all were computed again.
  double OfAll() const { return forward_.back() + backward_.back() + again_.back(); }

 private:
  const std::vector<Layer>& layers_;
  double again_of_others_, again_of_last_;  // forward passes within a backward pass
  bool is_folded_;
  std::vector<double> forward_ = {0}, backward_ = {0}, again_ = {0};  // sums of the layers before
  std::vector<size_t> end_of_backward_ = {0};  // of the layers before, behind the last that has one
};

constexpr double kSlack = 1e-9;  // of times that count as equal

// Of the first stages: their longest time, and the sum of squares.
struct Best {
  double longest = kInfinity, squares = 0;
  bool operator<(const Best& other) const {
    if (other.longest == kInfinity) return longest < kInfinity;
    double slack = kSlack * other.longest;
    if (longest < other.longest - slack) return true;
    return longest <= other.longest + slack && squares < other.squares * (1 - 1e-12);
  }
};

// No stage of the best partition takes longer than the longest of another: of equally many layers
// each, or of as many as fit in a limit, which is found by halving from `low`, the mean, on.
// `time(stage, from, to)`.
template <typename Time>
double BoundOf(size_t layers, size_t stages, double low, const Time& time) {
  constexpr int kHalvings = 24;
  double high = 0;
  for (size_t s = 0; s < stages; ++s) {
    high = std::max(high, time(s, s * layers / stages, (s + 1) * layers / stages));
  }
  double longest_of_best = high;
  for (int i = 0; i < kHalvings && low < high && high < kInfinity; ++i) {
    const double limit = (low + high) / 2;
    double longest = 0;
    size_t from = 0;
    for (size_t s = 0; s < stages; ++s) {
      size_t to = s + 1 == stages ? layers : from + 1;
      while (s + 1 < stages && to + (stages - s - 1) < layers && time(s, from, to + 1) <= limit)
        ++to;
      longest = std::max(longest, time(s, from, to));
      from = to;
    }
    longest_of_best = std::min(longest_of_best, longest);
    (longest <= limit ? high : low) = limit;
  }
  return longest_of_best;
}

// Where the stages before `s` may end, by s, if none takes longer than a bound.
struct Band {
  std::vector<size_t> least, most;
};
// `seconds(from, to)` at least, of any stage.
template <typename Seconds>
Band BandOf(size_t layers, size_t stages, double bound, const Seconds& seconds) {
  Band band{std::vector<size_t>(stages + 1, 0), std::vector<size_t>(stages + 1, layers)};
  band.least[stages] = layers, band.most[0] = 0;
  if (bound == kInfinity) return band;
  // The first layer of a stage that ends at `to` or later, and the last of one that begins at
  // `from` or before.
  std::vector<size_t> first_of(layers + 1, 0), end_of(layers + 1, 0);
  for (size_t to = layers; to > 0; --to) {
    size_t from = to;
    while (from > 0 && seconds(from - 1, to) <= bound * (1 + kSlack)) --from;
    first_of[to] = to == layers ? from : std::min(first_of[to + 1], from);
    end_of[from] = std::max(end_of[from], to);
  }
  for (size_t from = 1; from <= layers; ++from) {
    end_of[from] = std::max(end_of[from], end_of[from - 1]);
  }
  for (size_t s = stages; s > 0; --s) band.least[s - 1] = first_of[band.least[s]];
  for (size_t s = 1; s <= stages; ++s) band.most[s] = end_of[band.most[s - 1]];
  return band;
}

// `least_excess`: bytes of the smallest layer that does not fit alone; the largest number: all do.
Diagnostic NoneFits(size_t layers, int64_t stages, int64_t limit, int64_t least_excess) {
  return MakeError("E-PIPELINE-007",
                   fmt::format("no {} stages of these {} layers fit in {} bytes a device", stages,
                               layers, limit),
                   least_excess == std::numeric_limits<int64_t>::max()
                       ? "more stages, smaller micro-batches, or --remat all"
                       : fmt::format("a layer alone takes {} bytes or more", least_excess));
}

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

// The layers before the buffer, `stages` equal stretches of the repeated layers, and those after.
Expected<std::vector<int64_t>> AlikeStages(const std::vector<Layer>& layers, int64_t stages,
                                           const PipelineOptions& options) {
  auto is_repeated = [](const Layer& layer) { return layer.is_repeated; };
  const auto begin = std::find_if(layers.begin(), layers.end(), is_repeated);
  const auto end = std::find_if_not(begin, layers.end(), is_repeated);
  const int64_t count = end - begin, each = count / stages;
  if (each == 0) {
    return Fail(
        MakeError("E-PIPELINE-005",
                  fmt::format("{} equal layers are too few for the {} stages of a shifting buffer",
                              count, stages),
                  count == 0 ? "--cut REGEX names layers; other schedules take unlike ones" : ""));
  }
  if (options.balance.find_first_of("0123456789") != std::string::npos) {
    return Fail(MakeError(
        "E-PIPELINE-005",
        fmt::format("--balance '{}': the stages of a shifting buffer are alike", options.balance),
        "they are equal stretches of the repeated layers"));
  }
  std::vector<int64_t> first = {0};
  for (int64_t s = 0; s <= stages; ++s) first.push_back(begin - layers.begin() + s * each);
  return first;
}

}  // namespace

Expected<StagePartition> PartitionByCost(const std::vector<Layer>& layers, int64_t stages,
                                         const PipelineOptions& options) {
  const size_t n = layers.size(), k = static_cast<size_t>(stages);
  const PassSeconds passes(layers, k, options);
  const double link = LinkBytesPerSecond(options.chip);
  const Kept kept = KeptOf(stages, options);
  const size_t devices = k / static_cast<size_t>(StagesOfDevice(options));
  const AwayBytes away(layers, static_cast<int64_t>(devices));
  const int64_t limit = options.memory_limit_bytes / StagesOfDevice(options);
  int64_t least_excess = std::numeric_limits<int64_t>::max();
  // `sent`: seconds for weights. What crosses behind the stage does: activations and cotangents.
  auto seconds = [&](size_t from, size_t to, double sent) {
    const double work = passes.Of(from, to) + sent;
    if (to == n) return work;
    const int64_t crossing = layers[to - 1].output_bytes + layers[to - 1].cotangent_bytes;
    return work + static_cast<double>(crossing) / link;
  };
  auto time = [&](size_t stage, size_t from, size_t to) {
    if (limit > 0) {
      int64_t bytes = StageBytes(layers, from, to, kept.in_flight[stage], options);
      // Gradients of weights need about what the backward pass needs of the forward pass.
      for (size_t i = from; i < to; ++i) bytes += kept.delayed[stage] * layers[i].saved_bytes;
      if (bytes > limit) {
        if (to == from + 1) least_excess = std::min(least_excess, bytes);
        return kInfinity;
      }
    }
    // Weights come, and their gradients go, once a step.
    const double sent = 2 * static_cast<double>(away.Of(stage % devices, from, to)) / link /
                        static_cast<double>(options.microbatches);
    return seconds(from, to, sent);
  };
  const double bound = BoundOf(n, k, passes.OfAll() / static_cast<double>(k), time);
  const Band band =
      BandOf(n, k, bound, [&](size_t from, size_t to) { return seconds(from, to, 0); });
  std::vector<Best> last(n + 1), next;
  last[0] = {0, 0};
  std::vector<std::vector<int32_t>> from_of(k + 1);  // by where the stage ends, in its band
  for (size_t s = 1; s <= k; ++s) {
    next.assign(n + 1, Best());
    const size_t least = std::max(s, band.least[s]), most = std::min(n - (k - s), band.most[s]);
    for (size_t to = least; to <= most; ++to) {
      from_of[s].push_back(0);
      // The more layers, the longer the stage.
      for (size_t from = to; from-- > s - 1;) {
        const double t = time(s - 1, from, to);
        if (t < kInfinity && t > std::min(bound, next[to].longest) * (1 + kSlack)) break;
        if (t == kInfinity || last[from].longest == kInfinity) continue;
        const Best candidate{std::max(last[from].longest, t), last[from].squares + t * t};
        if (next[to] < candidate) continue;
        next[to] = candidate;
        from_of[s].back() = static_cast<int32_t>(from);
      }
    }
    std::swap(last, next);
  }
  if (last[n].longest == kInfinity) {
    return Fail(NoneFits(n, stages, options.memory_limit_bytes, least_excess));
  }
  StagePartition partition{std::vector<int64_t>(k), std::vector<double>(k)};
  size_t to = n;
  for (size_t s = k; s > 0; --s) {
    const auto from = static_cast<size_t>(from_of[s][to - std::max(s, band.least[s])]);
    partition.first[s - 1] = static_cast<int64_t>(from);
    partition.seconds[s - 1] = time(s - 1, from, to);
    to = from;
  }
  return partition;
}

int64_t StageBytes(const std::vector<Layer>& layers, size_t from, size_t to, int64_t in_flight,
                   const PipelineOptions& options) {
  // Into the first layer come the examples themselves.
  const int64_t input = from > 0 ? layers[from - 1].output_bytes : 0;
  int64_t bytes = 0, saved = 0, largest = 0, outputs = 0;
  for (size_t i = from; i < to; ++i) {
    bytes += layers[i].state_bytes + layers[i].weight_bytes;
    saved += layers[i].saved_bytes;
    largest = std::max(largest, layers[i].saved_bytes);
    outputs += layers[i].output_bytes;
  }
  switch (*options.remat) {
    case Remat::kNone:
    case Remat::kProgram:
      return bytes + (input + saved) * in_flight;
    case Remat::kStage:
      return bytes + input * in_flight + saved;
    case Remat::kAll:
      return bytes + input * in_flight + outputs + largest;
  }
  return bytes;
}

Expected<std::vector<int64_t>> BalanceStages(const std::vector<Layer>& layers, int64_t stages,
                                             const PipelineOptions& options) {
  const int64_t n = static_cast<int64_t>(layers.size());
  if (n < stages) {
    return Fail(MakeError("E-PIPELINE-005",
                          fmt::format("{} layers are too few for {} stages", n, stages),
                          "--cut REGEX names more boundaries"));
  }
  if (options.schedule == ScheduleKind::kShift) return AlikeStages(layers, stages, options);
  if (options.balance == "cost") {
    Expected<StagePartition> partition = PartitionByCost(layers, stages, options);
    if (!partition) return Fail(std::move(partition.error()));
    return std::move(partition->first);
  }
  if (options.balance == "gpipe") return ByHeuristic(layers, stages);
  if (options.balance == "layers") {
    std::vector<int64_t> first;
    for (int64_t s = 0; s < stages; ++s) first.push_back(s * n / stages);
    return first;
  }
  return ExplicitCuts(options.balance, n, stages);
}

std::vector<int64_t> AlikeStretches(const std::vector<Layer>& layers, int64_t stages) {
  std::map<int64_t, int64_t> counts;  // of layers, by bytes of weights
  for (const Layer& layer : layers) ++counts[layer.weight_bytes];
  counts.erase(0);
  if (counts.empty()) return {};
  const int64_t most =
      std::ranges::max_element(counts, {}, [](const auto& of) { return of.second; })->first;
  // The first block may have what comes before it, too.
  const auto is_block = [&](const Layer& layer) {
    return layer.weight_bytes >= most && 2 * layer.weight_bytes < 3 * most;
  };
  const auto begin = std::ranges::find_if(layers, is_block);
  const auto end = std::find_if_not(begin, layers.end(), is_block);
  const int64_t count = end - begin, each = count / stages;
  if (each == 0 || count % stages != 0 || std::any_of(end, layers.end(), is_block)) return {};
  std::vector<int64_t> first = {0};
  for (int64_t s = 1; s < stages; ++s) first.push_back(begin - layers.begin() + s * each);
  return first;
}

}  // namespace gshard::pipeline
