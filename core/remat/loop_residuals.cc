// See loop_residuals.h.

#include "core/remat/loop_residuals.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "core/analysis/integer_value.h"
#include "core/analysis/loop_scalars.h"
#include "core/analysis/trip_count.h"
#include "core/cost/op_cost.h"
#include "core/transforms/cse.h"
#include "core/transforms/loop_parts.h"
#include "core/transforms/rewriter.h"
#include "core/transforms/while_loop_simplifier.h"
#include "ir/custom_call.h"
#include "ir/dims.h"
#include "ir/op_traits.h"
#include "ir/traversal.h"

namespace gshard {
namespace {

// A stack that `forward` fills and `backward` reads.
struct Residual {
  int64_t forward = 0, backward = 0;  // elements of the states
  Instruction* row = nullptr;         // of the forward body, [1, ..]: what trip i stores in row i
  std::vector<Instruction*> reads;    // dynamic-slices of the backward body: row i in its trip
  double flops = 0, bytes = 0;        // of one row, the other stacks kept
  bool is_dropped = false;
};

struct LoopPair {
  LoopParts forward, backward;
  LoopCounter counter;        // of the forward loop
  std::vector<int64_t> rows;  // that the backward loop reads, by trip
  std::vector<Residual> residuals;
};

// May be computed twice, cheaply.
bool IsPure(const Instruction* x) {
  if (IsCustomCallTo(*x, kShardingTarget)) return true;  // an annotation
  return x->shape()->IsArray() && x->opcode() != Opcode::kCustomCall &&
         !IsControlFlow(x->opcode()) && MayBeRepeated(*x);
}

// Renamings of a row's value: [1, 4] of [4].
const Instruction* BehindReshapes(const Instruction* x) {
  while (x->opcode() == Opcode::kReshape || x->opcode() == Opcode::kBitcast) x = x->operand(0);
  return x;
}

// The trips' values of a scalar, the same on all devices; empty where they are not known.
std::vector<int64_t> ValuesOf(const Instruction& loop, const Instruction* scalar) {
  const Instruction* const scalars[] = {scalar};
  std::optional<LoopScalars> values = EvaluateInLoop(loop, scalars, 1);
  std::vector<int64_t> list;
  for (int64_t trip = 0; values && trip < values->trips; ++trip) {
    list.push_back(values->At(0, trip, 0));
  }
  return list;
}

// Indices but the first are zero.
bool StartsAtRow(const Instruction* x, int64_t first_index) {
  for (int64_t i = first_index + 1; i < x->operand_count(); ++i) {
    if (ConstantScalar(x->operand(i)) != 0) return false;
  }
  return true;
}

// What is computed again for a row: the forward body's instructions, operands first.
class Closure {
 public:
  explicit Closure(const LoopPair& pair) : pair_(pair) {
    for (const Residual& residual : pair.residuals) {
      if (!residual.is_dropped) kept_.insert(BehindReshapes(residual.row));
    }
  }

  // False where x depends on what the backward body does not know. `own`: a stack that is not read.
  bool Visit(const Instruction* x, const Instruction* own) {
    if (seen_.contains(x)) return true;
    if (const auto element = ElementOf(x, pair_.forward.body_state)) {
      const bool is_invariant =
          ElementOf(pair_.forward.Next(*element), pair_.forward.body_state) == element;
      if (!is_invariant && *element != pair_.counter.element && !IsKept(x, own)) return false;
      seen_.insert(x);
      return true;
    }
    if (IsKept(x, own)) {
      seen_.insert(x);
      return true;
    }
    if (!IsPure(x)) return false;
    for (const Instruction* operand : x->operands()) {
      if (!Visit(operand, own)) return false;
    }
    seen_.insert(x);
    flops_ += CostOf(*x).flops + 8 * CostOf(*x).transcendentals;
    return true;
  }
  double flops() const { return flops_; }

 private:
  bool IsKept(const Instruction* x, const Instruction* own) const {
    return x != own && kept_.contains(x);
  }

  const LoopPair& pair_;
  std::unordered_set<const Instruction*> kept_, seen_;
  double flops_ = 0;
};

class PairFinder {
 public:
  explicit PairFinder(Module& module) : module_(module), users_(module), sites_(module) {}

