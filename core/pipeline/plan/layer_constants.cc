#include "core/pipeline/plan/layer_constants.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "core/transforms/rewriter.h"
#include "ir/equality.h"
#include "ir/hash.h"
#include "ir/traversal.h"

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
    const bool is_replaced = std::any_of(
        own.begin(), own.end(),
        [&, &one = use](const ConstantUse* other) { return takes_its_place(one, *other); });
    if (by_all_inside(use) && use.layers != repeated && is_replaced) add(use);
  }
  return found;
}

// Of an operation in some layer.
struct Place {
  Instruction* user = nullptr;
  int64_t operand = 0;
};

// What corresponds in all layers, but for the order: opcode, shapes, operand, and the pass.
using Role = std::tuple<Opcode, const Shape*, const Shape*, int64_t, bool>;
using PlacesByLayer = std::map<int64_t, std::vector<Place>>;

std::map<Role, PlacesByLayer> FindPlaces(const Module& module, const ConstantNumbers& numbers,
                                         const LayerGraph& layers) {
  std::map<Role, PlacesByLayer> places;
  for (Instruction* x : module.entry()->instructions()) {
    const int64_t layer = layers.LayerOf(x);
    if (layer < 0 || !layers.layers()[static_cast<size_t>(layer)].is_repeated) continue;
    for (int64_t k = 0; k < x->operand_count(); ++k) {
      if (!numbers.IsConstant(x->operand(k))) continue;
      const Role role{x->opcode(), x->shape()->bare(), x->operand(k)->shape()->bare(), k,
                      layers.IsBackward(x)};
      places[role][layer].push_back({x, k});
    }
  }
  return places;
}

// Layers with as many places as most have.
PlacesByLayer OfEqualLayers(const PlacesByLayer& all) {
  std::map<size_t, int64_t> votes;
  for (const auto& [layer, places] : all) ++votes[places.size()];
  const auto most = std::ranges::max_element(
      votes, {}, [](const std::pair<const size_t, int64_t>& vote) { return vote.second; });
  PlacesByLayer equal;
  for (const auto& [layer, places] : all) {
    if (places.size() == most->first) equal.emplace(layer, places);
  }
  return equal;
}

// Puts copies of constants, and of what rearranges them, behind their originals.
class ConstantCopies {
 public:
  explicit ConstantCopies(Module& module) : module_(module) {}

  // `values`: by layer, the numbers of the constants in this place. Places of a layer whose values
  // are nowhere known to differ have one copy.
  void Split(int64_t layer, const Place& place, const std::map<int64_t, int64_t>& values) {
    std::vector<Instruction*> chain;
    for (Instruction* x = place.user->operand(place.operand);; x = x->operand(0)) {
      chain.push_back(x);
      if (x == LayerGraph::BeforeRearranging(x)) break;
    }
    Instruction* source = chain.back();
    Copy& copy = CopyFor(layer, source, values);
    Instruction* last = nullptr;
    for (size_t i = chain.size(); i-- > 0;) {
      auto [known, is_new] = copy.of.try_emplace(chain[i], nullptr);
      if (is_new) {
        std::vector<Instruction*> operands(chain[i]->operands().begin(),
                                           chain[i]->operands().end());
        if (last != nullptr) operands[0] = last;
        known->second = module_.Clone(module_.entry(), chain[i], operands,
                                      module_.UniqueName(chain[i]->name()));
        behind_[source].push_back(known->second);
        if (chain[i] == source) copies_.insert(known->second);
      }
      last = known->second;
    }
    place.user->set_operand(place.operand, last);
  }

  std::unordered_set<const Instruction*> Finish() {
    if (behind_.empty()) return {};
    std::unordered_set<const Instruction*> made;
    for (const auto& [source, list] : behind_) made.insert(list.begin(), list.end());
    std::vector<Instruction*> order;
    for (Instruction* x : module_.entry()->instructions()) {
      if (made.contains(x)) continue;
      order.push_back(x);
      if (auto it = behind_.find(x); it != behind_.end()) {
        order.insert(order.end(), it->second.begin(), it->second.end());
      }
    }
    module_.entry()->SetInstructions(std::move(order));
    return copies_;
  }

 private:
  struct Copy {
    std::map<int64_t, int64_t> values;
    std::unordered_map<const Instruction*, Instruction*> of;
  };

  Copy& CopyFor(int64_t layer, const Instruction* source,
                const std::map<int64_t, int64_t>& values) {
    std::vector<Copy>& known = of_layer_[{layer, source}];
    for (Copy& copy : known) {
      const bool differ = std::ranges::any_of(values, [&](const auto& value) {
        auto it = copy.values.find(value.first);
        return it != copy.values.end() && it->second != value.second;
      });
      if (differ) continue;
      copy.values.insert(values.begin(), values.end());
      return copy;
    }
    return known.emplace_back(Copy{values, {}});
  }

