#include "core/propagation/canonicalizer.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "ir/attribute_equality.h"
#include "ir/custom_call.h"
#include "ir/hash.h"
#include "ir/op_traits.h"
#include "ir/stablehlo/import/simplify.h"

namespace gshard {
namespace {

// A literal, or one number repeated: a constant of StableHLO.
bool IsConstant(const Instruction* x) {
  if (x->opcode() == Opcode::kBroadcast) x = x->operand(0);
  return x->opcode() == Opcode::kConstant && x->sharding() == nullptr;
}

// One computation at a time.
class Canonicalizer {
 public:
  explicit Canonicalizer(Module& module) : module_(module) {}

  bool Run(Computation* computation) {
    computation_ = computation;
    const std::vector<Instruction*> given(computation->instructions().begin(),
                                          computation->instructions().end());
    CountReaders(given, read_before_);
    FindPredecessors(given);
    constants_.clear();
    changed_ = false;
    std::vector<Instruction*> list;
    list.reserve(given.size());
    for (Instruction* x : given) Visit(x, list);
    if (!changed_) return false;
    Instruction* root = ValueOf(computation->root());
    RemoveUnread(list, root);
    computation->SetInstructions(std::move(list));
    computation->set_root(root);
    return true;
  }

 private:
  void Visit(Instruction* x, std::vector<Instruction*>& list) {
    for (int64_t i = 0; i < x->operand_count(); ++i) x->set_operand(i, ValueOf(x->operand(i)));
    if (!MayGo(x)) {
      list.push_back(x);
      return;
    }
    const size_t made_from = computation_->instructions().size();
    operands_.assign(x->operands().begin(), x->operands().end());
    Instruction* by = stablehlo::Simplified(module_, computation_, x);
    // HLO's elementwise operations may take floats of several types, StableHLO's may not.
    if (!Compatible(by->shape(), x->shape())) by = x;
    const auto made = computation_->instructions().subspan(made_from);
    list.insert(list.end(), made.begin(), made.end());
    changed_ = changed_ || by != x || !made.empty() || !std::ranges::equal(operands_, x->operands());
    if (by == x) {
      if (Instruction* same = EqualConstant(x)) {
        changed_ = true;
        SetValue(x, same);
      } else {
        list.push_back(x);
      }
      return;
    }
    if (!made.empty() && made.back() == by) by->set_name(x->name());
    SetValue(x, by);
  }

  bool MayGo(const Instruction* x) const {
    return x->sharding() == nullptr && x->frontend_attributes().empty() &&
           x->control_predecessors().empty() && !IsPredecessor(x);
  }

  // The first constant of this value; null: it is x.
  Instruction* EqualConstant(Instruction* x) {
    if (!IsConstant(x) || x == computation_->root()) return nullptr;
    size_t hash = HashPointer(HashOfAttributes(*x), x->shape());
    if (x->operand_count() > 0) hash = HashPointer(hash, x->operand(0));
    const auto [first, last] = constants_.equal_range(hash);
    for (auto it = first; it != last; ++it) {
      Instruction* other = it->second;
      if (other->opcode() == x->opcode() && other->shape() == x->shape() &&
          std::ranges::equal(other->operands(), x->operands()) && SameAttributes(*other, *x)) {
        return other;
      }
    }
    constants_.emplace(hash, x);
    return nullptr;
  }

  Instruction* ValueOf(Instruction* x) const {
    return x->id() < value_.size() && value_[x->id()] != nullptr ? value_[x->id()] : x;
  }
  void SetValue(const Instruction* x, Instruction* by) {
    if (value_.size() <= x->id()) value_.resize(module_.instruction_limit());
    value_[x->id()] = by;
  }

  void CountReaders(const std::vector<Instruction*>& list, std::vector<int32_t>& counts) const {
    counts.resize(module_.instruction_limit());
    for (const Instruction* x : list) counts[x->id()] = 0;
    for (const Instruction* x : list) {
      for (const Instruction* operand : x->operands()) ++counts[operand->id()];
    }
  }

  void FindPredecessors(const std::vector<Instruction*>& list) {
    predecessors_.clear();
    for (const Instruction* x : list) {
      for (const Instruction* before : x->control_predecessors()) {
        if (predecessors_.empty()) predecessors_.resize(module_.instruction_limit());
        predecessors_[before->id()] = true;
      }
    }
  }
  bool IsPredecessor(const Instruction* x) const {
    return x->id() < predecessors_.size() && predecessors_[x->id()];
  }

  // Instructions that lost their last reader.
  void RemoveUnread(std::vector<Instruction*>& list, const Instruction* root) {
    std::vector<int32_t> readers;
    CountReaders(list, readers);
    std::vector<Instruction*> kept;
    for (auto it = list.rbegin(); it != list.rend(); ++it) {
      Instruction* x = *it;
      const bool is_new = x->id() >= read_before_.size();
      const bool was_read = is_new || read_before_[x->id()] > 0;
      const bool goes = readers[x->id()] == 0 && was_read && x != root && MayGo(x) &&
                        x->opcode() != Opcode::kParameter && x->called().empty() &&
                        x->opcode() != Opcode::kCustomCall && !HasSideEffect(*x);
      if (!goes) {
        kept.push_back(x);
        continue;
      }
      for (const Instruction* operand : x->operands()) --readers[operand->id()];
    }
    list.assign(kept.rbegin(), kept.rend());
  }

  Module& module_;
  Computation* computation_ = nullptr;
  bool changed_ = false;
  std::vector<Instruction*> value_;   // by id: what stands in; null: itself
  std::vector<int32_t> read_before_;  // by id: operand slots that had it
  std::vector<bool> predecessors_;    // by id: others are to run after it
  std::unordered_multimap<size_t, Instruction*> constants_;
  std::vector<Instruction*> operands_;  // of the instruction that is visited, as they were
};

}  // namespace

bool Canonicalize(Module& module) {
  // What has no operands is on the side of its users: one constant cannot be on both.
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (IsRegionMarker(*x)) return false;
    }
  }
  Canonicalizer canonicalizer(module);
  bool changed = false;
  for (Computation* computation : module.computations()) changed |= canonicalizer.Run(computation);
  return changed;
}

}  // namespace gshard