  std::vector<LoopPair> Run() {
    std::vector<LoopPair> pairs;
    for (Computation* computation : module_.computations()) {
      for (Instruction* loop : computation->instructions()) {
        if (loop->opcode() != Opcode::kWhile) continue;
        for (Instruction* source : SourcesOf(loop)) {
          if (auto pair = Pair(source, loop)) pairs.push_back(std::move(*pair));
        }
      }
    }
    return pairs;
  }

 private:
  // Loops whose results `loop` begins with.
  static std::vector<Instruction*> SourcesOf(const Instruction* loop) {
    std::vector<Instruction*> sources;
    const Instruction* init = loop->operand(0);
    if (init->opcode() != Opcode::kTuple) return sources;
    for (Instruction* x : init->operands()) {
      if (x->opcode() != Opcode::kGetTupleElement) continue;
      Instruction* source = x->operand(0);
      const bool is_known = std::ranges::find(sources, source) != sources.end();
      if (source->opcode() == Opcode::kWhile && !is_known) sources.push_back(source);
    }
    return sources;
  }

  std::optional<LoopPair> Pair(Instruction* source, Instruction* loop) {
    auto forward = PartsOf(source, sites_), backward = PartsOf(loop, sites_);
    auto counter = CounterOf(*source);
    if (!forward || !backward || !counter) return std::nullopt;
    if (source->operand(0)->opcode() != Opcode::kTuple) return std::nullopt;
    LoopPair pair{*forward, *backward, *counter, {}, {}};
    const Instruction* init = loop->operand(0);
    for (int64_t j = 0; j < backward->size(); ++j) {
      auto k = ElementOf(init->operand(j), source);
      if (!k || users_.of(init->operand(j)).size() != 1 || ReadsOf(source, *k) != 1) continue;
      Residual residual;
      residual.forward = *k;
      residual.backward = j;
      if (IsFilled(pair, residual) && IsReadByRow(pair, residual)) {
        pair.residuals.push_back(std::move(residual));
      }
    }
    Estimate(pair);
    return pair.residuals.empty() ? std::nullopt : std::optional(std::move(pair));
  }

  int64_t ReadsOf(const Instruction* loop, int64_t element) const {
    return std::ranges::count_if(
        users_.of(loop), [&](const Instruction* x) { return ElementOf(x, loop) == element; });
  }

  // Trip i of the forward loop stores row i, for every row, and nobody reads the stack there.
  bool IsFilled(const LoopPair& pair, Residual& residual) {
    Instruction* update = pair.forward.Next(residual.forward);
    if (update->opcode() != Opcode::kDynamicUpdateSlice) return false;
    const Instruction* stack = update->operand(0);
    if (ElementOf(stack, pair.forward.body_state) != residual.forward) return false;
    if (users_.of(stack).size() != 1 || users_.of(update).size() != 1) return false;
    residual.row = update->operand(1);
    if (!IsRowOf(residual.row->shape(), stack->shape()) || !StartsAtRow(update, 2)) return false;
    const std::vector<int64_t> rows = ValuesOf(*pair.forward.loop, update->operand(2));
    if (static_cast<int64_t>(rows.size()) != stack->shape()->dim(0)) return false;
    for (size_t trip = 0; trip < rows.size(); ++trip) {
      const int64_t i = pair.counter.start + static_cast<int64_t>(trip) * pair.counter.step;
      if (rows[trip] != i || i < 0 || i >= stack->shape()->dim(0)) return false;
    }
    return true;
  }

  // The backward loop carries it unchanged and reads whole rows that exist.
  bool IsReadByRow(LoopPair& pair, Residual& residual) {
    const LoopParts& loop = pair.backward;
    if (ElementOf(loop.Next(residual.backward), loop.body_state) != residual.backward) return false;
    if (ReadsOf(loop.loop, residual.backward) != 0) return false;
    for (Instruction* x : loop.condition->instructions()) {
      if (ElementOf(x, loop.condition_state) == residual.backward) return false;
    }
    for (Instruction* x : loop.body->instructions()) {
      if (ElementOf(x, loop.body_state) != residual.backward) continue;
      for (Instruction* user : users_.of(x)) {
        if (user == loop.body->root()) continue;
        if (user->opcode() != Opcode::kDynamicSlice || user->operand(0) != x) return false;
        if (!IsRowOf(user->shape(), x->shape()) || !StartsAtRow(user, 1)) return false;
        const std::vector<int64_t> rows = ValuesOf(*loop.loop, user->operand(1));
        const int64_t last = x->shape()->dim(0) - 1;
        const bool exist =
            std::ranges::all_of(rows, [&](int64_t i) { return i >= 0 && i <= last; });
        if (rows.empty() || !exist) return false;
        if (pair.rows.empty()) pair.rows = rows;
        if (pair.rows != rows) return false;
        residual.reads.push_back(user);
      }
    }
    return !residual.reads.empty();
  }

