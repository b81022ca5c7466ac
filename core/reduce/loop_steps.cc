// See loop_steps.h.

#include "core/reduce/loop_steps.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/analysis/trip_count.h"
#include "core/reduce/edits.h"
#include "ir/builder.h"
#include "ir/dims.h"
#include "ir/sharding_algebra.h"

namespace gshard::reduce {
namespace {

std::vector<Instruction*> Loops(const Module& module) {
  std::vector<Instruction*> loops;
  for (Computation* computation : module.computations()) {
    for (Instruction* x : computation->instructions()) {
      if (x->opcode() == Opcode::kWhile) loops.push_back(x);
    }
  }
  return loops;
}

// Those whose condition and body nothing else calls, so that they can be changed.
std::vector<Instruction*> LoopsOfTheirOwn(const Module& module) {
  std::unordered_map<const Computation*, int> callers;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      for (const Computation* called : x->called()) ++callers[called];
    }
  }
  std::vector<Instruction*> loops = Loops(module);
  std::erase_if(loops, [&](const Instruction* loop) {
    return callers[loop->called(0)] != 1 || callers[loop->called(1)] != 1 ||
           !loop->shape()->IsTuple();
  });
  return loops;
}

std::vector<Instruction*> LongLoops(const Module& module) {
  std::vector<Instruction*> loops = LoopsOfTheirOwn(module);
  std::erase_if(loops, [](const Instruction* loop) {
    const auto counter = CounterOf(*loop);
    return !counter || counter->trips <= 2;
  });
  return loops;
}

void AddCone(const Instruction* root, std::unordered_set<const Instruction*>& cone) {
  std::vector<const Instruction*> open = {root};
  while (!open.empty()) {
    const Instruction* x = open.back();
    open.pop_back();
    if (!cone.insert(x).second) continue;
    for (const Instruction* operand : x->operands()) open.push_back(operand);
  }
}

// Element `index` of what makes a tuple, or all of it.
const Instruction* ElementOrAll(const Instruction* x, int64_t index) {
  return x->opcode() == Opcode::kTuple ? x->operand(index) : x;
}

void SetTrips(Module& module, Instruction* loop, const LoopCounter& counter, int64_t trips) {
  Computation* condition = loop->called(0);
  Builder builder(module, condition);
  Instruction* at = builder.GetTupleElement(condition->parameters()[0], counter.element);
  Instruction* bound =
      builder.ScalarInt(at->shape()->dtype(), counter.start + trips * counter.step);
  condition->set_root(builder.Compare(
      counter.step > 0 ? ComparisonDirection::kLt : ComparisonDirection::kGt, at, bound));
}

bool Shorten(Module& module, int64_t begin, int64_t end, int64_t (*shorter)(int64_t)) {
  for (Instruction* loop : Chosen(LongLoops(module), begin, end)) {
    const LoopCounter counter = *CounterOf(*loop);
    SetTrips(module, loop, counter, shorter(counter.trips));
  }
  return begin < end;
}

// The elements of a loop's state that stay, by what becomes of an element's number.
class KeptElements {
 public:
  explicit KeptElements(std::vector<bool> kept) : kept_(std::move(kept)) {
    for (size_t k = 0; k < kept_.size(); ++k) {
      numbers_.push_back(count_);
      count_ += kept_[k] ? 1 : 0;
    }
  }

  int64_t size() const { return static_cast<int64_t>(kept_.size()); }
  bool Keeps(int64_t element) const { return kept_[At(element)]; }
  int64_t NumberOf(int64_t element) const { return numbers_[At(element)]; }

  const Shape* Of(Context& context, const Shape* shape) const {
    std::vector<const Shape*> elements;
    for (int64_t k = 0; k < size(); ++k) {
      if (Keeps(k)) elements.push_back(shape->element(k));
    }
    return context.Tuple(elements);
  }

