#include "core/transforms/cse.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/analysis/combiner.h"
#include "core/transforms/loop_parts.h"
#include "core/transforms/rewriter.h"
#include "core/transforms/while_loop_simplifier.h"
#include "ir/attribute_equality.h"
#include "ir/hash.h"
#include "ir/op_traits.h"
#include "tsl/robin_set.h"

namespace gshard {
namespace {

// A copy stays: memory of its own is what it is for.
bool MayMerge(const Instruction* x) {
  return !IsControlFlow(x->opcode()) && x->opcode() != Opcode::kCopy && MayBeRepeated(*x);
}

// Equal collectives do the same work twice.
bool MayMergeCollective(const Instruction* x) {
  return IsCollective(x->opcode()) && PurityOf(x->opcode()) == Purity::kPure;
}

bool SameComputations(const Instruction* a, const Instruction* b) {
  if (a->called().size() != b->called().size()) return false;
  for (int64_t i = 0; i < static_cast<int64_t>(a->called().size()); ++i) {
    if (a->called(i) == b->called(i)) continue;
    std::optional<Opcode> combiner = CombinerOf(a->called(i));
    if (!combiner || combiner != CombinerOf(b->called(i))) return false;
    if (!Compatible(a->called(i)->root()->shape(), b->called(i)->root()->shape())) return false;
  }
  return true;
}

bool CommutesInOperands(const Instruction* x) { return HasFlag(x->opcode(), kCommutative); }

// Which instructions count as one, as operands of others: themselves, where nothing is said.
class StandIns {
 public:
  void Set(const Instruction* x, const Instruction* by) {
    if (x->id() >= by_.size()) by_.resize(x->id() + size_t{1});
    by_[x->id()] = by;
  }
  const Instruction* Of(const Instruction* x) const {
    const Instruction* by = x->id() < by_.size() ? by_[x->id()] : nullptr;
    return by != nullptr ? by : x;
  }

 private:
  std::vector<const Instruction*> by_;  // by id
};

struct HashExpression {
  const StandIns* stand_ins;
  uint64_t IdOf(const Instruction* x) const { return stand_ins->Of(x)->id(); }
  size_t operator()(const Instruction* x) const {
    size_t hash = HashPointer(HashOfAttributes(*x), x->shape());
    if (CommutesInOperands(x)) {
      return HashCombine(hash, IdOf(x->operand(0)) + IdOf(x->operand(1)));
    }
    for (const Instruction* operand : x->operands()) hash = HashCombine(hash, IdOf(operand));
    return hash;
  }
};

struct SameExpression {
  const StandIns* stand_ins;
  bool AreOne(const Instruction* a, const Instruction* b) const {
    return stand_ins->Of(a) == stand_ins->Of(b);
  }
  bool operator()(const Instruction* a, const Instruction* b) const {
    if (a->opcode() != b->opcode() || a->shape() != b->shape()) return false;
    bool same_operands = std::ranges::equal(
        a->operands(), b->operands(),
        [&](const Instruction* x, const Instruction* y) { return AreOne(x, y); });
    if (!same_operands && CommutesInOperands(a)) {
      same_operands = AreOne(a->operand(0), b->operand(1)) && AreOne(a->operand(1), b->operand(0));
    }
    return same_operands && a->sharding() == b->sharding() && SameAttributes(*a, *b) &&
           SameComputations(a, b);
  }
};

// Hashes are kept, so that a set that grows looks at no instruction again.
template <typename T>
using Expressions =
    tsl::robin_set<T*, HashExpression, SameExpression, std::allocator<T*>, /*StoreHash=*/true>;

// Which elements of a loop's state are equal in all iterations: by induction, those that start
// equal and, being equal, are followed by equal ones.
class EqualElements {
 public:
  explicit EqualElements(const LoopParts& parts) : parts_(parts) {
    const Instruction* init = parts.loop->operand(0);
    std::unordered_map<const Instruction*, int64_t> starts;
    for (int64_t i = 0; i < parts.size(); ++i) {
      const bool is_known = init->opcode() == Opcode::kTuple;
      first_.push_back(is_known ? starts.try_emplace(init->operand(i), i).first->second : i);
    }
    while (HasEqual() && Refine()) {
    }
  }

  bool HasEqual() const {
    for (int64_t i = 0; i < parts_.size(); ++i) {
      if (First(i) != i) return true;
    }
    return false;
  }
  // The first element that is equal to element i.
  int64_t First(int64_t i) const { return first_[static_cast<size_t>(i)]; }