  // Leaves those that can be computed again.
  static void Estimate(LoopPair& pair) {
    for (Residual& residual : pair.residuals) {
      Closure closure(pair);
      const Instruction* value = BehindReshapes(residual.row);
      residual.flops = closure.Visit(value, value) ? closure.flops() : -1;
      residual.bytes = static_cast<double>(residual.row->shape()->byte_size());
    }
  }

  Module& module_;
  Users users_;
  CallSites sites_;
};

// Rewrites one pair's backward loop.
class RowWriter {
 public:
  RowWriter(Module& module, LoopPair& pair, DroppedResiduals& dropped)
      : module_(module), pair_(pair), backward_(pair.backward), dropped_(dropped) {
    for (const Residual& residual : pair_.residuals) {
      if (!residual.is_dropped) kept_[BehindReshapes(residual.row)] = residual.backward;
      if (!residual.is_dropped) continue;
      for (const Instruction* read : residual.reads) row_of_[read] = residual.row;
    }
  }

  // `outer` is of the computation that holds the backward loop, at the loop.
  void Run(Builder& outer) {
    old_size_ = backward_.size();
    AddInvariants(outer);
    Rewriter(module_).Run(backward_.body, [&](Instruction* x, Rewriter& rewriter) -> Instruction* {
      auto row = row_of_.find(x);
      if (row == row_of_.end()) return x;
      if (index_ == nullptr) index_ = x->operand(1);
      builder_ = &rewriter.builder();
      return Again(row->second);
    });
    std::vector<Instruction*> next(backward_.body->root()->operands().begin(),
                                   backward_.body->root()->operands().end());
    if (added_.empty()) return;
    Builder body(module_, backward_.body);
    for (size_t i = 0; i < added_.size(); ++i) {
      next.push_back(
          body.GetTupleElement(backward_.body_state, old_size_ + static_cast<int64_t>(i)));
    }
    backward_.body->set_root(body.Tuple(next));
  }

 private:
  // What rows need of the forward loop's invariants, and the backward loop does not carry yet.
  void AddInvariants(Builder& outer) {
    const Instruction* init = backward_.loop->operand(0);
    for (int64_t j = 0; j < old_size_; ++j) {
      if (ElementOf(backward_.Next(j), backward_.body_state) == j) {
        element_of_.emplace(init->operand(j), j);
      }
    }
    std::unordered_set<const Instruction*> seen;
    for (const auto& [read, row] : row_of_) Needs(row, seen);
    std::ranges::sort(added_, {}, [](const Instruction* x) { return x->id(); });
    if (added_.empty()) return;
    std::vector<Instruction*> inits;
    for (int64_t i = 0; i < old_size_; ++i) inits.push_back(backward_.Init(outer, i));
    for (Instruction* x : added_) {
      element_of_[x] = static_cast<int64_t>(inits.size());
      inits.push_back(x);
    }
    SetState(backward_, outer, inits);
  }

  void Needs(const Instruction* x, std::unordered_set<const Instruction*>& seen) {
    if (!seen.insert(x).second || kept_.contains(x)) return;
    if (auto element = ElementOf(x, pair_.forward.body_state)) {
      if (*element == pair_.counter.element) return;
      Instruction* init = pair_.forward.loop->operand(0)->operand(*element);
      const bool is_added = std::ranges::find(added_, init) != added_.end();
      if (!element_of_.contains(init) && !is_added) added_.push_back(init);
      return;
    }
    for (const Instruction* operand : x->operands()) Needs(operand, seen);
  }

