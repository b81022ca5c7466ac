#include "core/pipeline/emit/stages.h"

#include <algorithm>

#include "core/pipeline/emit/kept_values.h"
#include "core/pipeline/emit/side_by_side.h"
#include "core/pipeline/emit/stage_signature.h"
#include "ir/hash.h"

namespace gshard::pipeline {

StageGraph::StageGraph(const Module& module, const Phases& phases, const LayerGraph& layers,
                       std::vector<int64_t> first_layers, bool has_forward_of_last,
                       const PipelineOptions& options)
    : module_(module),
      phases_(phases),
      layers_(layers),
      first_layers_(std::move(first_layers)),
      has_forward_of_last_(has_forward_of_last),
      has_outside_(options.schedule == ScheduleKind::kShift),
      copies_cotangents_(options.copies_cotangents),
      splits_backward_(options.schedule == ScheduleKind::kZeroBubble),
      saves_values_(KeepsValues(*options.remat)),
      recomputes_layers_(options.remat == Remat::kAll),
      recomputes_ahead_(options.schedule == ScheduleKind::kGPipe &&
                        options.remat == Remat::kStage && first_layers_.size() > 2) {
  for (int64_t layer = 0, stage = 0; layer < layers.count(); ++layer) {
    while (stage + 1 < count() && first_layers_[Index(stage + 1)] <= layer) ++stage;
    stage_of_layer_.push_back(stage);
  }
  const size_t n = first_layers_.size();
  for (auto* lists : {&forward_, &backward_, &saved_, &delayed_}) lists->resize(n);
  for (auto* sets : {&forward_set_, &backward_set_, &saved_set_, &delayed_set_}) sets->resize(n);
  for (auto& passes : passes_) passes.resize(n);
  position_.resize(module.instruction_limit());
  size_t position = 0;
  for (const Instruction* x : module.entry()->instructions()) {
    position_[x->id()] = position++;
    has_backward_ = has_backward_ || layers.IsBackward(x);
  }
  if (!has_backward_) {
    has_forward_of_last_ = true, saves_values_ = splits_backward_ = recomputes_ahead_ = false;
  }
  RouteAll();
  PlaceTerms();
  if (saves_values_ || recomputes_ahead_) FindSaved();
  if (splits_backward_) SplitBackward();
  if (has_outside_) OrderAlike();
}

int64_t StageGraph::StageOf(const Instruction* x) const {
  int64_t layer = layers_.IsPlaced(x) ? layers_.LayerOf(x) : -1;
  return layer < 0 ? -1 : stage_of_layer_[Index(layer)];
}

StageGraph::Place StageGraph::PlaceOf(const Instruction* x) const {
  int64_t stage = StageOf(x);
  if (stage < 0) return {};
  bool backward = layers_.IsBackward(x) || (stage == count() - 1 && !has_forward_of_last_);
  return {backward ? Pass::kBackward : Pass::kForward, stage};
}

int64_t StageGraph::KindOf(const Instruction* x) const {
  if (kinds_.empty() || StageOf(x) < 0) return 0;
  const int64_t layer =
      layers_.IsBackward(x) ? 0 : layers_.LayerOf(x) - first_layers_[Index(StageOf(x))];
  return kinds_[x->id()] * layers_.count() + layer + 1;
}

// From every placed instruction to the placed values it needs, through what has no place.
void StageGraph::RouteAll() {
  std::vector<std::pair<Instruction*, Place>> needs;
  std::vector<Instruction*> open;
  for (Instruction* x : module_.entry()->instructions()) {
    Place place = PlaceOf(x);
    if (place.pass == Pass::kNone) continue;
    open.assign(x->operands().begin(), x->operands().end());
    std::unordered_set<const Instruction*> seen;
    while (!open.empty()) {
      Instruction* y = open.back();
      open.pop_back();
      if (!layers_.IsPlaced(y) || !seen.insert(y).second) continue;
      if (StageOf(y) >= 0) {
        needs.emplace_back(y, place);
      } else {
        open.insert(open.end(), y->operands().begin(), y->operands().end());
      }
    }
  }
  // Forward uses decide how far a value goes of itself.
  last_forward_.resize(module_.instruction_limit(), -1);
  for (auto& [x, user] : needs) {
    if (layers_.IsBackward(x)) continue;
    int64_t& last = last_forward_[x->id()];
    if (last < 0) last = StageOf(x);
    if (user.pass == Pass::kForward || user.stage == count() - 1) {
      last = std::max(last, user.stage);
    }
    if (user.stage > last) last = user.stage;
  }
  for (auto& [x, user] : needs) Route(x, user);
  for (auto& list : forward_) SortByPosition(list);
  for (auto& list : backward_) SortByPosition(list);
}

void StageGraph::Route(Instruction* x, const Place& user) {
  const int64_t from = StageOf(x);
  if (!layers_.IsBackward(x)) {
    for (int64_t k = from; k < last_forward_[x->id()]; ++k) {
      if (forward_set_[Index(k)].insert(x).second) forward_[Index(k)].push_back(x);
    }
    if (user.stage >= from) return;
  }
  for (int64_t k = user.stage; k < from; ++k) {
    if (backward_set_[Index(k)].insert(x).second) backward_[Index(k)].push_back(x);
  }
}

// By id: a number that two values share if the same operations on arrays of the same dims make them
// from what their stages are handed. With `details` attributes and the order in which a stage
// reaches its weights count, too. The numbers ascend in the order of the text.
std::vector<int32_t> StageGraph::FindForms(bool details) const {
  using Key = std::vector<int64_t>;
  const auto hash = [](const Key& key) { return HashSpan<int64_t>(0, key); };
  std::unordered_map<Key, int32_t, decltype(hash)> forms(0, hash);
  std::unordered_map<const Shape*, int64_t> shapes;
  const auto number_of = [&](const Shape* shape) {
    return shapes.try_emplace(shape->bare(), std::ssize(shapes)).first->second;
  };
  OperationClasses classes;
  std::vector<std::unordered_map<const Instruction*, int64_t>> weights(first_layers_.size());
  std::vector<int32_t> found(module_.instruction_limit(), -1);
  for (const Instruction* x : module_.entry()->instructions()) {
    if (!layers_.IsPlaced(x)) continue;
    const int64_t stage = StageOf(x);
    Key key = {details ? classes.Of(x) : static_cast<int64_t>(x->opcode()), number_of(x->shape())};
    for (const Instruction* operand : x->operands()) {
      const int64_t from = layers_.IsPlaced(operand) ? StageOf(operand) : -1;
      if (layers_.IsPlaced(operand) && (from == stage || from < 0)) {
        key.push_back(found[operand->id()]);
        continue;
      }
      key.push_back(-1 - number_of(operand->shape()));
      const Instruction* weight = details && stage >= 0 ? layers_.WeightOf(operand) : nullptr;
      if (weight == nullptr) continue;
      auto& reached = weights[Index(stage)];
      key.push_back(reached.try_emplace(weight, std::ssize(reached)).first->second);
    }
    found[x->id()] =
        forms.try_emplace(std::move(key), static_cast<int32_t>(forms.size())).first->second;
  }
  return found;
}

// Alike stages have their terms, and what they hand on and keep, in the same order, whatever the
// order of the weights is: that of names may have layer 10 before layer 2.
void StageGraph::OrderAlike() {
  const std::vector<int32_t> forms = FindForms(/*details=*/false);
  const std::vector<int32_t> details = FindForms(/*details=*/true);
  const auto form = [&](const Instruction* x) {
    return std::pair(forms[x->id()], details[x->id()]);
  };
  for (std::vector<StagePass>& passes : passes_) {
    for (StagePass& pass : passes) {
      std::ranges::stable_sort(pass.terms, {},
                               [&](const StageTerm& term) { return form(term.values[0]); });
    }
  }
  // What other stages have made stays in front.
  const auto order = [&](std::vector<Instruction*>& list, int64_t stage) {
    std::ranges::stable_sort(list, {}, [&](const Instruction* x) {
      return StageOf(x) == stage ? form(x) : std::pair(-1, -1);
    });
  };
  for (int64_t v = 0; v < count(); ++v) {
    order(forward_[Index(v)], v);
    order(saved_[Index(v)], v);
    if (v > 0) order(backward_[Index(v - 1)], v);
  }
  kinds_ = forms;
  if (count() > 3 && copies_cotangents_) OrderHanded();
}

// What the layers outside the buffer hand to its first and its last stage is in the order in which
// the other stages are handed it.
void StageGraph::OrderHanded() {
  const auto order = [](std::vector<Instruction*>& list, const std::vector<Instruction*>& like,
                        const std::unordered_map<const Instruction*, const Instruction*>& same) {
    std::ranges::stable_sort(list, {}, [&](const Instruction* x) {
      const auto found = same.find(x);
      if (found == same.end()) return std::ssize(like);
      return std::ranges::find(like, found->second) - like.begin();
    });
  };
  const int64_t last = count() - 2;
  std::unordered_map<const Instruction*, const Instruction*> first_as, last_as;
  for (const auto& [x, y] : CompareStages(*this, Pass::kForward, 2, 1).handed) {
    first_as.emplace(y, x);
  }
  order(forward_[0], forward_[1], first_as);
  for (const auto& [x, y] : CompareStages(*this, Pass::kBackward, last - 1, last).handed) {
    last_as.emplace(y, x);
  }
  order(backward_[Index(last)], backward_[Index(last - 1)], last_as);
}

void StageGraph::PlaceTerms() {
  const Pass final_pass = has_backward_ ? Pass::kBackward : Pass::kForward;
  auto place_of = [&](const Instruction* x) {
    Place place = PlaceOf(x);
    // What needs examples alone is the last stage's.
    return place.pass == Pass::kNone ? Place{final_pass, count() - 1} : place;
  };
  for (const Term& term : layers_.terms()) {
    Place place = place_of(term.value);
    std::vector<StageTerm>& terms =
        passes_[static_cast<size_t>(place.pass) - 1][Index(place.stage)].terms;
    auto same = std::find_if(terms.begin(), terms.end(), [&](const StageTerm& other) {
      return other.accumulated == term.accumulated;
    });
    if (same == terms.end()) same = terms.insert(terms.end(), {term.accumulated, {}});
    same->values.push_back(term.value);
  }
  const Instruction* root = module_.entry()->root();
  std::vector<Instruction*> outputs = {module_.entry()->root()};
  if (root->opcode() == Opcode::kTuple) {
    outputs.assign(root->operands().begin(), root->operands().end());
  }
  std::unordered_set<const Instruction*> seen;
  for (Instruction* x : outputs) {
    if (!phases_.Varies(x) || !seen.insert(x).second) continue;
    Place place = place_of(x);
    passes_[static_cast<size_t>(place.pass) - 1][Index(place.stage)].outputs.push_back(x);
  }
}

std::vector<Instruction*> StageGraph::TargetsOf(Pass pass, int64_t v) const {
  std::vector<Instruction*> targets;
  auto add = [&](const std::vector<Instruction*>& list) {
    targets.insert(targets.end(), list.begin(), list.end());
  };
  if (pass == Pass::kForward) {
    if (v + 1 < count()) add(forward_bundle(v));
    if (saves_values_) add(saved(v));
  } else if (pass == Pass::kRecompute) {
    if (recomputes_ahead_) add(saved(v));
  } else if (pass == Pass::kBackward) {
    if (v > 0) add(backward_bundle(v - 1));
    add(delayed(v));
  }
  const StagePass& own = this->pass(pass, v);
  for (const StageTerm& term : own.terms) add(term.values);
  add(own.outputs);
  return targets;
}

bool StageGraph::IsInput(Pass pass, int64_t v, const Instruction* x) const {
  if (v > 0 && StageOf(x) < v && forward_set_[Index(v - 1)].count(x) != 0) return true;
  if (pass == Pass::kForward || pass == Pass::kRecompute) return false;
  if (saved_set_[Index(v)].count(x) != 0) return true;
  if (pass == Pass::kWeights) return delayed_set_[Index(v)].count(x) != 0;
  return v + 1 < count() && StageOf(x) > v && backward_set_[Index(v)].count(x) != 0;
}

std::vector<Instruction*> StageGraph::InputsOf(const std::vector<Instruction*>& targets, Pass pass,
                                               int64_t v, SavedRoom* room) const {
  std::vector<Instruction*> open = targets, found;
  std::unordered_set<const Instruction*> seen;
  while (!open.empty()) {
    Instruction* x = open.back();
    open.pop_back();
    if (!phases_.UsesExamples(x) || !seen.insert(x).second || IsInput(pass, v, x)) continue;
    const bool forward = layers_.IsPlaced(x) && !layers_.IsBackward(x) && StageOf(x) >= 0;
    if (forward && (room == nullptr || (*room)[x->shape()->bare()]-- > 0)) {
      found.push_back(x);
      continue;
    }
    open.insert(open.end(), x->operands().begin(), x->operands().end());
  }
  SortByPosition(found);
  return found;
}

void StageGraph::SortByPosition(std::vector<Instruction*>& list) const {
  std::sort(list.begin(), list.end(), [&](const Instruction* a, const Instruction* b) {
    return position_[a->id()] < position_[b->id()];
  });
}

// What the pass that computes stage v again keeps: as few bytes as may be, from which the backward
// pass computes the rest. `room` as in InputsOf.
std::vector<Instruction*> StageGraph::KeptOf(
    int64_t v, SavedRoom* room, const std::unordered_set<const Instruction*>& leaves_layer) const {
  const std::vector<Instruction*> targets = TargetsOf(Pass::kBackward, v);
  KeptValuesQuery query;
  query.needed = InputsOf(targets, Pass::kBackward, v, nullptr);
  query.is_given = [&](const Instruction* x) {
    return !phases_.UsesExamples(x) || IsInput(Pass::kBackward, v, x) || !layers_.IsPlaced(x) ||
           StageOf(x) < 0;
  };
  query.may_be_kept = [&](const Instruction* x) {
    return room == nullptr || room->count(x->shape()->bare()) != 0;
  };
  query.leaves_layer = &leaves_layer;
  std::optional<std::vector<Instruction*>> kept = FewestBytesToKeep(query);
  if (!kept) return InputsOf(targets, Pass::kBackward, v, room);
  SortByPosition(*kept);
  if (room != nullptr) {
    std::erase_if(*kept, [&](const Instruction* x) { return (*room)[x->shape()->bare()]-- <= 0; });
  }
  return std::move(*kept);
}

void StageGraph::FindSaved() {
  std::unordered_set<const Instruction*> leaves_layer;
  for (const Instruction* x : module_.entry()->instructions()) {
    if (!recomputes_ahead_ || StageOf(x) < 0 || layers_.IsBackward(x)) continue;
    for (const Instruction* operand : x->operands()) {
      if (StageOf(operand) >= 0 && layers_.LayerOf(operand) != layers_.LayerOf(x))
        leaves_layer.insert(operand);
    }
  }
  SavedRoom room;  // of each shape as many as some stage keeps
  for (int64_t v = 0; v < count(); ++v) {
    // Computed where they are needed.
    if (IsOutside(v)) continue;
    // All devices have the same buffers: what of the last stage has no room in those of the others,
    // as what the loss is made of, its backward pass computes.
    const bool is_bounded = recomputes_ahead_ && v + 1 == count();
    SavedRoom* const bound = is_bounded ? &room : nullptr;
    std::vector<Instruction*> list =
        recomputes_ahead_ ? KeptOf(v, bound, leaves_layer)
                          : InputsOf(TargetsOf(Pass::kBackward, v), Pass::kBackward, v, bound);
    SavedRoom own;
    for (const Instruction* x : list) ++own[x->shape()->bare()];
    for (auto [shape, number] : own) room[shape] = std::max(room[shape], number);
    saved_set_[Index(v)].insert(list.begin(), list.end());
    saved_[Index(v)] = std::move(list);
  }
}

// Gradients of weights are put off: what no lower layer needs. They are given the values that they
// use of the backward pass, and of the forward pass it has computed again.
void StageGraph::SplitBackward() {
  const Users users(*module_.entry());
  std::unordered_set<const Instruction*> early;
  std::vector<Instruction*> open;
  for (Instruction* x : module_.entry()->instructions()) {
    if (StageOf(x) < 0 || !layers_.IsBackward(x)) continue;
    for (Instruction* operand : x->operands()) {
      if (layers_.IsPlaced(operand) && layers_.IsBackward(operand) &&
          layers_.LayerOf(operand) > layers_.LayerOf(x)) {
        open.push_back(operand);
      }
    }
  }
  for (const auto& bundle : backward_) open.insert(open.end(), bundle.begin(), bundle.end());
  while (!open.empty()) {
    Instruction* x = open.back();
    open.pop_back();
    if (!layers_.IsPlaced(x) || !early.insert(x).second) continue;
    for (Instruction* operand : x->operands()) {
      if (layers_.IsBackward(operand)) open.push_back(operand);
    }
    // Elements of a tuple are computed where the tuple is.
    if (!x->shape()->IsTuple() || x->opcode() == Opcode::kTuple) continue;
    for (Instruction* user : users.of(x)) open.push_back(user);
  }
  for (int64_t v = 0; v < count(); ++v) {
    StagePass& backward = passes_[1][Index(v)];
    StagePass& weights = passes_[2][Index(v)];
    std::vector<StageTerm> stay;
    for (StageTerm& term : backward.terms) {
      bool late = std::none_of(term.values.begin(), term.values.end(), [&](Instruction* x) {
        return !layers_.IsBackward(x) || early.count(x) != 0;
      });
      (late ? weights.terms : stay).push_back(std::move(term));
    }
    backward.terms = std::move(stay);
    // Operands of late instructions that are not late themselves.
    std::vector<Instruction*> list, todo;
    for (const StageTerm& term : weights.terms) {
      todo.insert(todo.end(), term.values.begin(), term.values.end());
    }
    std::unordered_set<const Instruction*> seen;
    while (!todo.empty()) {
      Instruction* x = todo.back();
      todo.pop_back();
      if (!layers_.IsPlaced(x) || !seen.insert(x).second) continue;
      bool is_late = layers_.IsBackward(x) && early.count(x) == 0 && StageOf(x) == v;
      if (!is_late && x->opcode() != Opcode::kTuple) {
        // What the forward pass was given or saved is kept until then (DepthsOf).
        if (!IsInput(Pass::kWeights, v, x)) list.push_back(x);
        continue;
      }
      todo.insert(todo.end(), x->operands().begin(), x->operands().end());
    }
    SortByPosition(list);
    delayed_set_[Index(v)].insert(list.begin(), list.end());
    delayed_[Index(v)] = std::move(list);
  }
}

}  // namespace gshard::pipeline
