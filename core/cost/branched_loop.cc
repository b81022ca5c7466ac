// See branched_loop.h.

#include "core/cost/branched_loop.h"

#include <algorithm>
#include <span>
#include <unordered_set>

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

bool DoTheSame(const Computation* a, const Computation* b) { return SameComputation(*a, *b); }

// The ticks of `conditionals`, with the values that choose their branches, if all are known;
// `with_numbers`: with what the branches work on, too.
bool Evaluate(std::span<const Instruction* const> conditionals, bool with_numbers,
              int64_t device_count, BranchedLoop& branched) {
  std::vector<const Instruction*> scalars;
  std::vector<BranchedTick> ticks;
  for (const Instruction* conditional : conditionals) {
    BranchedTick& tick = ticks.emplace_back();
    tick.conditional = conditional;
    tick.selector = scalars.size();
    scalars.push_back(conditional->operand(0));
    const Instruction* number = with_numbers ? NumberOf(*conditional) : nullptr;
    if (number == nullptr) continue;
    tick.number = scalars.size();
    scalars.push_back(number);
  }
  if (scalars.empty()) return false;
  std::optional<LoopScalars> values = EvaluateInLoop(*branched.loop, scalars, device_count);
  if (!values) return false;
  branched.ticks = std::move(ticks);
  branched.values = *std::move(values);
  return true;
}

// Ticks of all conditionals of the body of which it is known which branch each device takes; with
// numbers if those are known of all of them.
bool FindTicks(int64_t device_count, BranchedLoop& branched) {
  std::vector<const Instruction*> conditionals;
  for (const Instruction* x : branched.loop->called(1)->instructions()) {
    if (x->opcode() == Opcode::kConditional) conditionals.push_back(x);
  }
  auto evaluate = [&](std::span<const Instruction* const> list) {
    return Evaluate(list, true, device_count, branched) ||
           Evaluate(list, false, device_count, branched);
  };
  if (evaluate(conditionals)) return true;
  std::erase_if(conditionals, [&](const Instruction* x) {
    return !Evaluate({&x, 1}, false, device_count, branched);
  });
  return evaluate(conditionals);
}

// How many conditionals run between `producer`, the tick whose values the permute hands on (-1: the
// last one of the trip before), and the first that needs what arrives.
int64_t TicksBetween(const BranchedLoop& branched, const Instruction* permute, int64_t producer) {
  const Computation& body = *branched.loop->called(1);
  std::unordered_set<const Instruction*> needing = {permute};
  // The first conditional of the body that needs it; -1: there is none.
  auto first_that_needs = [&]() -> int64_t {
    for (const Instruction* x : body.instructions()) {
      const bool needs = std::ranges::any_of(
          x->operands(), [&](const Instruction* operand) { return needing.contains(operand); });
      if (!needs) continue;
      needing.insert(x);
      const auto tick = std::ranges::find(branched.ticks, x, &BranchedTick::conditional);
      if (tick != branched.ticks.end()) return tick - branched.ticks.begin();
    }
    return -1;
  };
  const int64_t here = first_that_needs();
  if (here >= 0) return here - producer - 1;
  // In the next trip: by what is carried there.
  std::unordered_set<int64_t> carried;
  const Instruction* root = body.root();
  for (int64_t i = 0; i < root->operand_count(); ++i) {
    if (needing.contains(root->operand(i))) carried.insert(i);
  }
  needing.clear();
  for (const Instruction* x : body.instructions()) {
    if (x->opcode() == Opcode::kGetTupleElement && x->operand(0) == body.parameter(0) &&
        carried.contains(x->attributes<GetTupleElementAttributes>().index)) {
      needing.insert(x);
    }
  }
  const int64_t next = first_that_needs();
  return next < 0 ? 0 : std::ssize(branched.ticks) - producer - 1 + next;
}

// Who waits for whom after each conditional: by the collectives before the next one.
void FindExchanges(BranchedLoop& branched) {
  std::map<int64_t, size_t> group_of;
  for (size_t k = 0; k < branched.values.groups.size(); ++k) {
    for (int64_t device : branched.values.groups[k]) group_of[device] = k;
  }
  size_t next = 0;
  for (const Instruction* x : branched.loop->called(1)->instructions()) {
    if (next < branched.ticks.size() && x == branched.ticks[next].conditional) ++next;
    if (!IsCollective(x->opcode())) continue;
    BranchedTick& tick = next == 0 ? branched.ticks.back() : branched.ticks[next - 1];
    if (!IsCollectivePermute(*x)) {
      tick.all_wait = true;
      continue;
    }
    const int64_t between = TicksBetween(branched, x, static_cast<int64_t>(next) - 1);
    for (const DevicePair& pair : x->attributes<CollectiveAttributes>().source_target_pairs) {
      auto from = group_of.find(pair.source), to = group_of.find(pair.target);
      if (from == group_of.end() || to == group_of.end()) continue;
      if (from->second == to->second) continue;
      tick.exchanges.push_back({from->second, to->second, between});
    }
  }
  for (BranchedTick& each : branched.ticks) {
    std::ranges::sort(each.exchanges);
    const auto again = std::ranges::unique(each.exchanges);
    each.exchanges.erase(again.begin(), again.end());
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
    for (int64_t sent = t; sent >= 0 && sent > t - std::ssize(branched.ticks) - 1; --sent) {
      const std::vector<double>& end = branched.times[static_cast<size_t>(sent)].end;
      for (const auto& [a, b, between] : branched.TickAt(sent).exchanges) {
        if (sent + between != t) continue;
        free[a] = std::max(free[a], end[b]);
        free[b] = std::max(free[b], end[a]);
      }
    }
    times.next = free;
  }
}

