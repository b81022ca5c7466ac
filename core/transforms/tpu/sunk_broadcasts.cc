#include "core/transforms/tpu/sunk_broadcasts.h"

#include <map>
#include <optional>
#include <vector>

#include "core/transforms/loop_parts.h"
#include "core/transforms/rewriter.h"

namespace gshard {
namespace {

bool EnlargesOperand(const Instruction* x) {
  return x->opcode() == Opcode::kBroadcast &&
         x->operand(0)->shape()->element_count() < x->shape()->element_count();
}

class BroadcastSinker {
 public:
  explicit BroadcastSinker(Module& module) : module_(module), sites_(module) {}

  bool changed() const { return !sunk_.empty(); }

  Instruction* Visit(Instruction* x, Rewriter& rewriter) {
    if (x->opcode() == Opcode::kWhile) Sink(x, rewriter.builder());
    if (x->opcode() != Opcode::kGetTupleElement) return x;
    auto of_loop = sunk_.find(x->operand(0));
    if (of_loop == sunk_.end()) return x;
    auto broadcast = of_loop->second.find(x->attributes<GetTupleElementAttributes>().index);
    return broadcast == of_loop->second.end() ? x : broadcast->second;
  }

 private:
  using Broadcasts = std::map<int64_t, Instruction*>;  // by element of the state

  void Sink(Instruction* loop, Builder& builder) {
    std::optional<LoopParts> parts = PartsOf(loop, sites_);
    if (!parts || !IsReadByElement(loop)) return;
    Broadcasts broadcasts;
    std::vector<Instruction*> inits;
    for (int64_t i = 0; i < parts->size(); ++i) {
      Instruction* init = parts->Init(builder, i);
      const bool is_given = ElementOf(parts->Next(i), parts->body_state) == i;
      if (is_given && EnlargesOperand(init)) broadcasts[i] = init;
      inits.push_back(broadcasts.contains(i) ? init->operand(0) : init);
    }
    if (broadcasts.empty()) return;
    SetState(*parts, builder, inits);
    Repeat(parts->condition, parts->condition_state, broadcasts);
    Repeat(parts->body, parts->body_state, broadcasts);
    Builder body(module_, parts->body);
    std::vector<Instruction*> next;
    for (int64_t i = 0; i < parts->size(); ++i) {
      next.push_back(broadcasts.contains(i) ? body.GetTupleElement(parts->body_state, i)
                                            : parts->Next(i));
    }
    parts->body->set_root(body.Tuple(next));
    sunk_[loop] = std::move(broadcasts);
  }

  // Makes the broadcasts of what the state has now.
  void Repeat(Computation* computation, Instruction* state, const Broadcasts& broadcasts) {
    Rewriter(module_).Run(computation, [&](Instruction* x, Rewriter& rewriter) {
      const std::optional<int64_t> element = ElementOf(x, state);
      auto found = element ? broadcasts.find(*element) : broadcasts.end();
      if (found == broadcasts.end()) return x;
      Builder& builder = rewriter.builder();
      Instruction* small[] = {builder.GetTupleElement(state, *element)};
      return builder.CloneWith(found->second, small, x->shape());
    });
  }

  Module& module_;
  CallSites sites_;
  std::map<const Instruction*, Broadcasts> sunk_;
};

}  // namespace

bool SinkBroadcasts(Module& module) {
  bool changed = false;
  // Computations come before their callers: an inner loop is given what the next round sinks.
  for (bool has_sunk = true; has_sunk;) {
    BroadcastSinker sinker(module);
    RewriteLoopCallers(
        module, [&](Instruction* x, Rewriter& rewriter) { return sinker.Visit(x, rewriter); });
    changed |= has_sunk = sinker.changed();
  }
  return changed;
}

}  // namespace gshard
