#include "core/pipeline/plan/layer_constants.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/equality.h"
#include "ir/hash.h"

namespace gshard::pipeline {
namespace {

// Equal expressions of constants have one number.
class ConstantNumbers {
 public:
  explicit ConstantNumbers(const Phases& phases) : phases_(phases) {}

  bool IsConstant(const Instruction* x) const {
    return !phases_.UsesWeights(x) && !phases_.UsesExamples(x) && x->shape()->IsArray();
  }

  // Operands first.
  void Add(const Instruction* x) {
    if (phases_.UsesWeights(x) || phases_.UsesExamples(x)) return;
    size_t hash = HashPointer(HashCombine(0, static_cast<uint64_t>(x->opcode())), x->shape());
    for (const Instruction* operand : x->operands()) {
      hash = HashCombine(hash, static_cast<uint64_t>(number_.at(operand)));
    }
    std::vector<const Instruction*>& alike = by_hash_[hash];
    for (const Instruction* other : alike) {
      if (Same(*x, *other)) {
        number_[x] = number_.at(other);
        return;
      }
    }
    alike.push_back(x);
    number_[x] = static_cast<int64_t>(number_.size());
  }

  int64_t Of(const Instruction* x) const { return number_.at(x); }

 private:
  bool Same(const Instruction& a, const Instruction& b) const {
    if (a.opcode() != b.opcode() || a.shape() != b.shape() || !SameOperation(a, b)) return false;
    return std::equal(
        a.operands().begin(), a.operands().end(), b.operands().begin(), b.operands().end(),
        [&](const Instruction* x, const Instruction* y) { return number_.at(x) == number_.at(y); });
  }

  const Phases& phases_;
  std::unordered_map<size_t, std::vector<const Instruction*>> by_hash_;
  std::unordered_map<const Instruction*, int64_t> number_;
};

struct ConstantUse {
  std::set<int64_t> layers;
  std::unordered_set<const Instruction*> values;
};

// Those that differ between layers. One that all layers but the first or the last use differs if
// these have another in its place.
std::unordered_set<const Instruction*> OwnOf(const std::map<int64_t, ConstantUse>& uses,
                                             const std::set<int64_t>& repeated) {
  std::set<int64_t> inner = repeated;
  inner.erase(*repeated.begin()), inner.erase(*repeated.rbegin());
  auto by_all_inside = [&](const ConstantUse& use) {
    return !inner.empty() &&
           std::includes(use.layers.begin(), use.layers.end(), inner.begin(), inner.end());
  };
  std::vector<const ConstantUse*> own;
  for (const auto& [number, use] : uses) {
    if (!by_all_inside(use)) own.push_back(&use);
  }
  auto takes_its_place = [&](const ConstantUse& use, const ConstantUse& other) {
    return (*use.values.begin())->shape() == (*other.values.begin())->shape() &&
           std::none_of(other.layers.begin(), other.layers.end(),
                        [&](int64_t layer) { return use.layers.count(layer) != 0; });
  };
  std::unordered_set<const Instruction*> found;
  auto add = [&](const ConstantUse& use) { found.insert(use.values.begin(), use.values.end()); };
  for (const ConstantUse* use : own) add(*use);
  for (const auto& [number, use] : uses) {
    const bool is_replaced = std::any_of(own.begin(), own.end(), [&](const ConstantUse* other) {
      return takes_its_place(use, *other);
    });
    if (by_all_inside(use) && use.layers != repeated && is_replaced) add(use);
  }
  return found;
}

}  // namespace

std::unordered_set<const Instruction*> FindLayerConstants(const Module& module,
                                                          const Phases& phases,
                                                          const LayerGraph& layers) {
  std::set<int64_t> repeated;
  for (int64_t layer = 0; layer < layers.count(); ++layer) {
    if (layers.layers()[static_cast<size_t>(layer)].is_repeated) repeated.insert(layer);
  }
  if (repeated.size() < 2) return {};
  ConstantNumbers numbers(phases);
  std::vector<std::vector<Instruction*>> open(static_cast<size_t>(layers.count()));
  for (Instruction* x : module.entry()->instructions()) {
    numbers.Add(x);
    const int64_t layer = layers.LayerOf(x);
    if (repeated.count(layer) != 0) open[static_cast<size_t>(layer)].push_back(x);
  }
  std::map<int64_t, ConstantUse> uses;  // by the constant's number
  for (int64_t layer : repeated) {
    std::unordered_set<const Instruction*> seen;
    std::vector<Instruction*>& list = open[static_cast<size_t>(layer)];
    while (!list.empty()) {
      const Instruction* x = list.back();
      list.pop_back();
      for (Instruction* operand : x->operands()) {
        // What other layers make comes from them; weights are data already.
        if (layers.LayerOf(operand) >= 0 || !seen.insert(operand).second) continue;
        if (numbers.IsConstant(operand)) {
          const Instruction* source = LayerGraph::BeforeRearranging(operand);
          ConstantUse& use = uses[numbers.Of(source)];
          use.layers.insert(layer);
          use.values.insert(source);
        } else if (phases.UsesExamples(operand)) {
          list.push_back(operand);
        }
      }
    }
  }
  return OwnOf(uses, repeated);
}

}  // namespace gshard::pipeline
