#include "ir/traversal.h"

#include <algorithm>

#include "ir/op_traits.h"
#include "tsl/robin_map.h"
#include "tsl/robin_set.h"

namespace gshard {
namespace {

bool MustStay(const Instruction* instruction,
              const tsl::robin_set<const Computation*>& with_side_effects) {
  if (HasSideEffect(*instruction)) return true;
  return std::any_of(instruction->called().begin(), instruction->called().end(),
                     [&](const Computation* c) { return with_side_effects.contains(c); });
}

}  // namespace

std::vector<Instruction*> PostOrder(const Computation& computation) {
  const auto instructions = computation.instructions();
  // Ids of one computation are neighbours: a window over them keeps the many small computations of
  // a large module cheap.
  uint32_t first = UINT32_MAX;
  uint32_t limit = 0;
  for (const Instruction* instruction : instructions) {
    first = std::min(first, instruction->id());
    limit = std::max(limit, instruction->id() + 1);
  }
  enum : uint8_t { kUnused, kUsed, kDone };
  std::vector<uint8_t> states(limit > first ? limit - first : 0, kUnused);
  auto state = [&](const Instruction* instruction) -> uint8_t& {
    return states[instruction->id() - first];
  };
  for (const Instruction* instruction : instructions) {
    for (const Instruction* operand : instruction->operands()) state(operand) = kUsed;
  }
  std::vector<Instruction*> order;
  order.reserve(instructions.size());
  struct Frame {
    Instruction* instruction;
    uint32_t controls;  // still to visit, last first; then the operands
    uint32_t operand;
  };
  std::vector<Frame> stack;
  auto push = [&](Instruction* instruction) {
    stack.push_back(
        {instruction, static_cast<uint32_t>(instruction->control_predecessors().size()), 0});
  };
  auto visit = [&](Instruction* start) {
    push(start);
    while (!stack.empty()) {
      Frame& frame = stack.back();
      Instruction* instruction = frame.instruction;
      Instruction* next = nullptr;  // the first that is to come before it
      while (next == nullptr && frame.controls > 0) {
        Instruction* predecessor = instruction->control_predecessors()[--frame.controls];
        if (state(predecessor) != kDone) next = predecessor;
      }
      const auto operands = instruction->operands();
      while (next == nullptr && frame.operand < operands.size()) {
        Instruction* operand = operands[frame.operand++];
        if (state(operand) != kDone) next = operand;
      }
      if (next != nullptr) {
        push(next);
        continue;
      }
      state(instruction) = kDone;
      order.push_back(instruction);
      stack.pop_back();
    }
  };
  for (Instruction* instruction : instructions) {
    if (state(instruction) == kUnused) visit(instruction);
  }
  return order;
}

std::vector<Computation*> CallPostOrder(const Module& module) {
  std::vector<Computation*> order;
  if (module.entry() == nullptr) return order;
  struct Frame {
    Computation* computation;
    size_t instruction;
    size_t call;
  };
  tsl::robin_set<const Computation*> seen;
  std::vector<Frame> stack{{module.entry(), 0, 0}};
  seen.insert(module.entry());
  while (!stack.empty()) {
    Frame& frame = stack.back();
    const auto instructions = frame.computation->instructions();
    Computation* callee = nullptr;
    while (callee == nullptr && frame.instruction < instructions.size()) {
      const auto called = instructions[frame.instruction]->called();
      if (called.empty()) {  // as most
        ++frame.instruction;
      } else if (frame.call == called.size()) {
        ++frame.instruction;
        frame.call = 0;
      } else if (Computation* next = called[frame.call++]; seen.insert(next).second) {
        callee = next;
      }
    }
    if (callee != nullptr) {
      stack.push_back({callee, 0, 0});
    } else {
      order.push_back(frame.computation);
      stack.pop_back();
    }
  }
  return order;
}

Users::Users(const Computation& computation) {
  uint32_t limit = 0;
  for (const Instruction* instruction : computation.instructions()) {
    limit = std::max(limit, instruction->id() + 1);
  }
  const Computation* one = &computation;
  Build({&one, 1}, limit);
}

Users::Users(const Module& module, const UserOrderOverride* order) {
  const std::vector<const Computation*> all(module.computations().begin(),
                                            module.computations().end());
  Build(all, module.instruction_limit());
  if (order == nullptr) return;
  for (const auto& [value, users] : *order) {
    const uint32_t begin = begin_[value->id()], end = begin + count_[value->id()];
    if (users.size() != end - begin) continue;
    std::vector<const Instruction*> listed(users.begin(), users.end());
    std::vector<const Instruction*> found(users_.begin() + begin, users_.begin() + end);
    std::ranges::sort(listed);
    std::ranges::sort(found);
    if (listed == found) std::copy(users.begin(), users.end(), users_.begin() + begin);
  }
}

void Users::Build(std::span<const Computation* const> computations, uint32_t limit) {
  begin_.assign(limit + 1, 0);
  count_.assign(limit, 0);
  const auto for_each_use = [&](auto&& use) {
    for (const Computation* computation : computations) {
      for (Instruction* user : computation->instructions()) {
        for (const Instruction* operand : user->operands()) use(operand->id(), user);
      }
    }
  };
  // Counting sort: room for every use, of which an instruction's of one value are made together.
  for_each_use([&](uint32_t operand, Instruction*) { ++begin_[operand + 1]; });
  for (size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
  users_.resize(begin_.back());
  for_each_use([&](uint32_t operand, Instruction* user) {
    const uint32_t end = begin_[operand] + count_[operand];
    if (count_[operand] > 0 && users_[end - 1] == user) return;
    users_[end] = user;
    ++count_[operand];
  });
}

namespace {

// Which instructions of a computation its root, its parameters and its side effects need. One walk
// from the end: text has operands before their users nearly always.
class LiveInstructions {
 public:
  explicit LiveInstructions(const Module& module) : states_(module.instruction_limit(), kUnseen) {}

  // Returns how many there are, and whether the computation has a side effect.
  std::pair<size_t, bool> Find(const Computation& computation,
                               const tsl::robin_set<const Computation*>& with_side_effects) {
    count_ = 0;
    bool has_side_effect = false;
    const auto instructions = computation.instructions();
    for (size_t i = instructions.size(); i-- > 0;) {
      const Instruction* x = instructions[i];
      const bool stays = MustStay(x, with_side_effects);
      has_side_effect = has_side_effect || stays;
      if (stays || x == computation.root() || x->opcode() == Opcode::kParameter) Keep(x);
      const bool is_live = Has(x);
      states_[x->id()] |= kPassed;
      if (!is_live) continue;
      KeepPredecessors(x);
      while (!passed_.empty()) {
        const Instruction* late = passed_.back();
        passed_.pop_back();
        KeepPredecessors(late);
      }
    }
    return {count_, has_side_effect};
  }
  bool Has(const Instruction* x) const { return (states_[x->id()] & kLive) != 0; }

 private:
  enum : uint8_t { kUnseen = 0, kLive = 1, kPassed = 2 };

  void Keep(const Instruction* x) {
    uint8_t& state = states_[x->id()];
    if ((state & kLive) != 0) return;
    state |= kLive;
    ++count_;
    if ((state & kPassed) != 0) passed_.push_back(x);
  }
  void KeepPredecessors(const Instruction* x) {
    for (const Instruction* operand : x->operands()) Keep(operand);
    for (const Instruction* before : x->control_predecessors()) Keep(before);
  }

  std::vector<uint8_t> states_;             // by id
  std::vector<const Instruction*> passed_;  // found live after the walk had come by
  size_t count_ = 0;
};

}  // namespace

bool RemoveDeadCode(Module& module) {
  std::vector<Computation*> reachable = CallPostOrder(module);
  bool changed = false, calls_less = false;
  tsl::robin_set<const Computation*> with_side_effects;
  LiveInstructions live(module);
  for (Computation* computation : reachable) {
    const auto [count, has_side_effect] = live.Find(*computation, with_side_effects);
    if (has_side_effect) with_side_effects.insert(computation);
    const auto instructions = computation->instructions();
    if (count == instructions.size()) continue;
    std::vector<Instruction*> kept;
    kept.reserve(count);
    for (Instruction* instruction : instructions) {
      if (live.Has(instruction)) {
        kept.push_back(instruction);
      } else {
        calls_less = calls_less || !instruction->called().empty();
      }
    }
    changed = true;
    computation->SetInstructions(std::move(kept));
  }
  if (calls_less) reachable = CallPostOrder(module);
  if (reachable.size() != module.computations().size()) {
    module.SetComputations(std::move(reachable));
    changed = true;
  }
  return changed;
}

}  // namespace gshard