  const Sharding* Of(Context& context, const Shape* shape, const Sharding* sharding) const {
    if (sharding == nullptr || !sharding->IsTuple()) return sharding;
    std::vector<const Sharding*> leaves;
    size_t leaf = 0;
    for (int64_t k = 0; k < size(); ++k) {
      const size_t next = leaf + At(shape->element(k)->leaf_count());
      for (; leaf < next; ++leaf) {
        if (Keeps(k)) leaves.push_back(LeafSharding(sharding, leaf));
      }
    }
    return context.TupleOf(std::move(leaves));
  }

 private:
  std::vector<bool> kept_;
  std::vector<int64_t> numbers_;
  int64_t count_ = 0;
};

// Whoever reads `tuple`, which has had its elements cut, reads the elements that are left, and
// `stand_ins` for the others. `readers` are those who read it before.
void ReadKept(Module& module, Instruction* tuple, const KeptElements& kept,
              const std::vector<Instruction*>& stand_ins,
              const std::vector<Instruction*>& readers) {
  Computation* computation = tuple->parent();
  std::unordered_map<const Instruction*, Instruction*> by;
  std::vector<Instruction*> whole;  // those who read it as a whole
  for (Instruction* x : readers) {
    const auto operands = x->operands();
    if (std::ranges::find(operands, tuple) == operands.end()) continue;
    if (x->opcode() != Opcode::kGetTupleElement) {
      whole.push_back(x);
      continue;
    }
    int64_t& index = x->mutable_attributes<GetTupleElementAttributes>().index;
    if (kept.Keeps(index)) {
      index = kept.NumberOf(index);
    } else {
      by[x] = stand_ins[At(index)];
      index = 0;  // nobody reads it
      x->set_shape(tuple->shape()->element(0));
    }
  }
  const bool is_root = computation->root() == tuple;
  if (!whole.empty() || is_root) {
    const size_t before = computation->instructions().size();
    Builder builder(module, computation);
    std::vector<Instruction*> elements;
    for (int64_t k = 0; k < kept.size(); ++k) {
      elements.push_back(kept.Keeps(k) ? builder.GetTupleElement(tuple, kept.NumberOf(k))
                                       : stand_ins[At(k)]);
    }
    Instruction* all = builder.Tuple(elements);
    MoveBehind(*computation, before, tuple);
    for (Instruction* x : whole) {
      for (int64_t i = 0; i < x->operand_count(); ++i) {
        if (x->operand(i) == tuple) x->set_operand(i, all);
      }
    }
    if (is_root) computation->set_root(all);
  }
  Redirect(*computation, by);
}

std::vector<Instruction*> ListOf(const Computation& computation) {
  return {computation.instructions().begin(), computation.instructions().end()};
}

// In the condition or the body.
void CutParameter(Module& module, Computation* computation, const KeptElements& kept) {
  Instruction* parameter = computation->parameters()[0];
  const Shape* shape = parameter->shape();
  const std::vector<Instruction*> readers = ListOf(*computation);
  parameter->set_sharding(kept.Of(module.context(), shape, parameter->sharding()));
  parameter->set_shape(kept.Of(module.context(), shape));
  std::vector<Instruction*> zeros(At(kept.size()));
  Builder builder(module, computation);
  for (int64_t k = 0; k < kept.size(); ++k) {
    if (!kept.Keeps(k)) zeros[At(k)] = builder.Zero(shape->element(k));
  }
  MoveToFront(*computation, computation->instructions().size() - readers.size());
  ReadKept(module, parameter, kept, zeros, readers);
}

void CutResult(Module& module, Computation* body, const KeptElements& kept) {
  Instruction* root = body->root();
  Builder builder(module, body);
  std::vector<Instruction*> elements;
  for (int64_t k = 0; k < kept.size(); ++k) {
    if (kept.Keeps(k)) elements.push_back(builder.GetTupleElement(root, k));
  }
  Instruction* result = builder.Tuple(elements);
  result->set_sharding(kept.Of(module.context(), root->shape(), root->sharding()));
  body->set_root(result);
}

