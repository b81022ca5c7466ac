// See alike_values.h.

#include "core/autoshard/alike_values.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "ir/dims.h"
#include "ir/op_traits.h"

namespace gshard::autoshard {
namespace {

// A weight's product, its bias and what comes next: it tells the weights of one layer apart.
constexpr size_t kSteps = 4;
// Earlier rounds cannot tell them apart.
constexpr size_t kLeastSteps = 2;

using Key = std::vector<int64_t>;

// Numbers keys in the order in which they come.
class Numbers {
 public:
  int Of(Key key) {
    return numbers_.try_emplace(std::move(key), static_cast<int>(numbers_.size())).first->second;
  }

 private:
  std::map<Key, int> numbers_;
};

Key FirstKey(const Instruction& x) {
  Key key = {static_cast<int64_t>(x.opcode()), x.shape()->leaf_count()};
  if (!x.shape()->IsArray()) return key;
  key.push_back(static_cast<int64_t>(x.shape()->dtype()));
  key.insert(key.end(), x.shape()->dims().begin(), x.shape()->dims().end());
  return key;
}

// A tuple's elements have nothing to do with each other, nor has their order.
bool IsTuple(const Instruction& x) { return x.opcode() == Opcode::kTuple; }

Key NextKey(const Instruction& x, std::span<Instruction* const> users,
            const std::vector<int>& kinds) {
  Key key = {kinds[x.id()]};
  if (IsTuple(x)) return key;
  for (const Instruction* operand : x.operands()) key.push_back(kinds[operand->id()]);
  Key of_users;
  for (const Instruction* user : users) {
    for (int64_t i = 0; !IsTuple(*user) && i < user->operand_count(); ++i) {
      if (user->operand(i) != &x) continue;
      of_users.push_back((int64_t{kinds[user->id()]} << 16) + i);
    }
  }
  std::ranges::sort(of_users);
  key.push_back(-1);
  key.insert(key.end(), of_users.begin(), of_users.end());
  return key;
}

}  // namespace

KindsByRound KindsByUse(const Module& module, const Users& users) {
  KindsByRound kinds(kSteps + 1, std::vector<int>(module.instruction_limit(), -1));
  for (size_t round = 0; round < kinds.size(); ++round) {
    Numbers numbers;
    for (const Computation* computation : module.computations()) {
      for (const Instruction* x : computation->instructions()) {
        Key key = round == 0 ? FirstKey(*x) : NextKey(*x, users.of(x), kinds[round - 1]);
        kinds[round][x->id()] = numbers.Of(std::move(key));
      }
    }
  }
  return kinds;
}

std::vector<std::vector<const Instruction*>> AlikeValues(
    const std::vector<const Instruction*>& values, const KindsByRound& kinds, size_t least) {
  std::vector<std::vector<const Instruction*>> sets;
  std::map<const Instruction*, size_t> set_of;
  for (size_t round = kinds.size(); round-- > 1;) {
    std::map<int, std::vector<const Instruction*>> by_kind;
    for (const Instruction* x : values) by_kind[kinds[round][x->id()]].push_back(x);
    for (const auto& [kind, alike] : by_kind) {
      std::set<size_t> known;
      for (const Instruction* x : alike) {
        if (set_of.contains(x)) known.insert(set_of[x]);
      }
      const bool is_new = known.empty() && alike.size() >= least && round >= kLeastSteps;
      if (!is_new && known.size() != 1) continue;
      const size_t set = is_new ? sets.size() : *known.begin();
      if (is_new) sets.emplace_back();
      for (const Instruction* x : alike) {
        if (set_of.try_emplace(x, set).second) sets[set].push_back(x);
      }
    }
  }
  return sets;
}

bool FeedsProduct(const Instruction* x, const Users& users) {
  return std::ranges::any_of(users.of(x), [&](const Instruction* user) {
    if (IsProduct(user->opcode())) return true;
    const bool passes = MovesOneArray(user->opcode()) || user->opcode() == Opcode::kConvert;
    return passes && user->operand(0) == x && FeedsProduct(user, users);
  });
}

}  // namespace gshard::autoshard
