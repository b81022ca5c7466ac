#include "core/pipeline/plan/layer_cuts.h"

#include <re2/re2.h>

#include <algorithm>

#include "core/analysis/near_names.h"
#include "core/cost/op_cost.h"
#include "fmt/format.h"
#include "ir/hash.h"
#include "ir/metadata.h"

namespace gshard::pipeline {

CutFinder::CutFinder(const Module& module, const std::vector<Instruction*>& forward,
                     const Users& users)
    : module_(module), forward_(forward), users_(users), position_(module.instruction_limit(), -1) {
  for (size_t i = 0; i < forward.size(); ++i) {
    position_[forward[i]->id()] = static_cast<int32_t>(i);
  }
}

Expected<LayerCuts> CutFinder::ByPattern(const std::string& pattern) const {
  RE2::Options quiet;
  quiet.set_log_errors(false);
  RE2 regex(pattern, quiet);
  if (!regex.ok()) {
    return Fail(MakeError("E-PIPELINE-004", fmt::format("--cut '{}': {}", pattern, regex.error())));
  }
  std::vector<int64_t> starts = {0};
  std::string last;
  bool any = false;
  for (size_t i = 0; i < forward_.size(); ++i) {
    const std::string op_name = OpNameOf(*forward_[i]);
    std::string text = op_name.empty() ? std::string(forward_[i]->name()) : op_name;
    re2::StringPiece found;
    if (!regex.Match(text, 0, text.size(), RE2::UNANCHORED, &found, 1)) {
      text = std::string(forward_[i]->name());
      if (!regex.Match(text, 0, text.size(), RE2::UNANCHORED, &found, 1)) {
        // What has no op_name is part of what surrounds it.
        if (!op_name.empty()) last.clear();
        continue;
      }
    }
    any = true;
    std::string match(found.data(), found.size());
    if (match != last && i != 0) starts.push_back(static_cast<int64_t>(i));
    last = std::move(match);
  }
  if (!any) {
    return Fail(MakeError(
        "E-PIPELINE-004", fmt::format("--cut '{}' matches no forward instruction", pattern),
        WordMeantBy(module_, pattern) + "patterns match op_name paths and names"));
  }
  std::vector<bool> repeated = LongestEqual(starts);
  return LayerCuts{std::move(starts), std::move(repeated)};
}

CutFinder::Crossings CutFinder::FindCrossings() const {
  const size_t n = forward_.size();
  std::vector<int64_t> count(n + 1, 0), bytes(n + 1, 0);
  for (size_t i = 0; i < n; ++i) {
    int64_t last = static_cast<int64_t>(i);
    for (const Instruction* user : users_.of(forward_[i])) {
      last = std::max<int64_t>(last, PositionOf(user));
    }
    if (last == static_cast<int64_t>(i)) continue;
    int64_t size = forward_[i]->shape()->byte_size();
    ++count[i + 1], --count[static_cast<size_t>(last) + 1];
    bytes[i + 1] += size, bytes[static_cast<size_t>(last) + 1] -= size;
  }
  for (size_t i = 1; i <= n; ++i) count[i] += count[i - 1], bytes[i] += bytes[i - 1];
  Crossings found{{0}, {0}, {}};
  for (size_t i = 1; i < n; ++i) {
    if (count[i] == 1) found.single.push_back(static_cast<int64_t>(i));
    // The end of a plateau that is lower than what follows and no higher than what precedes.
    size_t before = i;
    while (before > 1 && bytes[before - 1] == bytes[i]) --before;
    if (bytes[i] < bytes[i + 1] && (before == 1 || bytes[before - 1] > bytes[i])) {
      found.lowest.push_back(static_cast<int64_t>(i));
    }
  }
  found.bytes = std::move(bytes);
  return found;
}

LayerCuts CutFinder::Stretches() const {
  const Crossings found = FindCrossings();
  // Single crossings are the residual stream of a chain; where few are to be had (skip
  // connections), the places where least crosses.
  int64_t longest = 0;
  for (size_t i = 0; i < found.single.size(); ++i) {
    longest = std::max(longest, EndOf(found.single, i) - found.single[i]);
  }
  const std::vector<int64_t>& starts =
      longest * 3 > std::ssize(forward_) ? found.lowest : found.single;
  return {starts, std::vector<bool>(starts.size(), false)};
}

LayerCuts CutFinder::SingleStretches() const {
  std::vector<int64_t> starts = FindCrossings().single;
  std::vector<bool> repeated(starts.size(), false);
  return {std::move(starts), std::move(repeated)};
}

uint64_t CutFinder::Signature(int64_t begin, int64_t end) const {
  size_t hash = HashCombine(0, static_cast<uint64_t>(end - begin));
  for (int64_t i = begin; i < end; ++i) {
    const Instruction* x = forward_[static_cast<size_t>(i)];
    hash = HashPointer(HashCombine(hash, static_cast<uint64_t>(x->opcode())), x->shape()->bare());
    for (const Instruction* operand : x->operands()) {
      int64_t position = PositionOf(operand);
      hash = HashCombine(hash, position >= begin ? static_cast<uint64_t>(i - position) : 0);
      hash = HashPointer(hash, operand->shape()->bare());
    }
  }
  return hash;
}

std::vector<uint64_t> CutFinder::Signatures(const std::vector<int64_t>& starts) const {
  std::vector<uint64_t> signatures;
  for (size_t i = 0; i < starts.size(); ++i) {
    signatures.push_back(Signature(starts[i], EndOf(starts, i)));
  }
  return signatures;
}

// Of layers that are named: the longest run of equal ones is repeated.
std::vector<bool> CutFinder::LongestEqual(const std::vector<int64_t>& starts) const {
  const size_t n = starts.size();
  const std::vector<uint64_t> signature = Signatures(starts);
  size_t best = 0, longest = 0;
  for (size_t begin = 0, end = 0; begin < n; begin = end) {
    for (end = begin; end < n && signature[end] == signature[begin];) ++end;
    if (end - begin > longest) best = begin, longest = end - begin;
  }
  std::vector<bool> repeated(n, false);
  for (size_t i = best; longest > 1 && i < best + longest; ++i) repeated[i] = true;
  return repeated;
}

// The run of stretches, equal at a distance of `period`, whose whole periods cover most of the
// forward pass. Length 0: none covers enough of it.
CutFinder::Run CutFinder::LongestRun(const std::vector<int64_t>& starts,
                                     std::optional<double> share) const {
  const size_t n = starts.size();
  auto at = [&](size_t i) { return i < n ? starts[i] : static_cast<int64_t>(forward_.size()); };
  const std::vector<uint64_t> signature = Signatures(starts);
  Run best;
  int64_t best_covered = 0;
  for (size_t period = 1; period <= std::min<size_t>(n / 2, 64); ++period) {
    size_t equal = 0;
    for (size_t i = 0; i + period <= n; ++i) {
      if (i + period < n && signature[i] == signature[i + period]) {
        ++equal;
        continue;
      }
      const size_t length = equal + period, begin = i - equal;
      equal = 0;
      if (length < 2 * period) continue;
      int64_t covered = at(begin + length / period * period) - at(begin);
      if (covered > best_covered) best_covered = covered, best = {begin, period, length};
    }
  }
  if (!share) return best_covered * 2 < std::ssize(forward_) ? Run() : best;
  double covered = 0, all = 0;
  const int64_t begin = at(best.begin), end = begin + best_covered;
  for (int64_t i = 0; i < std::ssize(forward_); ++i) {
    const double flops = CostOf(*forward_[static_cast<size_t>(i)]).flops;
    all += flops;
    covered += i >= begin && i < end ? flops : 0;
  }
  return covered < *share * all ? Run() : best;
}

// Does an instruction of [begin, end) use one of the `count` before them?
bool CutFinder::UsesBefore(int64_t begin, int64_t end, int64_t count) const {
  for (int64_t i = begin; i < end; ++i) {
    for (const Instruction* operand : forward_[static_cast<size_t>(i)]->operands()) {
      const int64_t position = PositionOf(operand);
      if (position >= begin - count && position < begin) return true;
    }
  }
  return false;
}

// `starts`: where equal blocks begin, and where the last ends. Adds those before and behind them
// whose first or last stretch has something else in it.
std::vector<int64_t> CutFinder::WithPartialBlocks(std::vector<int64_t> starts) const {
  const int64_t length = starts[1] - starts[0];
  const uint64_t block = Signature(starts[0], starts[1]);
  const auto is_block = [&](int64_t begin) {
    return begin >= 0 && begin + length <= std::ssize(forward_) &&
           Signature(begin, begin + length) == block;
  };
  // Does the block at `begin` use one of the `count` instructions before it?
  const auto uses_before = [&](int64_t begin, int64_t count) {
    return UsesBefore(begin, begin + length, count);
  };
  // Equal blocks of another network do not follow from these. A first one that follows from nothing
  // takes examples, which no other hands on.
  for (int64_t first = starts[0] - length; is_block(first); first -= length) {
    if (!uses_before(starts[0], length) || !uses_before(first, first)) break;
    starts.insert(starts.begin(), first);
  }
  while (is_block(starts.back()) && uses_before(starts.back(), length)) {
    starts.push_back(starts.back() + length);
  }
  return starts;
}

// Layers of these blocks, of what precedes and what follows.
LayerCuts CutFinder::CutsAround(const std::vector<int64_t>& starts) const {
  LayerCuts cuts;
  const auto add = [&](int64_t start, bool repeated) {
    cuts.starts.push_back(start);
    cuts.repeated.push_back(repeated);
  };
  if (starts.front() > 0) add(0, false);
  for (size_t i = 0; i + 1 < starts.size(); ++i) add(starts[i], true);
  if (starts.back() < std::ssize(forward_)) add(starts.back(), false);
  return cuts;
}

std::vector<LayerCuts> CutFinder::Blocks(const LayerCuts& stretches,
                                         std::optional<double> share) const {
  const std::vector<int64_t>& at = stretches.starts;
  const Run run = LongestRun(at, share);
  if (run.length == 0) return {stretches};
  const std::vector<int64_t> bytes = FindCrossings().bytes;
  std::vector<LayerCuts> found;
  for (size_t shift = 0; shift < run.period; ++shift) {
    const size_t begin = run.begin + shift, repeats = (run.length - shift) / run.period;
    if (repeats < 2) break;
    std::vector<int64_t> starts;  // of the blocks, and behind the last
    for (size_t r = 0; r <= repeats; ++r) {
      const size_t i = begin + r * run.period;
      starts.push_back(i < at.size() ? at[i] : std::ssize(forward_));
    }
    starts = WithPartialBlocks(std::move(starts));
    found.push_back(CutsAround(starts));
    found.back().block_bytes = bytes[static_cast<size_t>(starts[1])];
  }
  return found;
}

}  // namespace gshard::pipeline
