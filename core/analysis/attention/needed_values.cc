#include "core/analysis/attention/needed_values.h"

#include <algorithm>
#include <ranges>

#include "ir/op_traits.h"

namespace gshard {
namespace {

// Collectives may not go on one device alone.
bool HasEffect(const Instruction* x) { return HasSideEffect(*x) || IsCollective(x->opcode()); }

}  // namespace

NeededValues::NeededValues(const Module& module, const Changes& changes) : changes_(changes) {
  begin_.resize(module.instruction_limit());
  is_visited_.resize(module.instruction_limit());
  size_t count = 0;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      begin_[x->id()] = count;
      count += static_cast<size_t>(ElementsOf(x));
      if (x->opcode() != Opcode::kWhile && x->opcode() != Opcode::kConditional) continue;
      for (const Computation* called : x->called()) callers_of_.emplace(called, x);
    }
  }
  states_.resize(count);
  has_also_needed_.resize(module.instruction_limit());
  for (const auto& [user, value] : changes.also_needed) has_also_needed_[user->id()] = true;
  Need(module.entry()->root(), kAll);
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (HasEffect(x)) Need(x, kAll);
    }
  }
  VisitPending();
  // What the changes leave out of all that is needed, and what else that needs.
  reached_ = State::kLeftOut;
  const std::vector<const Instruction*> left_out = std::move(left_out_);
  for (const Instruction* x : left_out) Need(x, kAll);
  VisitPending();
  // Callers come behind what they call.
  if (left_out.empty()) return;
  for (const Computation* computation : std::views::reverse(module.computations())) {
    if (callers_of_.contains(computation)) LeaveOutParameter(*computation);
  }
}

void NeededValues::LeaveOutParameter(const Computation& computation) {
  const Instruction* parameter = computation.parameter(0);
  const auto [from, to] = callers_of_.equal_range(&computation);
  const auto leaves_out = [&](const Instruction* caller, int64_t element) {
    if (caller->opcode() == Opcode::kWhile) return IsLeftOut(caller, element);
    for (size_t branch = 0; branch < caller->called().size(); ++branch) {
      const bool is_here = caller->called()[branch] == &computation;
      if (is_here && !IsLeftOut(caller->operand(static_cast<int64_t>(branch) + 1), element))
        return false;
    }
    return true;
  };
  for (int64_t i = 0; i < ElementsOf(parameter); ++i) {
    State& state = states_[begin_[parameter->id()] + static_cast<size_t>(i)];
    if (state != State::kUnknown) continue;
    const bool is_left_out =
        std::all_of(from, to, [&](const auto& caller) { return leaves_out(caller.second, i); });
    if (is_left_out) state = State::kLeftOut;
  }
}

void NeededValues::VisitPending() {
  while (!pending_.empty()) {
    auto [x, element] = pending_.back();
    pending_.pop_back();
    Visit(x, element);
  }
}

void NeededValues::Need(const Instruction* x, int64_t element) {
  if (!x->shape()->IsTuple()) {
    State& state = states_[begin_[x->id()]];
    if (state != State::kUnknown) return;
    state = reached_;
    pending_.emplace_back(x, 0);
    return;
  }
  const int64_t count = ElementsOf(x);
  const bool is_one = element != kAll && element < count;
  if (count == 0 && !is_visited_[x->id()]) VisitOnce(x);
  for (int64_t i = is_one ? element : 0; i < (is_one ? element + 1 : count); ++i) {
    const size_t at = begin_[x->id()] + static_cast<size_t>(i);
    if (states_[at] != State::kUnknown) continue;
    states_[at] = reached_;
    pending_.emplace_back(x, i);
  }
}

void NeededValues::VisitOnce(const Instruction* x) {
  is_visited_[x->id()] = true;
  for (const Instruction* before : x->control_predecessors()) Need(before, kAll);
  if (has_also_needed_[x->id()]) {
    auto [from, to] = changes_.also_needed.equal_range(x);
    for (auto it = from; it != to; ++it) Need(it->second, kAll);
  }
  if (x->opcode() == Opcode::kWhile) {
    Need(x->called(0)->root(), kAll);
    return;
  }
  if (x->opcode() == Opcode::kConditional) return Need(x->operand(0), kAll);
  for (const Computation* called : x->called()) Need(called->root(), kAll);
}

void NeededValues::NeedOfCaller(const Instruction* caller, const Computation* called,
                                int64_t element) {
  if (caller->opcode() == Opcode::kWhile) return Need(caller, element);
  for (size_t branch = 0; branch < caller->called().size(); ++branch) {
    if (caller->called()[branch] != called) continue;
    Need(caller->operand(static_cast<int64_t>(branch) + 1), element);
  }
}

void NeededValues::Visit(const Instruction* x, int64_t element) {
  const bool is_first = !is_visited_[x->id()];
  if (is_first) VisitOnce(x);
  switch (x->opcode()) {
    case Opcode::kTuple:
      return Need(x->operand(element), kAll);
    case Opcode::kGetTupleElement:
      return Need(x->operand(0), x->attributes<GetTupleElementAttributes>().index);
    case Opcode::kOptBarrier:
      return Need(x->operand(0), element);
    case Opcode::kWhile:
      Need(x->operand(0), element);
      return Need(x->called(1)->root(), element);
    case Opcode::kConditional:
      for (const Computation* branch : x->called()) Need(branch->root(), element);
      return;
    case Opcode::kParameter: {
      auto [from, to] = callers_of_.equal_range(x->parent());
      for (auto it = from; it != to; ++it) NeedOfCaller(it->second, x->parent(), element);
      return;
    }
    default:  // all of its operands, in VisitOnce
      break;
  }
  if (!is_first) return;
  for (const Instruction* operand : x->operands()) {
    if (reached_ == State::kNeeded && changes_.is_unneeded(x, operand)) {
      left_out_.push_back(operand);
    } else {
      Need(operand, kAll);
    }
  }
}

}  // namespace gshard