  // The forward body's x in the trip whose row is read. Depth: that of the body's graph.
  Instruction* Again(const Instruction* x) {
    auto known = again_.find(x);
    if (known != again_.end()) return known->second;
    Instruction* made = nullptr;
    if (auto kept = kept_.find(x); kept != kept_.end()) {
      made = RowOf(kept->second, x->shape());
    } else if (auto element = ElementOf(x, pair_.forward.body_state)) {
      made = *element == pair_.counter.element
                 ? builder_->Convert(index_, x->shape()->dtype())
                 : Element(element_of_.at(pair_.forward.loop->operand(0)->operand(*element)),
                           x->shape());
    } else {
      std::vector<Instruction*> operands;
      for (const Instruction* operand : x->operands()) operands.push_back(Again(operand));
      made = module_.Clone(backward_.body, x, operands,
                           module_.UniqueName(fmt::format("{}.remat", x->name())));
      ++dropped_.instructions;
    }
    again_[x] = made;
    return made;
  }

  Instruction* Element(int64_t i, const Shape* shape) {
    Instruction* const operands[] = {backward_.body_state};
    return builder_->Add(Opcode::kGetTupleElement, operands, GetTupleElementAttributes{i}, shape);
  }

  Instruction* RowOf(int64_t element, const Shape* shape) {
    const Shape* stack = backward_.body_state->shape()->element(element);
    return builder_->Reshape(builder_->DynamicSliceDim(Element(element, stack), 0, index_, 1),
                             shape->dims());
  }

  Module& module_;
  LoopPair& pair_;
  LoopParts& backward_;
  DroppedResiduals& dropped_;
  std::unordered_map<const Instruction*, int64_t> kept_;     // forward value -> backward element
  std::map<const Instruction*, const Instruction*> row_of_;  // backward read -> forward row
  std::unordered_map<const Instruction*, int64_t>
      element_of_;  // value on entry -> backward element
  std::vector<Instruction*> added_;
  std::unordered_map<const Instruction*, Instruction*> again_;
  Instruction* index_ = nullptr;  // the row, in the backward body
  Builder* builder_ = nullptr;
  int64_t old_size_ = 0;
};

// Residuals of all pairs that can be computed again, cheapest for their bytes first.
std::vector<Residual*> InOrder(std::vector<LoopPair>& pairs) {
  std::vector<Residual*> order;
  for (LoopPair& pair : pairs) {
    for (Residual& residual : pair.residuals) {
      if (residual.flops >= 0) order.push_back(&residual);
    }
  }
  std::ranges::stable_sort(
      order, {}, [](const Residual* residual) { return residual->flops / residual->bytes; });
  return order;
}

}  // namespace

int64_t CountLoopResiduals(Module& module) {
  std::vector<LoopPair> pairs = PairFinder(module).Run();
  return static_cast<int64_t>(InOrder(pairs).size());
}

DroppedResiduals DropLoopResiduals(Module& module, int64_t count) {
  DroppedResiduals dropped;
  std::vector<LoopPair> pairs = PairFinder(module).Run();
  std::vector<Residual*> order = InOrder(pairs);
  order.resize(std::min(order.size(), static_cast<size_t>(std::max<int64_t>(0, count))));
  for (Residual* residual : order) {
    residual->is_dropped = true;
    dropped.values.push_back({std::string(BehindReshapes(residual->row)->name()),
                              residual->reads[0]->operand(0)->shape()->byte_size()});
  }
  dropped.stacks = static_cast<int64_t>(order.size());
  for (LoopPair& pair : pairs) {
    const bool any = std::ranges::any_of(pair.residuals, &Residual::is_dropped);
    if (!any) continue;
    Rewriter(module).Run(pair.backward.loop->parent(), [&](Instruction* x, Rewriter& rewriter) {
      if (x == pair.backward.loop) RowWriter(module, pair, dropped).Run(rewriter.builder());
      return x;
    });
  }
  // Rows need slices of weights that the backward pass reads, too.
  if (dropped.stacks > 0) MergeCommonSubexpressions(module);
  bool shrinks = dropped.stacks > 0;
  while (shrinks) {  // the backward loop, then the forward loop that its state came from
    RemoveDeadCode(module);
    shrinks = RemoveDeadLoopState(module);
  }
  return dropped;
}

}  // namespace gshard