 private:
  // Splits what is taken for equal by what follows it. True if something was split.
  bool Refine() {
    StandIns stand_ins;
    Expressions<const Instruction> seen(0, HashExpression{&stand_ins}, SameExpression{&stand_ins});
    std::vector<const Instruction*> reads(first_.size(), nullptr);  // by element, the first read
    for (const Instruction* x : parts_.body->instructions()) {
      if (const auto element = ElementOf(x, parts_.body_state)) {
        const Instruction*& read = reads[static_cast<size_t>(First(*element))];
        if (read == nullptr) read = x;
        stand_ins.Set(x, read);
      } else if (MayMerge(x)) {
        stand_ins.Set(x, *seen.insert(x).first);
      }
    }
    std::map<std::pair<int64_t, const Instruction*>, int64_t> firsts;
    std::vector<int64_t> split;
    for (int64_t i = 0; i < parts_.size(); ++i) {
      const std::pair key(First(i), stand_ins.Of(parts_.Next(i)));
      split.push_back(firsts.try_emplace(key, i).first->second);
    }
    std::swap(first_, split);
    return first_ != split;
  }

  const LoopParts& parts_;
  std::vector<int64_t> first_;
};

// Reads of equal elements become reads of the first.
class LoopStateMerger {
 public:
  explicit LoopStateMerger(Module& module) : module_(module), sites_(module) {}

  // Did the body or the condition of a loop change?
  bool changed() const { return changed_; }

  Instruction* Visit(Instruction* x, Rewriter& rewriter) {
    if (x->opcode() == Opcode::kWhile) {
      if (const std::optional<LoopParts> parts = PartsOf(x, sites_)) Merge(*parts);
    }
    if (x->opcode() != Opcode::kGetTupleElement) return x;
    const auto first = first_of_.find(x->operand(0));
    if (first == first_of_.end()) return x;
    return ReadOf(first->second, x, rewriter.builder());
  }

 private:
  struct Reads {
    std::vector<int64_t> first;    // by element: the first that is equal
    std::vector<Instruction*> of;  // by element: one read for all
  };

  void Merge(const LoopParts& parts) {
    const EqualElements equal(parts);
    if (!equal.HasEqual()) return;
    Reads reads;
    for (int64_t i = 0; i < parts.size(); ++i) reads.first.push_back(equal.First(i));
    reads.of.resize(reads.first.size());
    first_of_[parts.loop] = reads;
    for (auto& [computation, state] : {std::pair{parts.body, parts.body_state},
                                       std::pair{parts.condition, parts.condition_state}}) {
      Reads within = reads;
      changed_ |= Rewriter(module_).Run(computation, [&](Instruction* x, Rewriter& rewriter) {
        return ElementOf(x, state) ? ReadOf(within, x, rewriter.builder()) : x;
      });
    }
  }

  static Instruction* ReadOf(Reads& reads, Instruction* x, Builder& builder) {
    const int64_t element = x->attributes<GetTupleElementAttributes>().index;
    const int64_t first = reads.first[static_cast<size_t>(element)];
    Instruction*& read = reads.of[static_cast<size_t>(first)];
    if (read == nullptr) {
      read = first == element ? x
                              : builder.Add(Opcode::kGetTupleElement, x->operands(),
                                            GetTupleElementAttributes{first}, x->shape());
    }
    return read;
  }

  Module& module_;
  CallSites sites_;
  std::unordered_map<const Instruction*, Reads> first_of_;
  bool changed_ = false;
};

bool Merge(Module& module, bool with_collectives) {
  const Computation* current = nullptr;
  const StandIns none;
  Expressions<Instruction> seen(0, HashExpression{&none}, SameExpression{&none});
  return RewriteModule(module, [&](Instruction* x, Rewriter&) {
    if (x->parent() != current) {
      current = x->parent();
      seen.clear();
    }
    const bool may_merge = MayMerge(x) || (with_collectives && MayMergeCollective(x));
    return may_merge ? *seen.insert(x).first : x;
  });
}

}  // namespace

bool MergeCommonSubexpressions(Module& module) { return Merge(module, /*with_collectives=*/true); }

bool MergeEqualLoopState(Module& module) {
  LoopStateMerger merger(module);
  const bool rewritten = RewriteLoopCallers(
      module, [&](Instruction* x, Rewriter& rewriter) { return merger.Visit(x, rewriter); });
  if (!rewritten && !merger.changed()) return false;
  Merge(module, /*with_collectives=*/false);
  RemoveDeadLoopState(module);
  return true;
}

}  // namespace gshard
