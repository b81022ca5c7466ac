// Recomputation behind the peak. See recomputation.h.

#include "core/remat/recomputation.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <unordered_set>

#include "core/cost/op_cost.h"
#include "ir/builder.h"
#include "ir/custom_call.h"
#include "ir/op_traits.h"
#include "ir/traversal.h"

namespace gshard {
namespace {

// A value that needs more than so many instructions is kept.
constexpr size_t kMaxClosure = 256;
// FLOPs that take as long as moving a byte, roughly: of today's chips with matrix units.
constexpr double kFlopsPerByte = 100;

bool MayRepeat(const Instruction* x) {
  const Opcode opcode = x->opcode();
  if (!x->shape()->IsArray() || !MayBeRepeated(*x)) return false;
  if (opcode == Opcode::kCustomCall) return IsCustomCallTo(*x, kShardingTarget);
  const bool is_loop_or_call = IsControlFlow(opcode) && opcode != Opcode::kFusion;
  // Updates are in place the first time, copies the second; elements are names.
  return !is_loop_or_call && opcode != Opcode::kDynamicUpdateSlice &&
         opcode != Opcode::kGetTupleElement;
}

double RepeatCost(const Instruction* x) {
  return static_cast<double>(x->shape()->byte_size()) + CostOf(*x).flops / kFlopsPerByte;
}

}  // namespace

Recomputation::Recomputation(Module& module, const ComputationMemory& memory)
    : module_(module),
      memory_(memory),
      graph_(memory.graph),
      computation_(const_cast<Computation*>(memory.graph.computation)),
      peak_(memory.liveness.peak_step) {
  size_t buffers = graph_.buffers.size();
  step_of_.resize(graph_.nodes.size());
  defined_.assign(buffers, 0);
  last_use_.assign(buffers, 0);
  last_early_use_.assign(buffers, 0);
  first_late_use_.assign(buffers, kNone);
  for (auto* flags : {&read_at_peak_, &is_result_, &dropped_, &needed_, &pinned_, &is_in_tuple_})
    flags->assign(buffers, false);
  for (uint32_t step = 0; step < memory.order.size(); ++step) {
    uint32_t node = memory.order[step];
    step_of_[node] = step;
    node_of_[graph_.nodes[node]] = node;
    for (uint32_t buffer : graph_.allocates[node]) {
      defined_[buffer] = last_use_[buffer] = step;
      last_early_use_[buffer] = std::min(step, peak_);
    }
    for (uint32_t buffer : graph_.reads[node]) {
      last_use_[buffer] = step;
      if (step < peak_) last_early_use_[buffer] = step;
      if (step == peak_) read_at_peak_[buffer] = true;
      if (step > peak_ && first_late_use_[buffer] == kNone && !IsRepeatedRenaming(node))
        first_late_use_[buffer] = step;
    }
  }
  for (uint32_t node = 0; node < graph_.nodes.size(); ++node) {
    if (step_of_[node] > peak_ || MayRepeat(graph_.nodes[node])) continue;
    for (uint32_t buffer : graph_.leaves[node]) is_in_tuple_[buffer] = true;
  }
  for (uint32_t buffer : graph_.root_leaves) is_result_[buffer] = true;
  for (size_t i = 0; i < graph_.parameter_leaves.size(); ++i) {
    if (memory.context.parameters[i] != Ownership::kOwned)
      pinned_[graph_.parameter_leaves[i]] = true;
  }
}

bool Recomputation::IsRepeatedRenaming(uint32_t node) const {
  return graph_.allocates[node].empty() && MayRepeat(graph_.nodes[node]);
}

uint32_t Recomputation::NodeOf(const Instruction* x) const {
  auto found = node_of_.find(x);
  return found == node_of_.end() ? kNone : found->second;
}

bool Recomputation::IsHeldOverPeak(uint32_t buffer) const {
  return IsIdleAtPeak(buffer) && !is_in_tuple_[buffer] && MayRepeat(graph_.buffers[buffer].owner);
}

bool Recomputation::IsIdleAtPeak(uint32_t buffer) const {
  return defined_[buffer] < peak_ && !read_at_peak_[buffer] && !is_result_[buffer] &&
         first_late_use_[buffer] != kNone;
}

bool Recomputation::IsAvailable(const Instruction* x, uint32_t step) const {
  if (x->opcode() == Opcode::kConstant) return true;
  uint32_t node = NodeOf(x);
  if (node == kNone) {
    return std::all_of(x->operands().begin(), x->operands().end(),
                       [&](const Instruction* operand) { return IsAvailable(operand, step); });
  }
  std::span<const uint32_t> leaves = graph_.leaves[node];
  return std::all_of(leaves.begin(), leaves.end(), [&](uint32_t buffer) {
    return !dropped_[buffer] &&
           (pinned_[buffer] || is_result_[buffer] || last_use_[buffer] >= step);
  });
}

std::optional<Recomputation::Closure> Recomputation::ClosureOf(const Instruction* x,
                                                               uint32_t step) const {
  Closure closure;
  std::unordered_set<const Instruction*> seen;
  std::vector<const Instruction*> pending = {x};
  while (!pending.empty()) {
    const Instruction* value = pending.back();
    pending.pop_back();
    if (!seen.insert(value).second) continue;
    if (IsAvailable(value, step)) {
      AppendInputs(value, closure.inputs);
      continue;
    }
    if (!MayRepeat(value) || seen.size() > kMaxClosure) return std::nullopt;
    closure.clones.push_back(value);
    // What another drop computes again anyway costs nothing more.
    uint32_t node = NodeOf(value);
    bool is_shared = node != kNone && !graph_.leaves[node].empty() &&
                     dropped_[graph_.leaves[node][0]] && value != x;
    if (!is_shared) closure.cost += RepeatCost(value);
    pending.insert(pending.end(), value->operands().begin(), value->operands().end());
  }
  return closure;
}

// The buffers that an available value is read from.
void Recomputation::AppendInputs(const Instruction* x, std::vector<uint32_t>& inputs) const {
  uint32_t node = NodeOf(x);
  if (node != kNone) {
    std::span<const uint32_t> leaves = graph_.leaves[node];
    inputs.insert(inputs.end(), leaves.begin(), leaves.end());
    return;
  }
  for (const Instruction* operand : x->operands()) AppendInputs(operand, inputs);
}

std::optional<double> Recomputation::CostOf(uint32_t buffer) {
  if (dropped_[buffer] || needed_[buffer]) return std::nullopt;
  dropped_[buffer] = true;
  std::optional<Closure> closure = ClosureOf(graph_.buffers[buffer].owner, first_late_use_[buffer]);
  dropped_[buffer] = false;
  if (!closure) return std::nullopt;
  return closure->cost;
}

bool Recomputation::Drop(uint32_t buffer) {
  if (dropped_[buffer] || needed_[buffer]) return false;
  dropped_[buffer] = true;
  std::optional<Closure> closure = ClosureOf(graph_.buffers[buffer].owner, first_late_use_[buffer]);
  if (!closure) {
    dropped_[buffer] = false;
    return false;
  }
  for (uint32_t input : closure->inputs) needed_[input] = true;
  return true;
}

std::vector<const Instruction*> Recomputation::Apply() {
  FindLateParts();
  for (uint32_t step = peak_ + 1; step < memory_.order.size(); ++step) {
    uint32_t node = memory_.order[step];
    std::span<const uint32_t> reads = graph_.reads[node];
    bool is_affected =
        std::any_of(reads.begin(), reads.end(), [&](uint32_t buffer) { return dropped_[buffer]; });
    if (!is_affected || IsRepeatedRenaming(node)) continue;
    auto* x = const_cast<Instruction*>(graph_.nodes[node]);
    for (int64_t i = 0; i < x->operand_count(); ++i) {
      if (DependsOnDropped(x->operand(i))) x->set_operand(i, Late(x->operand(i), step));
    }
    AddBarrier(step);
    late_[x] = x;  // a tuple of such values is good from here on
  }
  Reorder();
  return std::move(added_);
}

bool Recomputation::DependsOnDropped(const Instruction* x) const {
  uint32_t node = NodeOf(x);
  if (node == kNone) {
    return std::any_of(x->operands().begin(), x->operands().end(),
                       [&](const Instruction* operand) { return DependsOnDropped(operand); });
  }
  std::span<const uint32_t> leaves = graph_.leaves[node];
  return std::any_of(leaves.begin(), leaves.end(),
                     [&](uint32_t buffer) { return dropped_[buffer]; });
}

// What is computed on the fly by kernels behind the peak alone.
void Recomputation::FindLateParts() {
  const Users users(*computation_);
  const auto runs_late = [&](const Instruction* x) {
    const uint32_t node = NodeOf(x);
    return node == kNone ? late_parts_.contains(x) : step_of_[node] > peak_;
  };
  const std::vector<Instruction*> order = PostOrder(*computation_);
  for (const Instruction* x : order | std::views::reverse) {
    const auto& readers = users.of(x);
    if (NodeOf(x) == kNone && !readers.empty() && std::ranges::all_of(readers, runs_late)) {
      late_parts_.insert(x);
    }
  }
}

// What stands for `x` at a step behind the peak.
Instruction* Recomputation::Late(Instruction* x, uint32_t step) {
  if (auto found = late_.find(x); found != late_.end()) return found->second;
  const bool is_late_part = late_parts_.contains(x);
  if (IsAvailable(x, step)) {
    // What others compute on the fly would be an array behind the clones' barrier.
    const bool is_array = NodeOf(x) != kNone || x->opcode() == Opcode::kConstant;
    if (is_array || is_late_part || !MayRepeat(x)) return x;
  } else if (is_late_part) {
    for (int64_t i = 0; i < x->operand_count(); ++i) x->set_operand(i, Late(x->operand(i), step));
    return late_[x] = x;
  }
  CheckInternal(MayRepeat(x), "a value that cannot be computed again was dropped");
  std::vector<Instruction*> operands;
  for (Instruction* operand : x->operands()) operands.push_back(Late(operand, step));
  Instruction* clone = module_.Clone(computation_, x, operands,
                                     module_.UniqueName(fmt::format("{}.remat", x->name())));
  new_clones_.push_back(clone);
  added_.push_back(clone);
  is_clone_.insert(clone);
  return late_[x] = clone;
}

// Of a node about to run: the value of an operand that is computed behind the peak.
Instruction* Recomputation::FindTrigger(uint32_t step) const {
  auto is_trigger = [&](uint32_t buffer) {
    const Instruction* owner = graph_.buffers[buffer].owner;
    return defined_[buffer] > peak_ && defined_[buffer] < step && !dropped_[buffer] &&
           owner->shape()->IsArray();
  };
  uint32_t best = kNone;
  auto consider = [&](uint32_t buffer) {
    if (!is_trigger(buffer)) return;
    if (best == kNone || graph_.buffers[buffer].bytes < graph_.buffers[best].bytes) best = buffer;
  };
  for (uint32_t buffer : graph_.reads[memory_.order[step]]) consider(buffer);
  // Else the last value before it that is alive still.
  for (uint32_t before = step; best == kNone && --before > peak_;) {
    for (uint32_t buffer : graph_.allocates[memory_.order[before]])
      if (last_use_[buffer] >= step) consider(buffer);
  }
  return best == kNone ? nullptr : const_cast<Instruction*>(graph_.buffers[best].owner);
}

// The new clones read their inputs through a barrier that waits for the trigger.
void Recomputation::AddBarrier(uint32_t step) {
  std::vector<Instruction*> inputs;
  std::unordered_map<const Instruction*, size_t> index;
  for (Instruction* clone : new_clones_) {
    for (Instruction* operand : clone->operands()) {
      bool is_input = !is_clone_.contains(operand) && operand->opcode() != Opcode::kConstant &&
                      operand->shape()->IsArray();
      if (is_input && index.try_emplace(operand, inputs.size()).second) inputs.push_back(operand);
    }
  }
  if (!inputs.empty()) {
    Instruction* trigger = FindTrigger(step);
    if (trigger != nullptr && !index.contains(trigger)) inputs.push_back(trigger);
    Builder builder(module_, computation_);
    builder.set_origin(new_clones_[0]);
    std::vector<const Shape*> shapes;
    for (Instruction* input : inputs) shapes.push_back(input->shape());
    const Shape* shape = module_.context().Tuple(shapes);
    Instruction* tuple = builder.Add(Opcode::kTuple, inputs, NoAttributes{}, shape);
    Instruction* barrier = builder.Add(Opcode::kOptBarrier, {tuple}, shape);
    std::vector<Instruction*> elements(inputs.size(), nullptr);
    for (Instruction* clone : new_clones_) {
      for (int64_t i = 0; i < clone->operand_count(); ++i) {
        auto found = index.find(clone->operand(i));
        if (found == index.end()) continue;
        Instruction*& element = elements[found->second];
        if (element == nullptr) {
          GetTupleElementAttributes attributes{static_cast<int64_t>(found->second)};
          Instruction* operands[] = {barrier};
          element = builder.Add(Opcode::kGetTupleElement, operands, attributes,
                                inputs[found->second]->shape());
          element->set_sharding(inputs[found->second]->sharding());
        }
        clone->set_operand(i, element);
      }
    }
  }
  new_clones_.clear();
}

// The list in the order of the schedule, parts of kernels and clones where they are needed first.
void Recomputation::Reorder() {
  std::vector<Instruction*> list;
  std::unordered_set<const Instruction*> done;
  struct Frame {
    Instruction* x;
    size_t next;
  };
  std::vector<Frame> stack;
  for (uint32_t node : memory_.order) {
    stack.push_back({const_cast<Instruction*>(graph_.nodes[node]), 0});
    while (!stack.empty()) {
      Frame& frame = stack.back();
      Instruction* x = frame.x;
      std::span<Instruction*const> operands = x->operands(), before = x->control_predecessors();
      if (done.contains(x)) {
        stack.pop_back();
      } else if (frame.next < operands.size()) {
        Instruction* operand = operands[frame.next++];
        if (!done.contains(operand)) stack.push_back({operand, 0});
      } else if (frame.next < operands.size() + before.size()) {
        Instruction* predecessor = before[frame.next++ - operands.size()];
        if (!done.contains(predecessor)) stack.push_back({predecessor, 0});
      } else {
        done.insert(x);
        list.push_back(x);
        stack.pop_back();
      }
    }
  }
  computation_->SetInstructions(std::move(list));
}

}  // namespace gshard
