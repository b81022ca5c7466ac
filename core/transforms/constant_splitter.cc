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
    default:
      return false;
  }
}

// Splits the constants of one computation.
class ConstantSplitter {
 public:
  ConstantSplitter(Module& module, Computation* computation, std::vector<ConstantCopy>& copies,
                   UserOrderOverride& order)
      : module_(module),
        computation_(computation),
        copies_(copies),
        order_(order),
        list_(computation->instructions().begin(), computation->instructions().end()) {}

  bool Run() {
    FindConstants();
    if (!AnyShared()) return false;
    // Users first: a copy is one more user of its operands.
    for (auto it = list_.rbegin(); it != list_.rend(); ++it) {
      if (const auto found = users_.find(*it); found != users_.end()) Split(*it, found->second);
    }
    std::vector<Instruction*> list;
    for (Instruction* x : list_) {
      list.push_back(x);
      const auto copies = copies_of_.find(x);
      if (copies != copies_of_.end()) {
        list.insert(list.end(), copies->second.begin(), copies->second.end());
      }
    }
    computation_->SetInstructions(std::move(list));
    return true;
  }

 private:
  // Operations of which x consists, as a tree; 0: it is no constant to make again.
  int32_t OperationsOf(const Instruction* x) const {
    const Shape* shape = x->shape();
    if (!shape->IsArray() || shape->rank() == 0 || shape->HasDynamicDims()) return 0;
    if (x->sharding() != nullptr || !x->control_predecessors().empty()) return 0;
    if (x->opcode() == Opcode::kIota) return 1;
    if (x->opcode() == Opcode::kConstant) return shape->element_count() <= kMaxLiteralElements;
    if (!IsMadeAgain(x->opcode())) return 0;
    int32_t sum = 1;
    for (const Instruction* operand : x->operands()) {
      if (operand->shape()->IsScalar()) continue;
      const auto it = operations_.find(operand);
      if (it == operations_.end()) return 0;
      sum += it->second;
    }
    return sum <= kMaxOperations ? sum : 0;
  }

  void FindConstants() {
    for (Instruction* x : list_) {
      if (const int32_t operations = OperationsOf(x); operations > 0) {
        operations_[x] = operations;
        users_[x];
      }
      AddUser(x);
    }
    // A control dependence names one instruction.
    for (const Instruction* x : list_) {
      for (Instruction* predecessor : x->control_predecessors()) users_.erase(predecessor);
    }
  }

  // x as a user of its operands, once of each.
  void AddUser(Instruction* x) {
    for (const Instruction* operand : x->operands()) {
      const auto it = users_.find(operand);
      if (it != users_.end() && (it->second.empty() || it->second.back() != x)) {
        it->second.push_back(x);
      }
    }
  }

  bool AnyShared() const {
    return std::ranges::any_of(users_, [&](const auto& entry) {
      return entry.second.size() + (entry.first == computation_->root()) > 1;
    });
  }

  void Split(Instruction* x, const std::vector<Instruction*>& users) {
    // x itself is the root's, else the first user's.
    const size_t kept = x == computation_->root() ? 0 : 1;
    if (users.size() <= kept) return;
    order_.erase(x);
    std::vector<Instruction*>& made = copies_of_[x];
    for (size_t i = kept; i < users.size(); ++i) {
      const std::vector<Instruction*> operands(x->operands().begin(), x->operands().end());
      Instruction* copy = module_.Clone(computation_, x, operands, module_.UniqueName(x->name()));
      for (int64_t k = 0; k < users[i]->operand_count(); ++k) {
        if (users[i]->operand(k) == x) users[i]->set_operand(k, copy);
      }
      made.push_back(copy);
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
  std::vector<ConstantCopy>& copies_;
  UserOrderOverride& order_;
  const std::vector<Instruction*> list_;
  std::unordered_map<const Instruction*, int32_t> operations_;
  std::unordered_map<const Instruction*, std::vector<Instruction*>> users_;
  std::unordered_map<const Instruction*, std::vector<Instruction*>> copies_of_;
};

}  // namespace

bool SplitConstants(Module& module, std::vector<ConstantCopy>& copies, UserOrderOverride& order) {
  bool changed = false;
  for (Computation* computation : module.computations()) {
    changed |= ConstantSplitter(module, computation, copies, order).Run();
  }
  return changed;
}

bool MergeConstantCopies(Module& module, std::vector<ConstantCopy>& copies) {
  std::unordered_map<const Instruction*, Instruction*> original_of;
  for (const ConstantCopy& entry : copies) original_of[entry.copy] = entry.original;
  copies.clear();
  if (original_of.empty()) return false;
  std::unordered_map<const Instruction*, Instruction*> value_of;
  // Original and copies that stay.
  std::unordered_map<const Instruction*, std::vector<Instruction*>> members_of;
  for (Computation* computation : module.computations()) {
    std::vector<Instruction*> list;
    for (Instruction* x : computation->instructions()) {
      for (int64_t i = 0; i < x->operand_count(); ++i) {
        const auto value = value_of.find(x->operand(i));
        if (value != value_of.end()) x->set_operand(i, value->second);
      }
      const auto original = original_of.find(x);
      if (original == original_of.end()) {
        list.push_back(x);
        continue;
      }
      std::vector<Instruction*>& members = members_of[original->second];
      if (members.empty()) members.push_back(original->second);
      const auto same = std::ranges::find_if(members, [&](const Instruction* member) {
        return member->sharding() == x->sharding() &&
               std::ranges::equal(member->operands(), x->operands());
      });
      if (same == members.end()) {
        members.push_back(x);
        list.push_back(x);
        continue;
      }
      value_of[x] = *same;
      x->set_name((*same)->name());  // what `explain` has recorded of it
    }
    if (list.size() == computation->instructions().size()) continue;
    computation->SetInstructions(std::move(list));
  }
  return !value_of.empty();
}

}  // namespace gshard
