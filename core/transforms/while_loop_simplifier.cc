#include "core/transforms/while_loop_simplifier.h"

#include <algorithm>
#include <unordered_set>

#include "core/transforms/loop_parts.h"
#include "core/transforms/rewriter.h"
#include "ir/op_traits.h"
#include "ir/traversal.h"

namespace gshard {
namespace {

// Side effects of instructions, those of what they call included.
class Effects {
 public:
  bool Has(const Instruction* x) {
    if (HasSideEffect(*x)) return true;
    return std::ranges::any_of(x->called(), [&](const Computation* called) { return In(called); });
  }

 private:
  bool In(const Computation* computation) {
    auto known = known_.find(computation);
    if (known != known_.end()) return known->second;
    const bool has = std::ranges::any_of(computation->instructions(),
                                         [&](const Instruction* x) { return Has(x); });
    return known_[computation] = has;
  }

  std::unordered_map<const Computation*, bool> known_;
};

// Which elements of the state are needed, given those that are read behind the loop.
class LiveElements {
 public:
  LiveElements(const LoopParts& parts, const std::vector<bool>& read_behind, Effects& effects)
      : parts_(parts), live_(static_cast<size_t>(parts.size()), false) {
    for (const Instruction* x : parts.condition->instructions()) {
      if (auto element = ElementOf(x, parts.condition_state)) Mark(*element);
    }
    for (size_t i = 0; i < read_behind.size(); ++i) {
      if (read_behind[i]) Mark(static_cast<int64_t>(i));
    }
    for (const Instruction* x : parts.body->instructions()) {
      if (effects.Has(x)) Visit(x);
    }
    while (!pending_.empty()) {
      const Instruction* x = pending_.back();
      pending_.pop_back();
      if (auto element = ElementOf(x, parts.body_state)) {
        Mark(*element);
        continue;
      }
      for (const Instruction* operand : x->operands()) Visit(operand);
      for (const Instruction* before : x->control_predecessors()) Visit(before);
    }
  }

  bool operator[](int64_t i) const { return live_[static_cast<size_t>(i)]; }
  int64_t Count() const { return std::ranges::count(live_, true); }
  // Is this instruction of the body needed for them?
  bool Needs(const Instruction* x) const {
    return x->opcode() == Opcode::kParameter || seen_.contains(x);
  }

 private:
  void Mark(int64_t element) {
    if (live_[static_cast<size_t>(element)]) return;
    live_[static_cast<size_t>(element)] = true;
    Visit(parts_.Next(element));
  }
  void Visit(const Instruction* x) {
    if (seen_.insert(x).second) pending_.push_back(x);
  }

  const LoopParts& parts_;
  std::vector<bool> live_;
  std::unordered_set<const Instruction*> seen_;
  std::vector<const Instruction*> pending_;
};

// Elements of the loop that its computation reads; all of them if it is used as a whole.
std::vector<bool> ReadBehind(const Instruction* loop) {
  std::vector<bool> read(loop->shape()->elements().size(), loop->parent()->root() == loop);
  for (const Instruction* x : loop->parent()->instructions()) {
    for (const Instruction* operand : x->operands()) {
      if (operand != loop) continue;
      if (x->opcode() != Opcode::kGetTupleElement) {
        read.assign(read.size(), true);
      } else {
        read[static_cast<size_t>(x->attributes<GetTupleElementAttributes>().index)] = true;
      }
    }
  }
  return read;
}

// Reads of a state that has lost elements.
void Renumber(Module& module, Computation* computation, Instruction* state,
              const std::vector<int64_t>& place) {
  Rewriter(module).Run(computation, [&](Instruction* x, Rewriter& rewriter) {
    auto element = ElementOf(x, state);
    if (!element || place[static_cast<size_t>(*element)] < 0) return x;
    // Not through Builder::GetTupleElement: the root may be a tuple of the old size still.
    Instruction* operands[] = {state};
    return rewriter.builder().Add(Opcode::kGetTupleElement, operands,
                                  GetTupleElementAttributes{place[static_cast<size_t>(*element)]},
                                  x->shape());
  });
}

class LoopShrinker {
 public:
  explicit LoopShrinker(Module& module) : module_(module), sites_(module) {}

  bool changed() const { return changed_; }

  Instruction* Visit(Instruction* x, Rewriter& rewriter) {
    if (x->opcode() == Opcode::kWhile) Shrink(x, rewriter.builder());
    if (x->opcode() != Opcode::kGetTupleElement) return x;
    auto places = places_.find(x->operand(0));
    if (places == places_.end()) return x;
    const int64_t place =
        places->second[static_cast<size_t>(x->attributes<GetTupleElementAttributes>().index)];
    return rewriter.builder().Add(Opcode::kGetTupleElement, x->operands(),
                                  GetTupleElementAttributes{place}, x->shape());
  }

 private:
  void Shrink(Instruction* loop, Builder& builder) {
    std::optional<LoopParts> parts = PartsOf(loop, sites_);
    if (!parts) return;
    LiveElements live(*parts, ReadBehind(loop), effects_);
    if (live.Count() == parts->size() || live.Count() == 0) return;
    changed_ = true;
    std::vector<int64_t> place;
    std::vector<Instruction*> inits, next;
    for (int64_t i = 0; i < parts->size(); ++i) {
      place.push_back(live[i] ? static_cast<int64_t>(inits.size()) : -1);
      if (!live[i]) continue;
      inits.push_back(parts->Init(builder, i));
      next.push_back(parts->Next(i));
    }
    std::vector<Instruction*> kept;
    for (Instruction* x : parts->body->instructions()) {
      if (live.Needs(x)) kept.push_back(x);
    }
    parts->body->SetInstructions(std::move(kept));
    parts->body->set_root(Builder(module_, parts->body).Tuple(next));
    SetState(*parts, builder, inits);
    Renumber(module_, parts->body, parts->body_state, place);
    Renumber(module_, parts->condition, parts->condition_state, place);
    places_[loop] = std::move(place);
  }

  Module& module_;
  CallSites sites_;
  Effects effects_;
  std::unordered_map<const Instruction*, std::vector<int64_t>> places_;
  bool changed_ = false;
};

}  // namespace

bool RemoveDeadLoopState(Module& module) {
  // Reads that nobody needs are no reads.
  const bool had_dead_code = RemoveDeadCode(module);
  LoopShrinker sweep(module);
  const bool rewritten = RewriteLoopCallers(
      module, [&](Instruction* x, Rewriter& rewriter) { return sweep.Visit(x, rewriter); });
  return had_dead_code || rewritten || sweep.changed();
}

}  // namespace gshard