// The branches of all ticks.
void AddBranches(const CostOfBranch& cost_of, BranchedLoop& branched) {
  WorkTotalsTable totals;
  for (BranchedTick& tick : branched.ticks) {
    // The tick itself, if no earlier one has the same branches.
    const auto alike = std::ranges::find_if(branched.ticks, [&](const BranchedTick& other) {
      return std::ranges::equal(other.conditional->called(), tick.conditional->called(), DoTheSame);
    });
    if (&*alike != &tick) {
      tick.branches = alike->branches;
      continue;
    }
    double most_flops = 0;
    for (const Computation* branch : tick.conditional->called()) {
      tick.branches.push_back(branched.branches.size());
      branched.branches.push_back(cost_of(*branch));
      most_flops = std::max(most_flops, totals.Of(*branched.branches.back()).flops);
    }
    for (const size_t branch : tick.branches) {
      const double flops = totals.Of(*branched.branches[branch]).flops;
      branched.is_idle.push_back(most_flops > 0 && flops == 0);
    }
  }
}

// Of the tick's conditional, in its order.
size_t SlowestIn(const BranchedLoop& branched, int64_t tick) {
  size_t slowest = 0;
  for (size_t group = 1; group < branched.values.groups.size(); ++group) {
    if (branched.SecondsAt(tick, group) > branched.SecondsAt(tick, slowest)) slowest = group;
  }
  return branched.ChoiceAt(tick, slowest);
}

// Adds one trip's tick to what is known of its conditional.
void AddTick(const BranchedLoop& branched, int64_t t, int64_t device_count, BranchMix& mix) {
  mix.slowest = SlowestIn(branched, t);
  mix.shares.resize(branched.TickAt(t).branches.size());
  const TickTimes& times = branched.times[static_cast<size_t>(t)];
  for (size_t group = 0; group < branched.values.groups.size(); ++group) {
    const double share = static_cast<double>(branched.values.groups[group].size()) /
                         static_cast<double>(device_count);
    mix.seconds += share * (times.next[group] - times.start[group]);
    if (branched.is_idle[branched.BranchAt(t, group)]) continue;
    mix.shares[branched.ChoiceAt(t, group)] += share;
  }
}

}  // namespace

size_t BranchedLoop::ChoiceAt(int64_t tick, size_t group) const {
  const BranchedTick& at = TickAt(tick);
  const int64_t value = values.At(at.selector, TripOf(tick), group);
  if (at.conditional->operand(0)->shape()->dtype() == DType::kPred) return value != 0 ? 0 : 1;
  const auto count = static_cast<int64_t>(at.branches.size());
  return static_cast<size_t>(value < 0 || value >= count ? count - 1 : value);
}

double BranchedLoop::SecondsAt(int64_t tick, size_t group) const {
  return branches[BranchAt(tick, group)]->schedule.seconds;
}

std::vector<TripMix> MixesOf(BranchedLoop& branched, int64_t device_count,
                             const CostOfBranch& cost_of) {
  if (!FindTicks(device_count, branched)) return {};
  AddBranches(cost_of, branched);
  FindExchanges(branched);
  Simulate(branched);
  std::vector<TripMix> mixes;
  std::map<std::vector<size_t>, size_t> mix_of;  // by the slowest branch of each conditional
  const auto count = static_cast<int64_t>(branched.ticks.size());
  for (int64_t first = 0; first < branched.tick_count(); first += count) {
    std::vector<size_t> slowest;
    for (int64_t t = first; t < first + count; ++t) slowest.push_back(SlowestIn(branched, t));
    auto [it, is_new] = mix_of.try_emplace(slowest, mixes.size());
    if (is_new) mixes.emplace_back();
    TripMix& mix = mixes[it->second];
    ++mix.trips;
    for (int64_t t = first; t < first + count; ++t) {
      AddTick(branched, t, device_count, mix.branches[branched.TickAt(t).conditional]);
    }
  }
  for (TripMix& mix : mixes) {
    for (auto& [conditional, branch] : mix.branches) {
      branch.seconds /= mix.trips;
      for (double& share : branch.shares) share /= mix.trips;
    }
  }
  return mixes;
}

}  // namespace gshard
