// See branched_loop.h.

#include "core/cost/branched_loop.h"

#include <algorithm>

#include "core/analysis/device_groups.h"
#include "core/cost/step_model.h"
#include "core/cost/work_totals.h"
#include "ir/computation.h"
#include "ir/equality.h"
#include "ir/opcode.h"

namespace gshard {
namespace {

// The integer that begins what the branches take, or null.
const Instruction* NumberOf(const Instruction& conditional) {
  const Instruction* taken = conditional.operand_count() > 1 ? conditional.operand(1) : nullptr;
  if (taken == nullptr || taken->opcode() != Opcode::kTuple || taken->operand_count() == 0) {
    return nullptr;
  }
  const Instruction* first = taken->operand(0);
  const bool is_scalar = first->shape()->IsArray() && first->shape()->rank() == 0;
  return is_scalar && IsInteger(first->shape()->dtype()) ? first : nullptr;
}

using Conditionals = std::vector<const Instruction*>;

bool DoTheSame(const Computation* a, const Computation* b) {
  return SameComputation(*a, *b);
}

// Conditionals of the body by their branches, each family in the order of the text.
std::vector<Conditionals> FamiliesIn(const Computation& body) {
  std::vector<Conditionals> families;
  for (const Instruction* x : body.instructions()) {
    if (x->opcode() != Opcode::kConditional) continue;
    auto same = std::find_if(families.begin(), families.end(), [&](const Conditionals& family) {
      return std::ranges::equal(family[0]->called(), x->called(), DoTheSame);
    });
    if (same == families.end()) same = families.insert(same, Conditionals());
    same->push_back(x);
  }
  return families;
}

// Which branch each device takes, and on what it works; or nothing.
bool Evaluate(const Conditionals& family, int64_t device_count, BranchedLoop& branched) {
  std::vector<const Instruction*> scalars, numbers;
  for (const Instruction* conditional : family) {
    branched.ticks.push_back({conditional, scalars.size(), 0, false, {}});
    scalars.push_back(conditional->operand(0));
    if (const Instruction* number = NumberOf(*conditional)) numbers.push_back(number);
  }
  std::optional<LoopScalars> values;
  if (numbers.size() == family.size()) {
    std::vector<const Instruction*> all = scalars;
    all.insert(all.end(), numbers.begin(), numbers.end());
    values = EvaluateInLoop(*branched.loop, all, device_count);
    branched.has_number = values.has_value();
  }
  if (!values) values = EvaluateInLoop(*branched.loop, scalars, device_count);
  if (!values) return false;
  for (BranchedTick& tick : branched.ticks) tick.number = tick.branch + scalars.size();
  branched.values = std::move(*values);
  return true;
}

// Who waits for whom after each conditional: by the collectives before the next one.
void FindExchanges(BranchedLoop& branched) {
  std::map<int64_t, size_t> group_of;
  for (size_t k = 0; k < branched.values.groups.size(); ++k) {
    for (int64_t device : branched.values.groups[k]) group_of[device] = k;
  }
  BranchedTick* tick = &branched.ticks.back();
  size_t next = 0;
  for (const Instruction* x : branched.loop->called(1)->instructions()) {
    if (next < branched.ticks.size() && x == branched.ticks[next].conditional) {
      tick = &branched.ticks[next++];
    }
    if (!IsCollective(x->opcode())) continue;
    if (!IsCollectivePermute(*x)) {
      tick->all_wait = true;
      continue;
    }
    for (const DevicePair& pair : x->attributes<CollectiveAttributes>().source_target_pairs) {
      auto from = group_of.find(pair.source), to = group_of.find(pair.target);
      if (from == group_of.end() || to == group_of.end()) continue;
      if (from->second != to->second) tick->pairs.emplace_back(from->second, to->second);
    }
  }
  for (BranchedTick& each : branched.ticks) {
    std::ranges::sort(each.pairs);
    each.pairs.erase(std::unique(each.pairs.begin(), each.pairs.end()), each.pairs.end());
  }
}

void Simulate(BranchedLoop& branched) {
  const size_t groups = branched.values.groups.size();
  std::vector<double> free(groups, 0);
  for (int64_t t = 0; t < branched.tick_count(); ++t) {
    TickTimes& times = branched.times.emplace_back();
    times.start = times.end = free;
    for (size_t k = 0; k < groups; ++k) times.end[k] += branched.SecondsAt(t, k);
    const BranchedTick& tick = branched.TickAt(t);
    free = times.end;
    const bool is_last = t + 1 == branched.tick_count();
    if (tick.all_wait || is_last) {
      free.assign(groups, *std::max_element(free.begin(), free.end()));
    }
    for (auto [a, b] : tick.pairs) {
      free[a] = std::max(free[a], times.end[b]);
      free[b] = std::max(free[b], times.end[a]);
    }
    times.next = free;
  }
}

bool Describe(const Conditionals& family, int64_t device_count, const CostOfBranch& cost_of,
              BranchedLoop& branched) {
  if (!Evaluate(family, device_count, branched)) return false;
  WorkTotalsTable totals;
  double most_flops = 0;
  for (const Computation* branch : family[0]->called()) {
    branched.branches.push_back(cost_of(*branch));
    most_flops = std::max(most_flops, totals.Of(*branched.branches.back()).flops);
  }
  for (const ComputationCost* branch : branched.branches) {
    branched.is_idle.push_back(most_flops > 0 && totals.Of(*branch).flops == 0);
  }
  FindExchanges(branched);
  Simulate(branched);
  return true;
}

double LongestBranch(const BranchedLoop& branched) {
  double longest = 0;
  for (const ComputationCost* branch : branched.branches) {
    longest = std::max(longest, branch->schedule.seconds);
  }
  return longest;
}

size_t SlowestIn(const BranchedLoop& branched, int64_t tick) {
  size_t slowest = 0;
  for (size_t group = 1; group < branched.values.groups.size(); ++group) {
    if (branched.SecondsAt(tick, group) > branched.SecondsAt(tick, slowest)) slowest = group;
  }
  return branched.BranchAt(tick, slowest);
}

// Adds one trip's tick to what is known of its conditional.
void AddTick(const BranchedLoop& branched, int64_t t, int64_t device_count, BranchMix& mix) {
  mix.slowest = SlowestIn(branched, t);
  mix.shares.resize(branched.branches.size());
  const TickTimes& times = branched.times[static_cast<size_t>(t)];
  for (size_t group = 0; group < branched.values.groups.size(); ++group) {
    const double share = static_cast<double>(branched.values.groups[group].size()) /
                         static_cast<double>(device_count);
    mix.seconds += share * (times.next[group] - times.start[group]);
    const size_t taken = branched.BranchAt(t, group);
    if (!branched.is_idle[taken]) mix.shares[taken] += share;
  }
}

}  // namespace

size_t BranchedLoop::BranchAt(int64_t tick, size_t group) const {
  const BranchedTick& at = TickAt(tick);
  const int64_t value = values.At(at.branch, TripOf(tick), group);
  if (at.conditional->operand(0)->shape()->dtype() == DType::kPred) return value != 0 ? 0 : 1;
  const auto count = static_cast<int64_t>(branches.size());
  return static_cast<size_t>(value < 0 || value >= count ? count - 1 : value);
}

double BranchedLoop::SecondsAt(int64_t tick, size_t group) const {
  return branches[BranchAt(tick, group)]->schedule.seconds;
}

std::vector<TripMix> MixesOf(BranchedLoop& branched, int64_t device_count,
                             const CostOfBranch& cost_of) {
  std::vector<BranchedLoop> known;
  for (const Conditionals& family : FamiliesIn(*branched.loop->called(1))) {
    BranchedLoop one;
    one.loop = branched.loop;
    if (Describe(family, device_count, cost_of, one)) known.push_back(std::move(one));
  }
  if (known.empty()) return {};
  std::vector<TripMix> mixes;
  std::map<std::vector<size_t>, size_t> mix_of;  // by the slowest branch of each conditional
  for (int64_t trip = 0; trip < known[0].values.trips; ++trip) {
    std::vector<size_t> slowest;
    auto for_each_tick = [&](const auto& body) {
      for (const BranchedLoop& one : known) {
        const auto count = static_cast<int64_t>(one.ticks.size());
        for (int64_t t = trip * count; t < (trip + 1) * count; ++t) body(one, t);
      }
    };
    for_each_tick(
        [&](const BranchedLoop& one, int64_t t) { slowest.push_back(SlowestIn(one, t)); });
    auto [it, is_new] = mix_of.try_emplace(slowest, mixes.size());
    if (is_new) mixes.emplace_back();
    TripMix& mix = mixes[it->second];
    ++mix.trips;
    for_each_tick([&](const BranchedLoop& one, int64_t t) {
      AddTick(one, t, device_count, mix.branches[one.TickAt(t).conditional]);
    });
  }
  for (TripMix& mix : mixes) {
    for (auto& [conditional, branch] : mix.branches) {
      branch.seconds /= mix.trips;
      for (double& share : branch.shares) share /= mix.trips;
    }
  }
  auto longest = std::max_element(known.begin(), known.end(), [](const auto& a, const auto& b) {
    return LongestBranch(a) < LongestBranch(b);
  });
  branched = std::move(*longest);
  return mixes;
}

}  // namespace gshard
