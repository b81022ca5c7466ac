#include "core/pipeline/alike/own_activations.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/transforms/rewriter.h"
#include "ir/traversal.h"

namespace gshard::pipeline {
namespace {

constexpr size_t kMaxOperations = 16;  // elementwise, between the value and what is made of it

// What elementwise operations make of one value, in the order of the text: for the forward pass,
// and of that alone for the backward pass.
struct Activation {
  std::vector<Instruction*> made;
  const Instruction* source = nullptr;  // that value
  int64_t layer = 0;
};

class Finder {
 public:
  Finder(const Module& module, const Phases& phases, const LayerGraph& layers)
      : module_(module), phases_(phases), layers_(layers), users_(*module.entry()) {
    size_t position = 0;
    for (const Instruction* x : module.entry()->instructions()) position_[x] = position++;
  }

  std::vector<Activation> Find() {
    std::vector<Activation> found;
    std::unordered_set<const Instruction*> taken;
    const auto list = module_.entry()->instructions();
    for (size_t i = list.size(); i-- > 0;) {
      Instruction* x = list[i];
      if (!IsForward(x) || !IsElementwise(x->opcode()) || taken.contains(x)) continue;
      if (!IsUsedLater(x)) continue;
      Activation activation = BehindOf(x);
      if (activation.made.empty()) continue;
      AddDerivatives(activation);
      if (!HasDerivative(activation, x)) continue;
      taken.insert(activation.made.begin(), activation.made.end());
      found.push_back(std::move(activation));
    }
    return found;
  }

 private:
  bool IsForward(const Instruction* x) const {
    return layers_.IsPlaced(x) && !layers_.IsBackward(x) && layers_.LayerOf(x) >= 0 &&
           x->shape()->IsArray();
  }
  bool IsUsedLater(const Instruction* x) const {
    return std::ranges::any_of(users_.of(x), [&](const Instruction* user) {
      return IsForward(user) && layers_.LayerOf(user) > layers_.LayerOf(x);
    });
  }

  // The operations from the nearest single value on; none: there is no such value, or it is larger.
  Activation BehindOf(Instruction* x) const {
    std::map<size_t, Instruction*> leaves = {{position_.at(x), x}}, made;
    while (made.empty() || leaves.size() > 1) {
      if (leaves.empty() || made.size() > kMaxOperations) return {};
      Instruction* last = leaves.rbegin()->second;
      leaves.erase(std::prev(leaves.end()));
      if (!IsElementwise(last->opcode()) || layers_.LayerOf(last) != layers_.LayerOf(x)) return {};
      made.emplace(position_.at(last), last);
      for (Instruction* operand : last->operands()) {
        if (IsForward(operand)) {
          leaves.emplace(position_.at(operand), operand);
        } else if (phases_.UsesExamples(operand) || phases_.UsesWeights(operand)) {
          return {};
        }
      }
    }
    if (leaves.begin()->second->shape()->byte_size() > x->shape()->byte_size()) return {};
    Activation activation;
    for (const auto& [position, each] : made) activation.made.push_back(each);
    activation.source = leaves.begin()->second;
    activation.layer = layers_.LayerOf(x);
    return activation;
  }

  // What the backward pass computes of it without a cotangent.
  void AddDerivatives(Activation& activation) const {
    std::unordered_set<const Instruction*> made(activation.made.begin(), activation.made.end());
    for (Instruction* x : module_.entry()->instructions()) {
      const bool floats = layers_.IsPlaced(x) && layers_.IsBackward(x) && layers_.LayerOf(x) < 0;
      if (!floats || !IsElementwise(x->opcode())) continue;
      const bool is_of_it = std::ranges::all_of(x->operands(), [&](const Instruction* operand) {
        return made.contains(operand) ||
               (!phases_.UsesExamples(operand) && !phases_.UsesWeights(operand));
      });
      if (!is_of_it) continue;
      made.insert(x);
      activation.made.push_back(x);
    }
    std::ranges::sort(activation.made, {}, [&](const Instruction* x) { return position_.at(x); });
  }