  Module& module_;
  std::map<std::pair<int64_t, const Instruction*>, std::vector<Copy>> of_layer_;
  std::unordered_map<const Instruction*, std::vector<Instruction*>> behind_;
  std::unordered_set<const Instruction*> copies_;
};

// The dim of which a slice takes a part, element by element; -1: there are none or several.
int64_t SlicedDim(const Instruction* x) {
  int64_t found = -1;
  for (int64_t d = 0; d < x->shape()->rank(); ++d) {
    if (x->shape()->dim(d) == x->operand(0)->shape()->dim(d)) continue;
    const int64_t stride = x->attributes<SliceAttributes>().strides[static_cast<size_t>(d)];
    if (found >= 0 || stride != 1) return -1;
    found = d;
  }
  return found;
}

// The repeated layer that makes `x`, or those that compute with it where none does.
std::set<int64_t> ReadersOf(const Instruction* x, const LayerGraph& layers, const Users& users) {
  std::set<int64_t> found;
  std::unordered_set<const Instruction*> seen;
  std::vector<const Instruction*> open = {x};
  while (!open.empty()) {
    const Instruction* value = open.back();
    open.pop_back();
    const int64_t layer = layers.LayerOf(value);
    if (layer < 0) {
      for (const Instruction* user : users.of(value)) {
        if (seen.insert(user).second) open.push_back(user);
      }
    } else if (layers.layers()[static_cast<size_t>(layer)].is_repeated) {
      found.insert(layer);
    }
  }
  return found;
}

}  // namespace

bool NumberLayerSlices(Module& module, const Phases& phases, const LayerGraph& layers) {
  const Users users(*module.entry());
  std::map<std::tuple<const Instruction*, const Shape*, int64_t>, std::vector<const Instruction*>>
      groups;
  for (const Instruction* x : module.entry()->instructions()) {
    if (x->opcode() != Opcode::kSlice || !phases.UsesExamples(x) || SlicedDim(x) < 0) continue;
    groups[{x->operand(0), x->shape()->bare(), SlicedDim(x)}].push_back(x);
  }
  std::unordered_set<const Instruction*> numbered;
  for (const auto& [role, slices] : groups) {
    std::set<int64_t> readers;
    std::vector<const Instruction*> of_layers;
    bool are_apart = true;  // no two have a layer in common
    for (const Instruction* x : slices) {
      const std::set<int64_t> own = ReadersOf(x, layers, users);
      for (const int64_t layer : own) are_apart = readers.insert(layer).second && are_apart;
      if (!own.empty()) of_layers.push_back(x);
    }
    if (are_apart && readers.size() > 1) numbered.insert(of_layers.begin(), of_layers.end());
  }
  if (numbered.empty()) return false;
  return RewriteModule(module, [&](Instruction* x, Rewriter& rewriter) -> Instruction* {
    if (!numbered.contains(x)) return x;
    Builder& b = rewriter.builder();
    const int64_t dim = SlicedDim(x);
    const int64_t first[] = {x->attributes<SliceAttributes>().starts[static_cast<size_t>(dim)]};
    std::vector<Instruction*> starts(x->shape()->dims().size(), b.ScalarInt(DType::kS32, 0));
    starts[static_cast<size_t>(dim)] = b.Reshape(b.IntegerTable(DType::kS32, first), {});
    return b.DynamicSlice(x->operand(0), starts, x->shape()->dims());
  });
}

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

std::unordered_set<const Instruction*> SplitLayerConstants(Module& module, const Phases& phases,
                                                           const LayerGraph& layers) {
  const std::unordered_set<const Instruction*> own = FindLayerConstants(module, phases, layers);
  if (own.empty()) return {};
  ConstantNumbers numbers(phases);
  for (const Instruction* x : module.entry()->instructions()) numbers.Add(x);
  auto source_of = [](const Place& place) {
    return LayerGraph::BeforeRearranging(place.user->operand(place.operand));
  };
  struct Shared {
    int64_t layer;
    Place place;
    std::map<int64_t, int64_t> values;
  };
  std::vector<Shared> shared;
  for (const auto& [role, all] : FindPlaces(module, numbers, layers)) {
    const PlacesByLayer equal = OfEqualLayers(all);
    for (size_t n = 0; n < equal.begin()->second.size(); ++n) {
      std::map<int64_t, int64_t> values;
      bool is_own = false;
      for (const auto& [layer, places] : equal) {
        const Instruction* source = source_of(places[n]);
        values[layer] = numbers.Of(source);
        is_own = is_own || own.contains(source);
      }
      if (!is_own) continue;
      for (const auto& [layer, places] : equal) {
        if (!own.contains(source_of(places[n]))) shared.push_back({layer, places[n], values});
      }
    }
  }
  ConstantCopies copies(module);
  for (const Shared& use : shared) copies.Split(use.layer, use.place, use.values);
  return copies.Finish();
}

}  // namespace gshard::pipeline
