#include "core/transforms/constant_splitter.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace gshard {
namespace {

constexpr int64_t kMaxLiteralElements = 4096;
constexpr int32_t kMaxOperations = 16;

// Made again on every device without a thought.
bool IsMadeAgain(Opcode opcode) {
  switch (opcode) {
    case Opcode::kBroadcast:
    case Opcode::kReshape:
    case Opcode::kTranspose:
    case Opcode::kSlice:
    case Opcode::kConvert:
    case Opcode::kCompare:
    case Opcode::kSelect:
    case Opcode::kAnd:
    case Opcode::kOr:
    case Opcode::kXor:
    case Opcode::kNot:
    case Opcode::kAdd:
    case Opcode::kSubtract:
    case Opcode::kMultiply:
    case Opcode::kMaximum:
    case Opcode::kMinimum:
    case Opcode::kNegate:
    case Opcode::kAbs:
      return true;
    default:  // not what XLA copies with constants
      return false;
  }
}

// Elements of a tuple and what branches are given are laid out apart: each is a use of its own.
bool UsesApart(Opcode opcode) { return opcode == Opcode::kTuple || opcode == Opcode::kConditional; }

// All operands of `user` that are the constant, or the one at `position`.
struct Use {
  Instruction* user = nullptr;
  int64_t position = -1;
};

// What may be made again for each of its uses.
struct Constant {
  int32_t operations = 0;
  bool shareable = true;  // a control dependence names one instruction
  std::vector<Use> uses;
  std::vector<Instruction*> copies;
};
constexpr int32_t kNone = -1;  // slot of what is none

// Splits the constants of one computation.
class ConstantSplitter {
 public:
  ConstantSplitter(Module& module, Computation* computation, std::vector<int32_t>& slot_of,
                   std::vector<ConstantCopy>& copies, UserOrderOverride& order)
      : module_(module),
        computation_(computation),
        slot_of_(slot_of),
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

  // Operations of which x consists, as a tree; 0: it is no constant to make again.
  int32_t OperationsOf(const Instruction* x) {
    const Opcode opcode = x->opcode();
    const bool is_leaf = opcode == Opcode::kIota || opcode == Opcode::kConstant;
    if (!is_leaf && !IsMadeAgain(opcode)) return 0;
    const Shape* shape = x->shape();
    if (!shape->IsArray() || shape->rank() == 0 || shape->HasDynamicDims()) return 0;
    if (x->sharding() != nullptr || !x->control_predecessors().empty()) return 0;
    if (opcode == Opcode::kConstant) return shape->element_count() <= kMaxLiteralElements;
    int32_t sum = 1;
    for (const Instruction* operand : x->operands()) {
      if (operand->shape()->IsScalar()) continue;
      const Constant* constant = Find(operand);
      if (constant == nullptr) return 0;
      sum += constant->operations;
    }
    return sum <= kMaxOperations ? sum : 0;
  }

  void FindConstants() {
    for (Instruction* x : list_) {
      if (const int32_t operations = OperationsOf(x); operations > 0) {
        slot_of_[x->id()] = static_cast<int32_t>(constants_.size());
        constants_.push_back({operations, true, {}, {}});
      }
      AddUser(x);
    }
    for (const Instruction* x : list_) {
      for (const Instruction* predecessor : x->control_predecessors()) {
        if (Constant* constant = Find(predecessor)) constant->shareable = false;
      }
    }
  }

  void AddUser(Instruction* x) {
    const bool apart = UsesApart(x->opcode());
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
      return constant.shareable && constant.uses.size() + (&constant == root) > 1;
    });
  }

  void Split(Instruction* x, Constant& constant) {
    // x itself is the root's, else the first use's.
    const size_t kept = x == computation_->root() ? 0 : 1;
    const std::vector<Use>& uses = constant.uses;
    if (!constant.shareable || uses.size() <= kept) return;
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
  std::vector<ConstantCopy>& copies_;
  UserOrderOverride& order_;
  const std::vector<Instruction*> list_;
  std::vector<Constant> constants_;
};

}  // namespace

bool SplitConstants(Module& module, std::vector<ConstantCopy>& copies, UserOrderOverride& order) {
  std::vector<int32_t> slot_of(module.instruction_limit(), kNone);
  bool changed = false;
  for (Computation* computation : module.computations()) {
    changed |= ConstantSplitter(module, computation, slot_of, copies, order).Run();
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