  // Does the backward pass use more of it than the result?
  bool HasDerivative(const Activation& activation, const Instruction* result) const {
    return std::ranges::any_of(activation.made, [&](const Instruction* x) {
      return x != result && std::ranges::any_of(users_.of(x), [&](const Instruction* user) {
               return layers_.IsPlaced(user) && layers_.IsBackward(user);
             });
    });
  }

  const Module& module_;
  const Phases& phases_;
  const LayerGraph& layers_;
  Users users_;
  std::unordered_map<const Instruction*, size_t> position_;
};

// The layer in which an instruction uses activations that all layers may compute: a backward one in
// that of the cotangents it has, which may have been sent on for the activation's sake only.
class UserLayers {
 public:
  UserLayers(const Module& module, const LayerGraph& layers,
             const std::unordered_set<const Instruction*>& activations) {
    for (const Instruction* x : module.entry()->instructions()) {
      if (!layers.IsPlaced(x)) continue;
      int64_t& layer = layer_[x] = layers.LayerOf(x);
      if (!layers.IsBackward(x)) continue;
      int64_t lowest = -1;
      bool uses = false;
      for (const Instruction* operand : x->operands()) {
        uses = uses || activations.contains(operand);
        const auto known = layer_.find(operand);
        if (known == layer_.end() || !layers.IsBackward(operand) || known->second < 0) continue;
        lowest = lowest < 0 ? known->second : std::min(lowest, known->second);
      }
      if (uses && lowest > layer) layer = lowest;
    }
  }
  int64_t Of(const Instruction* x) const {
    const auto known = layer_.find(x);
    return known == layer_.end() ? -1 : known->second;
  }

 private:
  std::unordered_map<const Instruction*, int64_t> layer_;
};

}  // namespace

bool ComputeActivationsInEachLayer(Module& module, const Phases& phases, const LayerGraph& layers) {
  const std::vector<Activation> found = Finder(module, phases, layers).Find();
  std::unordered_map<const Instruction*, const Activation*> activation_of;
  std::unordered_set<const Instruction*> all;
  for (const Activation& activation : found) {
    for (const Instruction* x : activation.made) activation_of.emplace(x, &activation);
    all.insert(activation.made.begin(), activation.made.end());
  }
  std::unordered_set<const Instruction*> with_sources = all;
  for (const Activation& activation : found) with_sources.insert(activation.source);
  const UserLayers user_layers(module, layers, with_sources);
  struct Use {
    Instruction* user;
    int64_t operand, layer;
  };
  std::vector<Use> uses;
  std::unordered_map<const Activation*, std::set<int64_t>> needed;  // layers
  for (Instruction* user : module.entry()->instructions()) {
    for (int64_t i = 0; i < user->operand_count() && !all.contains(user); ++i) {
      const auto activation = activation_of.find(user->operand(i));
      if (activation == activation_of.end()) continue;
      const int64_t layer = user_layers.Of(user);
      if (layer <= activation->second->layer) continue;
      uses.push_back({user, i, layer});
      needed[activation->second].insert(layer);
    }
  }
  std::map<std::pair<const Instruction*, int64_t>, Instruction*> copies;
  InsertAfterEach(module, module.entry(), [&](Instruction* x, Builder& builder) -> Instruction* {
    const auto activation = activation_of.find(x);
    if (activation == activation_of.end()) return x;
    for (int64_t layer : needed[activation->second]) {
      std::vector<Instruction*> operands;
      for (Instruction* operand : x->operands()) {
        const auto copy = copies.find({operand, layer});
        operands.push_back(copy == copies.end() ? operand : copy->second);
      }
      copies[{x, layer}] = builder.CloneWith(x, operands);
    }
    return x;
  });
  for (const Use& use : uses) {
    use.user->set_operand(use.operand, copies.at({use.user->operand(use.operand), use.layer}));
  }
  return !uses.empty();
}

}  // namespace gshard::pipeline
