#include "core/transforms/constant_splitter.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace gshard {
namespace {

constexpr int64_t kMaxLiteralElements = 4096;
// Of the copies that one computation gets: shared values that share others multiply.
constexpr size_t kMaxCopies = 65536;

// Made of constants alone, it is one.
bool MakesConstants(Opcode opcode) {
  return HasFlag(opcode, kElementwise) || opcode == Opcode::kBroadcast || opcode == Opcode::kSlice;
}

// All operands of `user` that are the constant, or the one at `position`.
struct Use {
  Instruction* user = nullptr;
  int64_t position = -1;
};

// What may be made again for each of its uses.
struct Constant {
  bool is_split = true;  // not: a scalar, or what a control dependence names
  std::vector<Use> uses;
  std::vector<Instruction*> copies;
};
constexpr int32_t kNone = -1;  // slot of what is none

// Splits the constants of one computation.
class ConstantSplitter {
 public:
  ConstantSplitter(Module& module, Computation* computation, std::vector<int32_t>& slot_of,
                   ConstantUses uses, std::vector<ConstantCopy>& copies, UserOrderOverride& order)
      : module_(module),
        computation_(computation),
        slot_of_(slot_of),
        uses_(uses),
        copies_(copies),
        order_(order),
        list_(computation->instructions().begin(), computation->instructions().end()) {}

  bool Run() {
    FindConstants();
    if (!AnyShared()) return false;
    // Users first: a copy is one more user of its operands.
    for (auto it = list_.rbegin(); it != list_.rend(); ++it) {
      if (Constant* constant = Find(*it); constant != nullptr) Split(*it, *constant);
    }
    std::vector<Instruction*> list;
    list.reserve(list_.size() + copies_.size());
    for (Instruction* x : list_) {
      list.push_back(x);
      if (const Constant* constant = Find(x); constant != nullptr) {
        list.insert(list.end(), constant->copies.begin(), constant->copies.end());
      }
    }
    computation_->SetInstructions(std::move(list));
    return true;
  }

 private:
  Constant* Find(const Instruction* x) {
    const int32_t slot = slot_of_[x->id()];
    return slot == kNone ? nullptr : &constants_[static_cast<size_t>(slot)];
  }

  bool IsConstant(const Instruction* x) {
    const Opcode opcode = x->opcode();
    const Shape* shape = x->shape();
    if (!shape->IsArray() || shape->HasDynamicDims()) return false;
    if (x->sharding() != nullptr || !x->control_predecessors().empty()) return false;
    if (opcode == Opcode::kIota) return true;
    if (opcode == Opcode::kConstant) return shape->element_count() <= kMaxLiteralElements;
    return MakesConstants(opcode) && std::ranges::all_of(x->operands(), [&](const Instruction* y) {
             return Find(y) != nullptr;
           });
  }

  void FindConstants() {
    for (Instruction* x : list_) {
      if (IsConstant(x)) {
        slot_of_[x->id()] = static_cast<int32_t>(constants_.size());
        constants_.push_back({x->shape()->rank() > 0, {}, {}});
      }
      AddUser(x);
    }
    for (const Instruction* x : list_) {
      for (const Instruction* predecessor : x->control_predecessors()) {
        if (Constant* constant = Find(predecessor)) constant->is_split = false;
      }
    }
  }

  void AddUser(Instruction* x) {
    const bool apart = uses_ == ConstantUses::kElements &&
                       (x->opcode() == Opcode::kTuple || x->opcode() == Opcode::kConditional);
    for (int64_t i = 0; i < x->operand_count(); ++i) {
      Constant* constant = Find(x->operand(i));
      if (constant == nullptr) continue;
      std::vector<Use>& uses = constant->uses;
      if (apart) {
        uses.push_back({x, i});
      } else if (uses.empty() || uses.back().user != x) {
        uses.push_back({x, -1});
      }
    }
  }

