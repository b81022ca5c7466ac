#include "core/transforms/while_loop_all_reduce_code_motion.h"

#include <map>

#include "core/transforms/algebraic_simplifier.h"
#include "core/transforms/collective_groups.h"
#include "core/transforms/loop_parts.h"
#include "core/transforms/rewriter.h"

namespace gshard {
namespace {

// state[element] = sum(state[element], movements(reduce(g))).
struct Accumulation {
  int64_t element = 0;
  Instruction* sum = nullptr;
  Instruction* before = nullptr;        // the element at the start of an iteration
  std::vector<Instruction*> movements;  // last first
  Instruction* reduce = nullptr;
};

bool IsMovement(Opcode opcode) {
  return opcode == Opcode::kReshape || opcode == Opcode::kTranspose;
}

class UseCounts {
 public:
  explicit UseCounts(const Computation& computation) {
    for (const Instruction* x : computation.instructions()) {
      for (const Instruction* operand : x->operands()) ++count_[operand];
    }
  }
  bool IsOnlyUse(const Instruction* x) const {
    auto found = count_.find(x);
    return found != count_.end() && found->second == 1;
  }

 private:
  std::unordered_map<const Instruction*, int64_t> count_;
};

// Elements of the state that the computation reads, by how many instructions.
std::unordered_map<int64_t, int64_t> Reads(const Computation& computation,
                                           const Instruction* state) {
  std::unordered_map<int64_t, int64_t> reads;
  for (const Instruction* x : computation.instructions()) {
    if (auto element = ElementOf(x, state)) ++reads[*element];
  }
  return reads;
}

std::vector<Accumulation> FindAccumulations(const LoopParts& parts) {
  std::vector<Accumulation> found;
  UseCounts uses(*parts.body);
  std::unordered_map<int64_t, int64_t> reads = Reads(*parts.body, parts.body_state);
  std::unordered_map<int64_t, int64_t> tests = Reads(*parts.condition, parts.condition_state);
  for (int64_t i = 0; i < parts.size(); ++i) {
    Instruction* sum = parts.Next(i);
    if (sum->opcode() != Opcode::kAdd || !uses.IsOnlyUse(sum)) continue;
    if (reads[i] != 1 || tests[i] != 0) continue;
    for (int64_t side = 0; side < 2; ++side) {
      Accumulation a{i, sum, sum->operand(side), {}, sum->operand(1 - side)};
      if (ElementOf(a.before, parts.body_state) != i || !uses.IsOnlyUse(a.before)) continue;
      while (IsMovement(a.reduce->opcode()) && uses.IsOnlyUse(a.reduce)) {
        a.movements.push_back(a.reduce);
        a.reduce = a.reduce->operand(0);
      }
      if (!IsPlainCollective(a.reduce, Opcode::kAllReduce) || !uses.IsOnlyUse(a.reduce)) continue;
      if (ReductionOf(a.reduce) == Opcode::kAdd) found.push_back(std::move(a));
      break;
    }
  }
  return found;
}

class LoopShortener {
 public:
  explicit LoopShortener(Module& module) : module_(module), sites_(module) {}

  Instruction* Visit(Instruction* x, Rewriter& rewriter) {
    if (x->opcode() == Opcode::kWhile) Shorten(x, rewriter.builder());
    if (x->opcode() != Opcode::kGetTupleElement) return x;
    auto moved = moved_.find({x->operand(0), x->attributes<GetTupleElementAttributes>().index});
    if (moved == moved_.end()) return x;
    // The reduction that each iteration used to do, once.
    Builder& builder = rewriter.builder();
    Instruction* mine = builder.Add(Opcode::kGetTupleElement, x->operands(),
                                    GetTupleElementAttributes{moved->first.second}, x->shape());
    Instruction* sum = SameCollectiveOn(builder, moved->second.reduce, mine);
    Instruction* init = moved->second.init;
    return IsFilledWith(init, 0.0) ? sum : builder.Add(init, sum);
  }

 private:
  struct Moved {
    const Instruction* reduce;
    Instruction* init;
  };

  void Shorten(Instruction* loop, Builder& builder) {
    std::optional<LoopParts> parts = PartsOf(loop, sites_);
    if (!parts || !UsedByElement(loop)) return;
    std::vector<Accumulation> accumulations = FindAccumulations(*parts);
    if (accumulations.empty()) return;
    std::vector<Instruction*> inits;
    for (int64_t i = 0; i < parts->size(); ++i) inits.push_back(parts->Init(builder, i));
    std::unordered_map<const Instruction*, const Accumulation*> by_sum;
    for (const Accumulation& a : accumulations) {
      by_sum[a.sum] = &a;
      Instruction*& init = inits[static_cast<size_t>(a.element)];
      moved_[{loop, a.element}] = {a.reduce, init};
      init = builder.Zero(init->shape());
    }
    SetState(*parts, builder, inits);
    Rewriter(module_).Run(parts->body, [&](Instruction* x, Rewriter& rewriter) {
      auto found = by_sum.find(x);
      if (found == by_sum.end()) return x;
      const Accumulation& a = *found->second;
      Instruction* term = a.reduce->operand(0);
      for (auto it = a.movements.rbegin(); it != a.movements.rend(); ++it) {
        term = rewriter.builder().CloneWith(*it, {&term, 1}, (*it)->shape());
      }
      return rewriter.builder().Add(a.before, term);
    });
  }

  static bool UsedByElement(const Instruction* loop) {
    const Computation& computation = *loop->parent();
    if (computation.root() == loop) return false;
    for (const Instruction* x : computation.instructions()) {
      if (x->opcode() == Opcode::kGetTupleElement) continue;
      for (const Instruction* operand : x->operands()) {
        if (operand == loop) return false;
      }
    }
    return true;
  }

  Module& module_;
  CallSites sites_;
  std::map<std::pair<const Instruction*, int64_t>, Moved> moved_;
};

}  // namespace

bool MoveAllReducesOutOfLoops(Module& module) {
  LoopShortener sweep(module);
  return RewriteModule(
      module, [&](Instruction* x, Rewriter& rewriter) { return sweep.Visit(x, rewriter); });
}

}  // namespace gshard
