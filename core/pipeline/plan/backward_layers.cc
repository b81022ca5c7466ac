// Which layer each instruction of the backward pass belongs to. See layers.h.

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/analysis/gradient_results.h"
#include "core/pipeline/plan/layers.h"
#include "core/pipeline/plan/minimum_cut.h"
#include "core/transforms/branch_flow.h"
#include "ir/hash.h"

namespace gshard::pipeline {
namespace {

// Which operand of a concatenation a row is; one may have a row of each layer.
class OperandNumbers {
 public:
  int64_t Of(const Instruction* concatenation, const Instruction* row) {
    const auto [known, is_new] = numbers_.try_emplace(concatenation);
    for (int64_t i = 0; is_new && i < concatenation->operand_count(); ++i) {
      known->second.try_emplace(concatenation->operand(i), i);
    }
    return known->second.at(row);
  }

 private:
  std::unordered_map<const Instruction*, std::unordered_map<const Instruction*, int64_t>> numbers_;
};

}  // namespace

void LayerGraph::WeightHomes::Add(const Instruction* weight, int32_t layer) {
  int32_t& at = at_[weight->id()];
  if (at < 0) {
    at = static_cast<int32_t>(homes_.size());
    homes_.push_back({layer, {}});
  }
  std::vector<int32_t>& layers = homes_[static_cast<size_t>(at)].layers;
  const auto place = std::ranges::lower_bound(layers, layer);
  if (place == layers.end() || *place != layer) layers.insert(place, layer);
}

int32_t LayerGraph::WeightHomes::LastUpTo(const Instruction* weight, int32_t layer) const {
  if (!Has(weight)) return -1;
  const std::vector<int32_t>& layers = Of(weight);
  const auto after = std::ranges::upper_bound(layers, layer);
  return after == layers.begin() ? -1 : *(after - 1);
}

// The weight behind an operand (WeightOf); of a value that a manual region makes of weights alone
// those that come in for it.
template <typename Visit>
void LayerGraph::ForWeightsBehind(Instruction* operand, Visit visit) const {
  if (Instruction* weight = WeightOf(operand)) return visit(weight);
  auto is_made_inside = [&](const Instruction* x) {
    return regions_.IsInside(x) && phases_.UsesWeights(x) && !phases_.UsesExamples(x);
  };
  if (regions_.empty() || !is_made_inside(operand)) return;
  std::vector<Instruction*> open = {operand};
  std::unordered_set<const Instruction*> seen;
  while (!open.empty()) {
    Instruction* x = open.back();
    open.pop_back();
    if (!seen.insert(x).second) continue;
    if (Instruction* weight = WeightOf(x)) {
      visit(weight);
    } else if (is_made_inside(x)) {
      open.insert(open.end(), x->operands().begin(), x->operands().end());
    }
  }
}

// Results that the header calls gradients, and their parameters.
std::unordered_map<const Instruction*, Instruction*> LayerGraph::GradientsOfWeights() const {
  std::unordered_map<const Instruction*, Instruction*> gradients;
  const std::vector<Instruction*> outputs = OutputsOf(*module_.entry());
  for (auto [result, parameter] : GradientResultsOf(module_)) {
    gradients.emplace(outputs[static_cast<size_t>(result)], module_.entry()->parameter(parameter));
  }
  return gradients;
}

// The layer of the weight that each term's gradient updates: followed through operations on arrays
// of the gradient's size, through the rows of a stack of layers, and through branches, as of an
// optimizer that skips steps. Of a weight that several layers use the last that is not after the
// term's, and the last before the term's.
std::vector<LayerGraph::TermHome> LayerGraph::HomesOfTerms(const WeightHomes& homes) const {
  using Row = std::pair<const Instruction*, int64_t>;
  const auto hash = [](const Row& row) {
    return HashCombine(HashPointer(0, row.first), static_cast<uint64_t>(row.second));
  };
  std::unordered_map<Row, int32_t, decltype(hash)> rows(homes.size(), hash);
  for (const Instruction* row : module_.entry()->instructions()) {
    if (!homes.Has(row)) continue;
    const int32_t layer = homes.FirstAdded(row);
    // bf16 copies of rows are weights
    while (row->opcode() == Opcode::kConvert || row->opcode() == Opcode::kReshape) {
      row = row->operand(0);
    }
    if (row->opcode() != Opcode::kSlice) continue;
    rows[{row->operand(0), row->attributes<SliceAttributes>().starts[0]}] = layer;
  }
  const WeightHomes derived = HomesOfSources(homes);
  const BranchFlow flow(module_);
  auto last_up_to = [&](Instruction* operand, int64_t row, int32_t layer) -> int32_t {
    Instruction* weight = WeightOf(flow.Outside(operand));
    if (weight == nullptr) return -1;
    if (homes.Has(weight)) return homes.LastUpTo(weight, layer);
    if (auto it = rows.find({weight, row}); it != rows.end()) return it->second;
    return derived.LastUpTo(weight, layer);
  };
  OperandNumbers row_in;
  std::vector<TermHome> found(info_.size());
  const auto gradients = GradientsOfWeights();
  std::vector<const Term*> seen_by(info_.size(), nullptr);  // the last of them, by id
  for (const Term& term : terms_) {
    TermHome& home = found[term.value->id()];
    const auto note = [&](Instruction* operand, int64_t row) {
      const int32_t layer = info_[term.value->id()].layer;
      home.last = std::max(home.last, last_up_to(operand, row, layer));
      home.before = std::max(home.before, last_up_to(operand, row, layer - 1));
    };
    struct Step {
      Instruction* value;
      int64_t row;
    };
    std::vector<Step> open = {{phases_.accumulated()[term.accumulated].result, -1}};
    while (!open.empty() && home.last < 0) {
      auto [x, row] = open.back();
      open.pop_back();
      if (std::exchange(seen_by[x->id()], &term) == &term) continue;
      if (auto weight = gradients.find(x); weight != gradients.end()) {
        note(weight->second, row);
      }
      for (Instruction* same : flow.Beyond(x)) open.push_back({same, row});
      for (Instruction* user : flow.UsersOf(x)) {
        const bool is_update =
            user->parent() != module_.entry() || phases_.PhaseOf(user) == Phase::kAfter;
        if (!user->shape()->IsArray() || !is_update) continue;
        int64_t next_row = row;
        if (user->opcode() == Opcode::kConcatenate && x->shape()->rank() > 0 &&
            x->shape()->dim(0) == 1) {
          // Other operands are other rows, of other layers.
          open.push_back({user, row_in.Of(user, x)});
          continue;
        }
        if (user->opcode() == Opcode::kPad && x->shape()->rank() > 0 && x->shape()->dim(0) == 1) {
          next_row = user->attributes<PadAttributes>().padding[0].low;
        } else if (user->shape()->element_count() != x->shape()->element_count() &&
                   !regions_.Leaves(user)) {
          // The gradient of one factor of a weight is this one times the other factor.
          for (Instruction* operand : user->operands()) {
            if (user->opcode() != Opcode::kDot || operand == x) continue;
            note(operand, row);
          }
          continue;
        }
        for (Instruction* operand : user->operands()) note(operand, next_row);
        open.push_back({user, next_row});
      }
    }
  }
  return found;
}

// The weights behind all its operands.
template <typename Visit>
void LayerGraph::ForWeightsOf(const Placed& placed, Visit visit) const {
  for (uint32_t i = placed.begin; i < placed.end; ++i) {
    if (const Instruction* weight = weight_of_[operand_ids_[i]]) {
      visit(weight);
    } else if (!regions_.empty()) {
      ForWeightsBehind(placed.x->operand(i - placed.begin), visit);
    }
  }
}

// Layers whose forward pass uses a weight.
LayerGraph::WeightHomes LayerGraph::HomesOfWeights() const {
  WeightHomes homes(info_.size());
  for (const Placed& placed : placed_) {
    if (placed.is_backward) continue;
    ForWeightsOf(placed,
                 [&](const Instruction* weight) { homes.Add(weight, info_[placed.id].layer); });
  }
  return homes;
}

// Layers whose forward pass uses what is made of a weight before the micro-batches: a rounded copy
// of it, rows of a table of positions.
LayerGraph::WeightHomes LayerGraph::HomesOfSources(const WeightHomes& homes) const {
  WeightHomes sources(info_.size());
  std::vector<const Instruction*> seen_by(info_.size(), nullptr);  // the last weight, by id
  for (const Instruction* weight : module_.entry()->instructions()) {
    if (!homes.Has(weight)) continue;
    std::vector<const Instruction*> open = {weight};
    while (!open.empty()) {
      const Instruction* x = open.back();
      open.pop_back();
      for (const Instruction* operand : x->operands()) {
        if (!phases_.UsesWeights(operand)) continue;
        if (std::exchange(seen_by[operand->id()], weight) == weight) continue;
        for (int32_t layer : homes.Of(weight)) sources.Add(operand, layer);
        open.push_back(operand);
      }
    }
  }
  return sources;
}

// The last layer, not after `layer`, whose forward pass uses a weight that it uses; -1: none.
int32_t LayerGraph::HomeOfOperands(const Placed& placed, const WeightHomes& homes,
                                   int32_t layer) const {
  int32_t home = -1;
  ForWeightsOf(placed, [&](const Instruction* weight) {
    home = std::max(home, homes.LastUpTo(weight, layer));
  });
  return home;
}

// The last layer whose values the backward pass uses: those after it merely add up, so that their
// cotangents are constants.
int32_t LayerGraph::LastUsedByBackward() const {
  int32_t last = -1;
  for (const Placed& placed : placed_) {
    if (!placed.is_backward) continue;
    for (const uint32_t operand : OperandsOf(placed)) {
      const Info& from = info_[operand];
      if (from.is_forward) last = std::max(last, from.layer);
    }
  }
  return last;
}

// Of each backward instruction what follows from its operands alone. Floating: no cotangent is
// behind it yet; `bound` is the last layer that still has what it needs. A free value, such as a
// mask that a checkpoint samples again, makes a cotangent of weights only: there it is the first of
// a loss that merely adds up.
std::vector<LayerGraph::BackwardNeeds> LayerGraph::FindNeeds(const WeightHomes& homes) const {
  const int32_t last = static_cast<int32_t>(layers_.size()) - 1, end = LastUsedByBackward();
  std::vector<BackwardNeeds> needs(info_.size());
  for (const Placed& placed : placed_) {
    if (!placed.is_backward) continue;
    BackwardNeeds own;
    own.bound = last;
    own.home = HomeOfOperands(placed, homes, last);
    own.is_free = !info_[placed.id].is_target && own.home < 0 &&
                  std::ranges::all_of(OperandsOf(placed), [&](uint32_t operand) {
                    const Info& from = info_[operand];
                    return !from.is_forward && (!from.is_placed || needs[operand].is_free);
                  });
    // The forward pass ends with values of that layer: what follows from them is a cotangent.
    bool cotangent = info_[placed.id].is_target || phases_.IsEntering(placed.x);
    for (const uint32_t operand : OperandsOf(placed)) {
      const Info& from = info_[operand];
      if (from.is_forward) {
        cotangent = cotangent || from.layer == end;
        own.bound = std::min(own.bound, from.last_forward);
        own.made = std::max(own.made, from.layer);
      } else if (from.is_placed) {
        const BackwardNeeds& other = needs[operand];
        cotangent =
            cotangent || !other.floats || (other.is_free ? own.home >= 0 : other.bound == last);
        if (!other.floats) continue;
        own.bound = std::min(own.bound, other.bound);
        own.made = std::max(own.made, other.made);
      }
    }
    if (int32_t home = HomeOfOperands(placed, homes, own.bound); home >= 0 && !cotangent) {
      own.bound = home;
    }
    // So is what a layer needs of what a later one has made.
    own.floats = !cotangent && own.made <= own.bound;
    needs[placed.id] = own;
  }
  return needs;
}

// What an instruction needs of a later layer than its own is computed there, and sent.
void LayerGraph::SettleFloating(std::vector<BackwardNeeds>& needs) {
  for (const Placed& placed : placed_) {
    const int32_t layer = info_[placed.id].layer;
    if (!placed.is_backward || layer < 0) continue;
    for (const uint32_t operand : OperandsOf(placed)) {
      BackwardNeeds& own = needs[operand];
      if (!own.floats || own.made <= layer) continue;
      own.floats = false;
      info_[operand].layer = own.bound;
    }
  }
}

// What follows from each backward instruction needs forward values and weights of these layers.
void LayerGraph::FindFloors(std::vector<BackwardNeeds>& needs) const {
  for (const Placed& placed : placed_) {
    if (!placed.is_backward) continue;
    int32_t made = 0;
    for (const uint32_t operand : OperandsOf(placed)) {
      const Info& from = info_[operand];
      if (from.is_forward) made = std::max(made, from.layer);
      const BackwardNeeds& other = needs[operand];
      if (other.floats) made = std::max(made, other.made);
    }
    needs[placed.id].made = made;
  }
  for (size_t i = placed_.size(); i-- > 0;) {
    if (!placed_[i].is_backward) continue;
    BackwardNeeds& own = needs[placed_[i].id];
    own.floor = std::max({own.floor, own.made, own.home});
    for (const uint32_t operand : OperandsOf(placed_[i])) {
      int32_t& floor = needs[operand].floor;
      if (info_[operand].is_backward) floor = std::max(floor, own.floor);
    }
  }
}

// The last layer whose weights anything that follows from a backward instruction updates.
std::vector<int32_t> LayerGraph::FindUpdated(const WeightHomes& homes) {
  const int32_t last = static_cast<int32_t>(layers_.size()) - 1;
  const auto term_homes = HomesOfTerms(homes);
  std::vector<int32_t> updated(info_.size(), -1);
  for (size_t i = placed_.size(); i-- > 0;) {
    if (!placed_[i].is_backward) continue;
    int32_t& own = updated[placed_[i].id];
    if (info_[placed_[i].id].is_target) {
      const TermHome& home = term_homes[placed_[i].id];
      Info& info = info_[placed_[i].id];
      info.may_stay = home.last == info.layer && home.before >= 0;
      own = std::max(own, home.last < 0 ? last : info.may_stay ? home.before : home.last);
    }
    if (own < 0) own = last;
    for (const uint32_t operand : OperandsOf(placed_[i])) {
      if (info_[operand].is_backward) updated[operand] = std::max(updated[operand], own);
    }
  }
  return updated;
}

// As late as an instruction has all it needs; then down to the layers whose weights its results
// update, where that makes what crosses between layers no larger.
void LayerGraph::PlaceBackward() {
  const int32_t last = static_cast<int32_t>(layers_.size()) - 1;
  const WeightHomes homes = HomesOfWeights();
  auto needs = FindNeeds(homes);
  std::vector<std::vector<Instruction*>> of_layer(layers_.size());
  for (const Placed& placed : placed_) {
    if (!placed.is_backward || needs[placed.id].floats) continue;
    int32_t layer = last;
    for (const uint32_t operand : OperandsOf(placed)) {
      const Info& from = info_[operand];
      if (from.is_forward) {
        layer = std::min(layer, from.last_forward);
      } else if (from.is_placed) {
        layer = std::min(layer, from.layer >= 0 ? from.layer : needs[operand].bound);
      }
    }
    if (int32_t home = HomeOfOperands(placed, homes, layer); home >= 0) layer = home;
    info_[placed.id].layer = layer;
  }
  SettleFloating(needs);
  FindFloors(needs);
  for (const Placed& placed : placed_) {
    const int32_t layer = info_[placed.id].layer;
    if (placed.is_backward && layer >= 0) of_layer[static_cast<size_t>(layer)].push_back(placed.x);
  }
  std::vector<int32_t> lowest = FindUpdated(homes);
  for (size_t i = 0; i < lowest.size(); ++i) lowest[i] = std::max(lowest[i], needs[i].floor);
  for (const Placed& placed : placed_) {
    if (phases_.IsEntering(placed.x)) lowest[placed.id] = last;
  }
  std::vector<int32_t> moves_from(info_.size(), -1);
  for (int32_t layer = last; layer > 0; --layer) {
    LowerBackward(of_layer[static_cast<size_t>(layer)], layer, lowest, moves_from);
  }
  if (keeps_alike_) RaiseUnlike(of_layer);
  for (const Placed& placed : placed_) {
    int32_t& layer = info_[placed.id].layer;
    if (!placed.is_backward || layer < 0) continue;
    for (const uint32_t operand : OperandsOf(placed)) {
      const Info& from = info_[operand];
      if (from.is_backward && from.layer >= 0) layer = std::min(layer, from.layer);
    }
  }
  for (const Placed& placed : placed_) {
    if (placed.is_element && placed.is_backward) {
      info_[placed.id].layer = info_[OperandsOf(placed)[0]].layer;
    }
  }
}

// The layer behind the equal ones may be a loss without weights. From it goes down what also goes
// down from one of these: else a part of the loss's cotangent were the last equal layer's alone,
// and that unlike the others.
void LayerGraph::RaiseUnlike(const std::vector<std::vector<Instruction*>>& of_layer) {
  const auto is_repeated = [](const Layer& layer) { return layer.is_repeated; };
  const auto reverse = std::find_if(layers_.rbegin(), layers_.rend(), is_repeated);
  const auto after = static_cast<size_t>(layers_.rend() - reverse);
  if (after == 0 || after == layers_.size()) return;
  auto moves = [&](const Instruction* x, size_t from) {
    return Of(x).layer >= 0 && Of(x).layer < static_cast<int32_t>(from);
  };
  std::map<std::pair<Opcode, const Shape*>, int64_t> from_equal;
  for (const Instruction* x : of_layer[after - 1]) {
    if (moves(x, after - 1)) ++from_equal[{x->opcode(), x->shape()->bare()}];
  }
  const std::vector<Instruction*>& list = of_layer[after];
  // What was made of forward values alone is a part of the cotangent only if it is used for nothing
  // else: the sign of what the last layer hands on, if that is a penalty of the loss's.
  std::unordered_set<const Instruction*> of_cotangent;
  for (const Instruction* x : list) {
    const bool follows = std::ranges::any_of(x->operands(), [&](const Instruction* operand) {
      return of_cotangent.contains(operand) ||
             (Of(operand).is_backward && Of(operand).layer >= static_cast<int32_t>(after));
    });
    if (follows) of_cotangent.insert(x);
  }
  for (size_t i = list.size(); i-- > 0;) {
    const Instruction* x = list[i];
    if (!moves(x, after) || Of(x).is_target) continue;
    const auto users = users_.of(x);
    const auto stays = [&](const Instruction* user) {
      return Of(user).is_backward && Of(user).layer == static_cast<int32_t>(after);
    };
    if (!of_cotangent.contains(x)) {
      if (users.empty() || !std::ranges::all_of(users, stays)) continue;
    } else if (!std::ranges::any_of(users, stays) &&
               from_equal[{x->opcode(), x->shape()->bare()}]-- > 0) {
      continue;
    }
    Of(x).layer = static_cast<int32_t>(after);
  }
}

// Which of a layer's backward instructions go to the layers below: of those that can, the set whose
// operands in this layer and later ones are fewest bytes (a minimum cut); of equal ones the
// largest. `moves_from`, by id: the layer below which an instruction can go.
void LayerGraph::LowerBackward(const std::vector<Instruction*>& list, int32_t layer,
                               const std::vector<int32_t>& lowest,
                               std::vector<int32_t>& moves_from) {
  auto can = [&](const Instruction* x) { return moves_from[x->id()] == layer; };
  bool any = false;
  for (size_t i = list.size(); i-- > 0;) {
    const Instruction* x = list[i];
    auto stays = [&](const Instruction* user) {
      return Of(user).is_backward && Of(user).layer == layer && !can(user);
    };
    auto users = users_.of(x);
    if (lowest[x->id()] >= layer || std::any_of(users.begin(), users.end(), stays)) continue;
    moves_from[x->id()] = layer;
    any = true;
  }
  if (!any) return;
  FlowNetwork network;
  const int source = network.AddNode(), sink = network.AddNode();
  std::unordered_map<const Instruction*, int> entry_of;  // the node after it is its exit
  auto node = [&](const Instruction* x) {
    auto [it, fresh] = entry_of.try_emplace(x, 0);
    if (!fresh) return it->second;
    it->second = network.AddNode();
    const int exit = network.AddNode();
    const bool moves = can(x) && (Of(x).is_target || !x->shape()->IsArray());
    network.AddEdge(it->second, exit,
                    moves ? FlowNetwork::kUncuttable : regions_.WholeBytes(x) + 1);
    for (const Instruction* user : users_.of(x)) {
      if (!Of(user).is_backward || Of(user).layer < 0 || Of(user).layer >= layer) continue;
      network.AddEdge(exit, sink, FlowNetwork::kUncuttable);
      break;
    }
    if (!can(x)) network.AddEdge(source, it->second, FlowNetwork::kUncuttable);
    if (Of(x).is_target && can(x) && !Of(x).may_stay) {
      network.AddEdge(exit, sink, FlowNetwork::kUncuttable);
    }
    return it->second;
  };
  for (const Instruction* x : list) {
    if (!can(x)) continue;
    const int to = node(x);
    for (const Instruction* operand : x->operands()) {
      // What has come down to this layer would go on, too.
      if (!Of(operand).is_backward || Of(operand).layer < layer) continue;
      network.AddEdge(node(operand) + 1, to, FlowNetwork::kUncuttable);
    }
  }
  const std::vector<bool> stays = network.SourceSide(source, sink);
  for (Instruction* x : list) {
    if (!can(x) || stays[static_cast<size_t>(entry_of.at(x))]) continue;
    Of(x).layer = lowest[x->id()];
  }
}

}  // namespace gshard::pipeline