  bool AnyShared() {
    const Constant* root = Find(computation_->root());
    return std::ranges::any_of(constants_, [&](const Constant& constant) {
      return constant.is_split && constant.uses.size() + (&constant == root) > 1;
    });
  }

  void Split(Instruction* x, Constant& constant) {
    // x itself is the root's, else the first use's.
    const size_t kept = x == computation_->root() ? 0 : 1;
    const std::vector<Use>& uses = constant.uses;
    if (!constant.is_split || uses.size() <= kept || made_ + uses.size() > kMaxCopies) return;
    made_ += uses.size() - kept;
    order_.erase(x);
    const std::vector<Instruction*> operands(x->operands().begin(), x->operands().end());
    for (size_t i = kept; i < uses.size(); ++i) {
      Instruction* copy = module_.Clone(computation_, x, operands, module_.UniqueName(x->name()));
      const auto [user, position] = uses[i];
      for (int64_t k = 0; k < user->operand_count(); ++k) {
        if (user->operand(k) == x && (position < 0 || k == position)) user->set_operand(k, copy);
      }
      constant.copies.push_back(copy);
      copies_.push_back({copy, x});
      AddUser(copy);
      for (const Instruction* operand : operands) AddToOrder(operand, copy);
    }
  }

  void AddToOrder(const Instruction* operand, Instruction* copy) {
    const auto it = order_.find(operand);
    if (it == order_.end() || std::ranges::find(it->second, copy) != it->second.end()) return;
    it->second.push_back(copy);
  }

  Module& module_;
  Computation* computation_;
  // In constants_, by Instruction::id(): of one computation at a time.
  std::vector<int32_t>& slot_of_;
  const ConstantUses uses_;
  size_t made_ = 0;  // copies
  std::vector<ConstantCopy>& copies_;
  UserOrderOverride& order_;
  const std::vector<Instruction*> list_;
  std::vector<Constant> constants_;
};

}  // namespace

bool SplitConstants(Module& module, ConstantUses uses, std::vector<ConstantCopy>& copies,
                    UserOrderOverride& order) {
  std::vector<int32_t> slot_of(module.instruction_limit(), kNone);
  bool changed = false;
  for (Computation* computation : module.computations()) {
    changed |= ConstantSplitter(module, computation, slot_of, uses, copies, order).Run();
  }
  return changed;
}

bool MergeConstantCopies(Module& module, std::vector<ConstantCopy>& copies) {
  if (copies.empty()) return false;
  // By Instruction::id(); null: no copy, or one that stays.
  std::vector<Instruction*> original_of(module.instruction_limit());
  std::vector<Instruction*> value_of(module.instruction_limit());
  for (const ConstantCopy& entry : copies) original_of[entry.copy->id()] = entry.original;
  copies.clear();
  bool merged = false;
  // Original and copies that stay.
  std::unordered_map<const Instruction*, std::vector<Instruction*>> members_of;
  for (Computation* computation : module.computations()) {
    std::vector<Instruction*> list;
    list.reserve(computation->instructions().size());
    for (Instruction* x : computation->instructions()) {
      for (int64_t i = 0; i < x->operand_count(); ++i) {
        if (Instruction* value = value_of[x->operand(i)->id()]) x->set_operand(i, value);
      }
      Instruction* original = original_of[x->id()];
      if (original == nullptr) {
        list.push_back(x);
        continue;
      }
      std::vector<Instruction*>& members = members_of[original];
      if (members.empty()) members.push_back(original);
      const auto same = std::ranges::find_if(members, [&](const Instruction* member) {
        return member->sharding() == x->sharding() &&
               std::ranges::equal(member->operands(), x->operands());
      });
      if (same == members.end()) {
        members.push_back(x);
        list.push_back(x);
        continue;
      }
      merged = true;
      value_of[x->id()] = *same;
      x->set_name((*same)->name());  // what `explain` has recorded of it
    }
    if (list.size() == computation->instructions().size()) continue;
    computation->SetInstructions(std::move(list));
  }
  return merged;
}

}  // namespace gshard
