// Lives of values in one sequence of steps. See value_lives.h.

#include "core/cost/memory/value_lives.h"

#include <algorithm>
#include <numeric>

#include "ir/op_traits.h"

namespace gshard {

ValueLives::ValueLives(const Computation& root, const ComputationMemories& memories,
                       const CallCounts& calls, Memory which) {
  AddComputation(&root, memories, calls, which, 0);
  parent_.resize(next_range_);
  std::iota(parent_.begin(), parent_.end(), 0U);
  life_.resize(next_range_);
  is_carried_.assign(next_range_, false);
  is_next_.assign(next_range_, false);
  for (const ComputationSteps& steps : computations_) AddRanges(steps);
  for (const ComputationSteps& steps : computations_) {
    JoinCalls(steps);
    if (which == Memory::kSlow) JoinCopies(steps);
  }
  for (uint32_t range = 0; range < next_range_; ++range) parent_[range] = FindValue(range);
}

void ValueLives::AddComputation(const Computation* computation, const ComputationMemories& memories,
                                const CallCounts& calls, Memory which, int loops) {
  ComputationSteps& steps = computations_.emplace_back();
  places_[computation] = &steps;
  steps.memory = &memories.at(computation);
  steps.loops = loops;
  steps.liveness = &steps.memory->liveness;
  if (which == Memory::kBoth) {
    CallContext context = steps.memory->context;
    context.in_fast_memory.clear();
    context.collectives_apart = true;
    steps.liveness =
        &own_liveness_.emplace_back(ComputeLiveness(steps.graph(), steps.memory->order, context));
  }
  steps.first_range = next_range_;
  next_range_ += static_cast<uint32_t>(steps.liveness->ranges.size());
  for (uint32_t node : steps.memory->order) {
    const Instruction* x = steps.graph().nodes[node];
    steps.begin.push_back(now_);
    if (CallsWithOwnMemory(x->opcode())) {
      const bool is_loop = x->opcode() == Opcode::kWhile;
      for (const Computation* callee : x->called()) {
        if (calls.at(callee) != 1) {
          shared_calls_.push_back({now_, callee, is_loop ? 0 : NewResultBytes(steps, node)});
          continue;
        }
        if (is_loop) of_loops_.insert(callee);
        AddComputation(callee, memories, calls, which, is_loop ? loops + 1 : loops);
      }
    }
    steps.end.push_back(now_++);
  }
  steps.begin.push_back(now_);
  steps.end.push_back(now_++);
}

int64_t ValueLives::NewResultBytes(const ComputationSteps& steps, uint32_t node) {
  int64_t bytes = 0;
  for (uint32_t buffer : steps.graph().allocates[node]) {
    const LiveRange& range = steps.liveness->ranges[steps.liveness->range_of[buffer]];
    if (range.buffer == buffer) bytes += range.bytes;
  }
  return bytes;
}

bool ValueLives::IsLoop(const Instruction* x) const {
  return x->opcode() == Opcode::kWhile && places_.contains(x->called(0)) &&
         places_.contains(x->called(1));
}

void ValueLives::AddRanges(const ComputationSteps& steps) {
  for (uint32_t i = 0; i < steps.liveness->ranges.size(); ++i) {
    const LiveRange& range = steps.liveness->ranges[i];
    life_[steps.first_range + i] = {{steps.begin[range.first], steps.end[range.last]}};
  }
  if (IsOfLoop(steps.graph().computation)) return;
  for (uint32_t buffer : steps.graph().parameter_leaves) life_[steps.RangeOf(buffer)].clear();
}

void ValueLives::JoinCalls(const ComputationSteps& steps) {
  for (uint32_t step = 0; step < steps.memory->order.size(); ++step) {
    const uint32_t node = steps.memory->order[step];
    const Instruction* x = steps.graph().nodes[node];
    const StepSpan span = {steps.begin[step], steps.end[step]};
    if (IsLoop(x)) {
      JoinLoop(steps, node, span);
    } else if (CallsWithOwnMemory(x->opcode()) && x->opcode() != Opcode::kWhile) {
      JoinResults(steps, node, span);
    }
  }
}

void ValueLives::JoinLoop(const ComputationSteps& steps, uint32_t node, StepSpan loop) {
  const Instruction* x = steps.graph().nodes[node];
  const ComputationSteps &condition = *places_.at(x->called(0)), &body = *places_.at(x->called(1));
  std::vector<bool> is_carried(steps.graph().leaves[node].size(), false);
  for (uint32_t buffer : steps.graph().allocates[node])
    is_carried[steps.graph().buffers[buffer].leaf] = true;
  for (uint32_t leaf = 0; leaf < is_carried.size(); ++leaf) {
    const uint32_t outside = steps.RangeOf(steps.graph().leaves[node][leaf]);
    Join(outside, condition, leaf);
    is_carried[leaf] ? JoinCarry(outside, body, leaf, loop) : Join(outside, body, leaf);
  }
}

// What a body copies at its end, it copies to where the loop carries it.
void ValueLives::JoinCopies(const ComputationSteps& steps) {
  if (!IsOfLoop(steps.graph().computation)) return;
  for (uint32_t i = 0; i < steps.liveness->ranges.size(); ++i) {
    const LiveRange& range = steps.liveness->ranges[i];
    if (range.is_copy) Join(steps.RangeOf(range.buffer), steps.first_range + i);
  }
}

// The old value until its last use in the body, the new one from where it is made.
void ValueLives::JoinCarry(uint32_t outside, const ComputationSteps& body, uint32_t leaf,
                           StepSpan loop) {
  const uint32_t next = body.RangeOf(body.graph().root_leaves[leaf]);
  const uint32_t old = body.RangeOf(body.graph().parameter_leaves[leaf]);
  is_carried_[outside] = true;
  Join(outside, body, leaf);
  if (next != old) {
    const uint32_t made_in = body.liveness->ranges[next - body.first_range].buffer;
    const bool overlaps = life_[next][0].first <= life_[old][0].last;
    const bool is_copied = body.graph().IsParameter(made_in) || is_next_[next] ||
                           (overlaps && !body.memory->context.copies_are_explicit);
    if (is_copied) return;
    is_next_[next] = true;
  }
  // In the loop it is where the body has it.
  std::vector<StepSpan> left;
  for (const StepSpan& span : life_[outside]) {
    if (span.first < loop.first) left.push_back({span.first, std::min(span.last, loop.first - 1)});
    if (span.last >= loop.last) left.push_back({std::max(span.first, loop.last), span.last});
  }
  life_[outside] = std::move(left);
  Join(outside, next);
}

// A result of the call is alive in the callee from where that makes it.
void ValueLives::JoinResults(const ComputationSteps& steps, uint32_t node, StepSpan call) {
  const Instruction* x = steps.graph().nodes[node];
  for (uint32_t buffer : steps.graph().allocates[node]) {
    const uint32_t outside = steps.RangeOf(buffer), leaf = steps.graph().buffers[buffer].leaf;
    std::vector<StepSpan>& life = life_[outside];
    if (life.empty() || life[0].first != call.first) continue;
    bool any = false;
    for (const Computation* callee : x->called()) {
      const auto place = places_.find(callee);
      if (place == places_.end()) continue;
      const ComputationSteps& inner = *place->second;
      if (leaf >= inner.graph().root_leaves.size()) continue;
      const uint32_t result = inner.RangeOf(inner.graph().root_leaves[leaf]);
      if (inner.graph().IsParameter(inner.liveness->ranges[result - inner.first_range].buffer)) {
        continue;
      }
      any = true;
      Join(outside, result);
    }
    if (any) life[0].first = call.last;
  }
}

// What a computation gets as this leaf is at the same place within it.
void ValueLives::Join(uint32_t outside, const ComputationSteps& callee, uint32_t leaf) {
  Join(outside, callee.RangeOf(callee.graph().parameter_leaves[leaf]));
}

void ValueLives::Join(uint32_t a, uint32_t b) { parent_[FindValue(b)] = FindValue(a); }

uint32_t ValueLives::FindValue(uint32_t range) {
  while (parent_[range] != range) range = parent_[range] = parent_[parent_[range]];
  return range;
}

}  // namespace gshard