void CutState(Module& module, Instruction* loop, const KeptElements& kept) {
  CutParameter(module, loop->called(0), kept);
  CutParameter(module, loop->called(1), kept);
  CutResult(module, loop->called(1), kept);
  Computation* computation = loop->parent();
  const std::vector<Instruction*> readers = ListOf(*computation);
  Instruction* init = loop->operand(0);
  Builder builder(module, computation);
  std::vector<Instruction*> starts, kept_starts;
  for (int64_t k = 0; k < kept.size(); ++k) {
    starts.push_back(builder.GetTupleElement(init, k));
    if (kept.Keeps(k)) kept_starts.push_back(starts.back());
  }
  Instruction* state = builder.Tuple(kept_starts);
  state->set_sharding(kept.Of(module.context(), init->shape(), init->sharding()));
  MoveBehind(*computation, readers.size(), init);
  loop->set_operand(0, state);
  loop->set_sharding(kept.Of(module.context(), loop->shape(), loop->sharding()));
  loop->set_shape(state->shape());
  ReadKept(module, loop, kept, starts, readers);
}

// (loop, element) that can go: arrays.
std::vector<std::pair<Instruction*, int64_t>> StateElements(const Module& module) {
  std::vector<std::pair<Instruction*, int64_t>> items;
  for (Instruction* loop : LoopsOfTheirOwn(module)) {
    const auto counter = CounterOf(*loop);
    const auto count = static_cast<int64_t>(loop->shape()->elements().size());
    for (int64_t k = 0; k < count; ++k) {
      const bool counts = counter && counter->element == k;
      if (!counts && loop->shape()->element(k)->IsArray()) items.emplace_back(loop, k);
    }
  }
  return items;
}

}  // namespace

LoopBounds BoundsOf(const Module& module) {
  LoopBounds bounds;
  for (const Instruction* loop : Loops(module)) {
    const auto counter = CounterOf(*loop);
    bounds.uncounted += counter ? 0 : 1;
    if (counter) bounds.most_trips = std::max(bounds.most_trips, counter->trips);
  }
  return bounds;
}

std::unordered_set<const Instruction*> CounterValues(const Module& module) {
  std::unordered_set<const Instruction*> values;
  for (const Instruction* loop : Loops(module)) {
    const auto counter = CounterOf(*loop);
    if (!counter) continue;
    AddCone(loop->called(0)->root(), values);
    AddCone(ElementOrAll(loop->called(1)->root(), counter->element), values);
    AddCone(ElementOrAll(loop->operand(0), counter->element), values);
  }
  return values;
}

int64_t CountLongLoops(Module& module) { return static_cast<int64_t>(LongLoops(module).size()); }

bool LoopsRunTwice(Module& module, int64_t begin, int64_t end) {
  return Shorten(module, begin, end, [](int64_t) -> int64_t { return 2; });
}

bool LoopsRunHalf(Module& module, int64_t begin, int64_t end) {
  return Shorten(module, begin, end, [](int64_t trips) { return trips / 2; });
}

int64_t CountStateElements(Module& module) {
  return static_cast<int64_t>(StateElements(module).size());
}

bool DropStateElements(Module& module, int64_t begin, int64_t end) {
  std::vector<std::pair<Instruction*, std::vector<bool>>> loops;  // in order
  for (const auto& [loop, element] : Chosen(StateElements(module), begin, end)) {
    if (loops.empty() || loops.back().first != loop) {
      loops.emplace_back(loop, std::vector<bool>(loop->shape()->elements().size(), true));
    }
    loops.back().second[At(element)] = false;
  }
  for (auto& [loop, kept] : loops) {
    if (std::ranges::find(kept, true) == kept.end()) return false;  // nothing would be left
    CutState(module, loop, KeptElements(std::move(kept)));
  }
  return !loops.empty();
}

}  // namespace gshard::reduce
