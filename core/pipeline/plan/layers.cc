#include "core/pipeline/plan/layers.h"

#include <algorithm>
#include <future>
#include <limits>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "core/cost/op_cost.h"
#include "core/pipeline/plan/balance.h"
#include "core/pipeline/plan/instruction_times.h"
#include "core/pipeline/plan/layer_constants.h"
#include "core/pipeline/plan/layer_cuts.h"
#include "core/pipeline/plan/stage_tiles.h"
#include "core/pipeline/plan/unlike_weights.h"
#include "core/pipeline/rows/row_function.h"
#include "ir/metadata.h"
#include "ir/op_traits.h"

namespace gshard::pipeline {
namespace {

std::string NameOf(const Instruction* x) {
  std::string name = OpNameOf(*x);
  return name.empty() ? std::string(x->name()) : name;
}

}  // namespace

LayerGraph::LayerGraph(const Module& module, const Phases& phases, const ManualRegions& regions)
    : module_(module),
      phases_(phases),
      regions_(regions),
      users_(*module.entry()),
      info_(module.instruction_limit()),
      work_(module.instruction_limit()) {
  regions_.FindInside(module);
}

Expected<LayerGraph> LayerGraph::Make(const Module& module, const Phases& phases,
                                      const Updates& updates, const PipelineOptions& options,
                                      const ManualRegions& regions,
                                      const std::unordered_set<const Instruction*>& own_constants) {
  // Times take as long to find as all that does not need them.
  auto times = std::async(std::launch::async, [&] {
    return std::make_unique<const InstructionTimes>(module, options.chip);
  });
  LayerGraph graph(module, phases, regions);
  graph.FindTerms();
  graph.FindWeights();
  graph.MarkPlaced();
  graph.MarkForward(updates);
  const bool are_cut =
      options.weights == WeightPlacement::kSharded && options.schedule != ScheduleKind::kShift;
  if (are_cut) graph.stages_ = options.stages;
  auto ways = graph.FindCuts(options);
  if (!ways) return Fail(std::move(ways.error()));
  std::vector<Placement> placements = graph.PlaceLayers(*ways);
  graph.MeasureTimes(*times.get(), options.chip);
  graph.ChoosePlacement(std::move(placements), updates, options);
  if (options.schedule == ScheduleKind::kShift) {
    graph.own_constants_ = FindLayerConstants(module, phases, graph);
    graph.own_constants_.insert(own_constants.begin(), own_constants.end());
    graph.FindWeights();
  }
  return graph;
}

bool LayerGraph::IsConstraint(const Instruction* x) {
  return x->opcode() == Opcode::kCopy && OpNameOf(*x).ends_with("/sharding_constraint");
}

bool LayerGraph::IsPlacedByStep(const Instruction* x) {
  return IsConstraint(x) && OpNameOf(*x).find("jvp(") == std::string::npos;
}

Instruction* LayerGraph::BeforeRearranging(Instruction* x) {
  // A reverse: a convolution's kernel, for the cotangent of its input.
  auto rearranges = [](Opcode opcode) {
    return PurityOf(opcode) == Purity::kPure && MovesOneArray(opcode) &&
           MotionOf(opcode) != Motion::kTakes;
  };
  while (rearranges(x->opcode()) && !IsPlacedByStep(x)) x = x->operand(0);
  return x;
}

void LayerGraph::FindWeights() {
  weight_of_.assign(info_.size(), nullptr);
  for (Instruction* x : module_.entry()->instructions()) weight_of_[x->id()] = FindWeight(x);
}

Instruction* LayerGraph::FindWeight(Instruction* x) const {
  if (phases_.UsesExamples(x) || x->opcode() == Opcode::kTuple) return nullptr;
  const bool is_weight = phases_.UsesWeights(x);
  if (!is_weight && own_constants_.empty()) return nullptr;
  x = BeforeRearranging(x);
  if (regions_.IsInside(x) && x->opcode() != Opcode::kAllReduce) return nullptr;
  return is_weight || own_constants_.contains(x) ? x : nullptr;
}

void LayerGraph::FindTerms() {
  const std::vector<Accumulated>& accumulated = phases_.accumulated();
  for (size_t i = 0; i < accumulated.size(); ++i) {
    std::vector<Instruction*> open = {accumulated[i].term};
    while (!open.empty()) {
      Instruction* x = open.back();
      open.pop_back();
      bool sum = accumulated[i].combiner == Opcode::kAdd && x->opcode() == Opcode::kAdd &&
                 users_.of(x).size() == 1 && accumulated[i].how == Accumulated::How::kSum;
      if (sum) {
        open.push_back(x->operand(1));
        open.push_back(x->operand(0));
      } else {
        terms_.push_back({i, x});
      }
    }
  }
  for (const Term& term : terms_) targets_.push_back(term.value);
  for (Instruction* x : OutputsOf(*module_.entry())) {
    if (phases_.Varies(x)) targets_.push_back(x);
  }
  for (const Instruction* x : targets_) Of(x).is_target = true;
}

void LayerGraph::MarkPlaced() {
  std::vector<Instruction*> open = targets_;
  while (!open.empty()) {
    Instruction* x = open.back();
    open.pop_back();
    if (Of(x).is_placed || !phases_.UsesWeights(x) || !phases_.UsesExamples(x)) continue;
    Of(x).is_placed = true;
    for (Instruction* operand : x->operands()) open.push_back(operand);
  }
}

// The loss is what is accumulated and updates nothing. Where a step does not return it, the
// gradient with the least behind it has the forward pass and little else.
void LayerGraph::MarkForward(const Updates& updates) {
  std::unordered_set<const Instruction*> updating;
  std::vector<Instruction*> outputs = OutputsOf(*module_.entry());
  std::vector<const Instruction*> open;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (updates.outputs.count(static_cast<int64_t>(i)) != 0) open.push_back(outputs[i]);
  }
  while (!open.empty()) {
    const Instruction* x = open.back();
    open.pop_back();
    if (!updating.insert(x).second) continue;
    // Beyond a sum over the batch lies the micro-batch.
    if (x->opcode() == Opcode::kAllReduce || phases_.PhaseOf(x) == Phase::kMicrobatch) continue;
    for (const Instruction* operand : x->operands()) {
      if (phases_.PhaseOf(operand) != Phase::kBefore) open.push_back(operand);
    }
  }
  std::vector<Instruction*> roots;
  for (const Term& term : terms_) {
    const Accumulated& accumulated = phases_.accumulated()[term.accumulated];
    if (updating.count(accumulated.result) == 0 && Of(term.value).is_placed) {
      roots.push_back(term.value);
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    bool update = updates.outputs.count(static_cast<int64_t>(i)) != 0;
    if (!update && phases_.Varies(outputs[i]) && Of(outputs[i]).is_placed) {
      roots.push_back(outputs[i]);
    }
  }
  std::vector<const Instruction*> seen_from(info_.size(), nullptr);  // the last root, by id
  auto ancestors = [&](const Instruction* from) {
    size_t count = 0;
    std::vector<const Instruction*> list = {from};
    while (!list.empty()) {
      const Instruction* x = list.back();
      list.pop_back();
      if (!Of(x).is_placed || std::exchange(seen_from[x->id()], from) == from) continue;
      ++count;
      list.insert(list.end(), x->operands().begin(), x->operands().end());
    }
    return count;
  };
  if (roots.empty()) {
    size_t least = SIZE_MAX;
    Instruction* best = nullptr;
    for (const Term& term : terms_) {
      size_t count = ancestors(term.value);
      if (count > 0 && count < least) least = count, best = term.value;
    }
    if (best != nullptr) roots.push_back(best);
  } else {
    // The root with the most behind it orders the layers.
    std::vector<std::pair<size_t, Instruction*>> sized;
    for (Instruction* root : roots) sized.emplace_back(ancestors(root), root);
    std::stable_sort(sized.begin(), sized.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    roots.clear();
    for (auto& [size, root] : sized) roots.push_back(root);
  }
  OrderForward(roots);
}

// By id: how many instructions lead from the examples to one; 0: none does.
std::vector<int32_t> LayerGraph::DepthsFromExamples() const {
  std::vector<int32_t> depth(module_.instruction_limit(), 0);
  for (const Instruction* x : module_.entry()->instructions()) {
    int32_t deepest = x->opcode() == Opcode::kParameter && phases_.UsesExamples(x) ? 1 : 0;
    for (const Instruction* operand : x->operands()) {
      const int32_t before = depth[operand->id()];
      if (before > 0) deepest = std::max(deepest, before + 1);
    }
    depth[x->id()] = deepest;
  }
  return depth;
}

// Operands that are farthest from the examples come first: so a mask of random numbers stands where
// it is used, not before all that its layer follows from.
void LayerGraph::OrderForward(const std::vector<Instruction*>& roots) {
  const std::vector<int32_t> depth = DepthsFromExamples();
  auto ordered = [&](const Instruction* x) {
    std::vector<Instruction*> operands(x->operands().begin(), x->operands().end());
    std::stable_sort(operands.begin(), operands.end(),
                     [&](const Instruction* a, const Instruction* b) {
                       return depth[a->id()] > depth[b->id()];
                     });
    return operands;
  };
  struct Step {
    Instruction* x;
    std::vector<Instruction*> operands;
    size_t next = 0;
  };
  for (size_t r = 0; r < roots.size(); ++r) {
    std::vector<Step> stack;
    auto open = [&](Instruction* x) {
      if (Of(x).is_placed && !Of(x).is_forward) stack.push_back({x, ordered(x)});
    };
    open(roots[r]);
    while (!stack.empty()) {
      Step& step = stack.back();
      Instruction* x = step.x;
      if (!Of(x).is_forward && step.next < step.operands.size()) {
        open(step.operands[step.next++]);
        continue;
      }
      stack.pop_back();
      if (Of(x).is_forward) continue;
      Of(x).is_forward = true;
      // What only lesser roots need has no place in the order: it goes with its operands.
      if (r == 0) forward_.push_back(x);
    }
  }
  for (const Instruction* x : module_.entry()->instructions()) {
    Info& info = Of(x);
    // Elements of a tuple are where the tuple is: tuples cross no boundary.
    if (x->opcode() == Opcode::kGetTupleElement && info.is_placed && Of(x->operand(0)).is_forward) {
      info.is_forward = true;
    }
    if (info.is_placed && !info.is_forward) info.is_backward = true;
  }
  ListPlaced();
}

void LayerGraph::ListPlaced() {
  for (Instruction* x : module_.entry()->instructions()) {
    const Info& info = Of(x);
    if (!info.is_placed) continue;
    const auto begin = static_cast<uint32_t>(operand_ids_.size());
    for (const Instruction* operand : x->operands()) {
      operand_ids_.push_back(operand->id());
      Of(operand).is_saved = Of(operand).is_saved || (info.is_backward && Of(operand).is_forward);
    }
    const bool is_element = x->opcode() == Opcode::kGetTupleElement && Of(x->operand(0)).is_placed;
    placed_.push_back({x, x->id(), begin, static_cast<uint32_t>(operand_ids_.size()),
                       info.is_backward, x->opcode() == Opcode::kTuple, is_element});
  }
}

// The blocks of the network may begin at any of the places that repeat with them. Where stages are
// balanced by time they begin where the longest stage is shortest.
// Several ways to cut the forward instructions, the one with the most equal blocks first.
Expected<std::vector<LayerCuts>> LayerGraph::FindCuts(const PipelineOptions& options) {
  if (forward_.empty()) {
    return Fail(MakeError("E-PIPELINE-004", "no instruction depends on both weights and examples",
                          "--batch names the parameters that hold examples"));
  }
  const CutFinder finder(module_, forward_, users_);
  if (!options.cut.empty()) {
    Expected<LayerCuts> cuts = finder.ByPattern(options.cut);
    if (!cuts) return Fail(std::move(cuts.error()));
    return std::vector{*std::move(cuts)};
  }
  const int64_t stages = options.stages * StagesOfDevice(options);
  const bool is_shift = options.schedule == ScheduleKind::kShift;
  keeps_alike_ = is_shift;
  const LayerCuts stretches = finder.Stretches();
  std::vector<LayerCuts> found = finder.Blocks(stretches);
  const auto has_stages = [&](const std::vector<LayerCuts>& cuts) {
    return std::ranges::count(cuts[0].repeated, true) >= stages;
  };
  // Of two networks, such as a student and its teacher, one goes through the buffer.
  for (const double share : {.5, .2}) {
    if (!is_shift || has_stages(found)) break;
    for (const LayerCuts& all : {finder.SingleStretches(), stretches}) {
      std::vector<LayerCuts> others = finder.Blocks(all, share);
      if (!has_stages(found) && has_stages(others)) found = std::move(others);
    }
  }
  if (!is_shift) {
    std::erase_if(found, [&](const LayerCuts& cuts) {
      return static_cast<int64_t>(cuts.starts.size()) < stages;
    });
  }
  if (found.empty()) found.push_back(stretches);
  // A shifting buffer takes as many equal blocks as there are, and those between which least
  // crosses: the rest of a block would be in another stage.
  if (is_shift) {
    std::ranges::stable_sort(found, {}, [&](const LayerCuts& cuts) {
      const int64_t blocks = std::ranges::count(cuts.repeated, true);
      return std::tuple(-(blocks / stages), cuts.block_bytes, -blocks);
    });
  }
  if (is_shift || stages == 1) found.resize(1);
  return found;
}

// The longest stage where the layers are cut as they lie now; infinite if they cannot be.
double LayerGraph::LongestStage(const PipelineOptions& options) const {
  const int64_t stages = options.stages * StagesOfDevice(options);
  Expected<StagePartition> partition = PartitionByCost(layers_, stages, options);
  if (!partition) return std::numeric_limits<double>::infinity();
  // Stages that begin within a block have parts of it that others lack.
  const std::vector<double> unlike = UnlikeWeightSeconds(module_, *this, partition->first, options);
  double longest = 0;
  for (size_t v = 0; v < unlike.size(); ++v) {
    longest = std::max(longest, partition->seconds[v] + unlike[v]);
  }
  return longest;
}

// The one of the shortest longest stage; of equal ones the first, which has the most equal blocks.
void LayerGraph::ChoosePlacement(std::vector<Placement> placements, const Updates& updates,
                                 const PipelineOptions& options) {
  size_t best = 0;
  double shortest = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < placements.size(); ++i) {
    info_ = std::move(placements[i].info);
    layers_ = std::move(placements[i].layers);
    Summarise();
    ShareState(updates);
    if (placements.size() > 1) {
      const double longest = LongestStage(options);
      if (longest < 0.999 * shortest) best = i, shortest = longest;
    }
    placements[i] = {std::move(info_), std::move(layers_)};
  }
  info_ = std::move(placements[best].info);
  layers_ = std::move(placements[best].layers);
  if (options.schedule == ScheduleKind::kShift && options.cut.empty() &&
      !options.copies_cotangents) {
    LeaveOutLast(options.stages * StagesOfDevice(options));
  }
}

// Under a loss that merely adds up the last layer is handed no cotangent, but a constant: unlike
// the others, if there are enough of these.
void LayerGraph::LeaveOutLast(int64_t stages) {
  const int32_t end = LastUsedByBackward();
  if (end < 0 || !layers_[static_cast<size_t>(end)].is_repeated) return;
  const auto repeated =
      std::ranges::count_if(layers_, [](const Layer& layer) { return layer.is_repeated; });
  if (repeated > stages) layers_[static_cast<size_t>(end)].is_repeated = false;
}

std::vector<LayerGraph::Placement> LayerGraph::PlaceLayers(const std::vector<LayerCuts>& ways) {
  std::vector<Placement> placements;
  for (const LayerCuts& cuts : ways) {
    for (Info& info : info_) info.layer = info.last_forward = -1;
    PlaceForward(cuts);
    PlaceBackward();
    LeaveTuplesUnplaced();
    placements.push_back({info_, layers_});
  }
  return placements;
}

// A tuple is put together where it is used: no stage can hand it on.
void LayerGraph::LeaveTuplesUnplaced() {
  for (const Placed& placed : placed_) {
    if (placed.is_tuple) info_[placed.id].layer = -1;
  }
}

// Optimizer state is weights' in proportion.
void LayerGraph::ShareState(const Updates& updates) {
  double state = 0, weights = 0;
  for (const Instruction* x : module_.entry()->parameters()) {
    if (updates.parameters.count(x->attributes<ParameterAttributes>().number) == 0) continue;
    state += static_cast<double>(x->shape()->byte_size());
  }
  for (const Layer& layer : layers_) weights += static_cast<double>(layer.weight_bytes);
  const double share = weights > 0 ? std::max(1.0, state / weights) : 1;
  for (Layer& layer : layers_) {
    layer.state_bytes = static_cast<int64_t>(share * static_cast<double>(layer.weight_bytes));
  }
}

// By id of what the last of equal layers hands on, the layer behind them that reads it: what else
// reads it, as a second part of the loss does, is no part of that equal layer either. -1: of other
// values, and where layers need not be alike.
std::vector<int32_t> LayerGraph::LayersReadBehind() const {
  std::vector<int32_t> layers(info_.size(), -1);
  if (!keeps_alike_) return layers;
  for (const Instruction* x : forward_) {
    const int32_t layer = info_[x->id()].layer;
    if (layers_[static_cast<size_t>(layer)].is_repeated) continue;
    for (const Instruction* operand : x->operands()) {
      const Info& from = info_[operand->id()];
      if (from.layer < 0 || !layers_[static_cast<size_t>(from.layer)].is_repeated) continue;
      layers[operand->id()] = std::max(layers[operand->id()], layer);
    }
  }
  return layers;
}

void LayerGraph::PlaceForward(const LayerCuts& cuts) {
  const std::vector<int64_t>& starts = cuts.starts;
  layers_.assign(starts.size(), Layer());
  for (size_t k = 0; k < starts.size(); ++k) {
    int64_t end = k + 1 < starts.size() ? starts[k + 1] : static_cast<int64_t>(forward_.size());
    for (int64_t i = starts[k]; i < end; ++i) {
      Of(forward_[static_cast<size_t>(i)]).layer = static_cast<int32_t>(k);
    }
    layers_[k].name = NameOf(forward_[static_cast<size_t>(starts[k])]);
    layers_[k].is_repeated = cuts.repeated[k];
  }
  const std::vector<int32_t> read_behind = LayersReadBehind();
  for (const Placed& placed : placed_) {
    if (placed.is_backward) continue;
    Info& info = info_[placed.id];
    const bool has_place = info.layer >= 0;
    if (!has_place) info.layer = 0;
    // Where the order of the text allows no less, operands come first.
    for (const uint32_t operand : OperandsOf(placed)) {
      if (info_[operand].is_forward) info.layer = std::max(info.layer, info_[operand].layer);
      if (!has_place) info.layer = std::max(info.layer, read_behind[operand]);
    }
    if (placed.is_element) info.layer = info_[OperandsOf(placed)[0]].layer;
    info.last_forward = info.layer;
    for (const uint32_t operand : OperandsOf(placed)) {
      Info& from = info_[operand];
      if (from.is_forward) from.last_forward = std::max(from.last_forward, info.layer);
    }
  }
}

void LayerGraph::MeasureTimes(const InstructionTimes& times, const Chip& chip) {
  for (const Instruction* x : module_.entry()->instructions()) {
    if (!Of(x).is_placed) continue;
    const OpCost cost = CostOf(*x);
    const double seconds = times.Of(x);
    work_[x->id()] = {seconds, seconds, cost.flops + cost.transcendentals,
                      times.IsWrittenByProduct(x)};
  }
  const auto without_stacks = SecondsOfForwardLoops(
      module_, [&](const Instruction* x) { return Of(x).is_forward; },
      [&](const Instruction* x) { return Of(x).is_target; }, chip);
  for (const auto& [loop, seconds] : without_stacks) work_[loop->id()].forward_only_s = seconds;
}

// The device that has a weight between steps, or all rows that it is made of; -1: there is none.
int64_t LayerGraph::HomeOf(Instruction* weight) const {
  const auto fills_tiles = [&](const Instruction* x) {
    return x->opcode() == Opcode::kParameter && FillsTiles(x->shape()->dim(0), stages_);
  };
  const std::optional<RowFunction> function =
      RowFunctionOf(weight, {fills_tiles, [](const Instruction*) { return true; }});
  if (!function) return -1;
  const auto home_of = [&](const SourceRow& from) {
    return from.row / RowsOfTile(from.source->shape()->dim(0), stages_);
  };
  const int64_t home = home_of(function->rows[0]);
  const bool is_one = std::ranges::all_of(
      function->rows, [&](const SourceRow& from) { return home_of(from) == home; });
  return is_one ? home : -1;
}

void LayerGraph::Summarise() {
  std::vector<bool> seen(info_.size());  // weights, by id
  for (const Placed& placed : placed_) {
    const Info& info = info_[placed.id];
    int64_t at = info.layer;
    // Floating work is its first user's.
    for (const Instruction* y = placed.x; at < 0;) {
      auto users = users_.of(y);
      if (users.empty()) break;
      y = users[0];
      at = Of(y).layer;
    }
    if (at < 0) continue;
    Layer& layer = layers_[static_cast<size_t>(at)];
    const Work& work = work_[placed.id];
    (info.is_forward ? layer.forward_flops : layer.backward_flops) += work.flops;
    (info.is_forward ? layer.forward_s : layer.backward_s) += work.seconds;
    if (info.is_forward) layer.forward_only_s += work.forward_only_s;
    layer.has_backward = layer.has_backward || info.is_backward;
    for (const uint32_t operand : OperandsOf(placed)) {
      Instruction* weight = weight_of_[operand];
      if (weight != nullptr && !seen[weight->id()]) {
        seen[weight->id()] = true;
        AddWeight(weight, layer);
      }
    }
    const bool crosses = info.is_forward && info.last_forward > info.layer;
    if ((!crosses && !info.is_saved) || !placed.x->shape()->IsArray()) continue;
    const int64_t bytes = regions_.WholeBytes(placed.x);
    if (crosses) layer.output_bytes += bytes;
    if (info.is_saved) layer.saved_bytes += bytes;
  }
  AddCotangents();
}

void LayerGraph::AddCotangents() {
  std::vector<int32_t> lowest(info_.size(), -1);  // layer that reads a value, by id
  for (const Placed& placed : placed_) {
    const int32_t layer = info_[placed.id].layer;
    if (!placed.is_backward || layer < 0) continue;
    for (const uint32_t operand : OperandsOf(placed)) {
      int32_t& reader = lowest[operand];
      reader = reader < 0 ? layer : std::min(reader, layer);
    }
  }
  for (const Placed& placed : placed_) {
    const Info& info = info_[placed.id];
    if (!placed.is_backward || lowest[placed.id] < 0 || !placed.x->shape()->IsArray()) continue;
    for (int32_t layer = lowest[placed.id]; layer < info.layer; ++layer) {
      layers_[static_cast<size_t>(layer)].cotangent_bytes += regions_.WholeBytes(placed.x);
    }
  }
}

void LayerGraph::AddWeight(Instruction* weight, Layer& layer) const {
  layer.weight_bytes += weight->shape()->byte_size();
  layer.parameters += weight->shape()->element_count();
  const int64_t home = stages_ == 1 ? -1 : HomeOf(weight);
  if (home < 0) return;
  auto same = std::ranges::find(layer.home_bytes, home, &std::pair<int64_t, int64_t>::first);
  if (same == layer.home_bytes.end()) same = layer.home_bytes.insert(same, {home, 0});
  same->second += weight->shape()->byte_size();
}

}  // namespace gshard::pipeline
