#include "core/pipeline/emit/emission.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <unordered_set>

#include "core/analysis/combiner.h"
#include "core/pipeline/emit/manual_borders.h"
#include "core/pipeline/emit/shift_region.h"
#include "core/pipeline/emit/stage_ring.h"
#include "core/pipeline/emit/weight_stacks.h"
#include "core/pipeline/plan/clone.h"
#include "core/pipeline/rows/layer_stacks.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "ir/attribute_names.h"
#include "ir/metadata.h"
#include "ir/sharding_algebra.h"
#include "ir/traversal.h"

namespace gshard::pipeline {
namespace {

class Emitter {
 public:
  explicit Emitter(const EmissionInputs& in)
      : in_(in),
        module_(*in.module),
        context_(module_.context()),
        old_(module_.entry()),
        entry_(module_.AddComputation(old_->name())),
        builder_(module_, entry_),
        borders_(in.layers->regions(), *in.shardings, ManualBorders::Where::kEntry),
        ring_(*in.shardings),
        stages_(in.schedule->stages),
        repeats_(in.schedule->repeats),
        value_(module_.instruction_limit(), nullptr) {}

  Expected<Emission> Run() {
    FindStacks();
    CloneParameters();
    for (const Instruction* x : old_->instructions()) {
      if (in_.phases->PhaseOf(x) == Phase::kMicrobatch) AddRun(x, run_);
    }
    for (Instruction* x : old_->instructions()) {
      if (x->opcode() == Opcode::kParameter || in_.phases->PhaseOf(x) != Phase::kBefore) continue;
      if (x->opcode() == Opcode::kAllReduce) {
        value_[x->id()] = WholeSum(x);
      } else {
        Copy(x);
      }
    }
    if (auto done = in_.stages->has_outside() ? ShiftingBuffer() : Pipeline(); !done) {
      return Fail(std::move(done.error()));
    }
    FinishAccumulated();
    for (Instruction* x : old_->instructions()) {
      if (in_.phases->PhaseOf(x) != Phase::kAfter || value_[x->id()] != nullptr) continue;
      // A sum that is not accumulated: micro-batches alone read their own part of it.
      if (x->opcode() != Opcode::kAllReduce) Copy(x);
    }
    CutResults();
    entry_->set_root(ValueOf(old_->root()));
    module_.set_entry(entry_);
    RemoveDeadCode(module_);
    module_.header().num_partitions = in_.shardings->device_count();
    return std::move(emission_);
  }

 private:
  Instruction* ValueOf(const Instruction* x) const {
    CheckInternal(value_[x->id()] != nullptr, "pipeline: a value is used before it is there");
    return value_[x->id()];
  }

  bool IsStack(const Shape* shape) const {
    return stacks_.contains({shape->dims().begin(), shape->dims().end()});
  }

  // A stack that layers take rows of, or where the step puts one before it computes a loss: on the
  // stages its rows stay where they are. Of such a stack how it lies over other axes, null for
  // whole; of others nothing.
  std::optional<const Sharding*> WithinStages(const Instruction* x) {
    if (x->opcode() == Opcode::kParameter || in_.layers->regions().IsInside(x)) return std::nullopt;
    const bool is_taken =
        taken_.contains(x) || (LayerGraph::IsPlacedByStep(x) && IsStack(x->shape()) &&
                               !layer_stacks_.ParametersOf(x).empty());
    if (!is_taken) return std::nullopt;
    const Sharding* s = AnnotationOf(x, in_.annotation, context_);
    if (StageDimOf(x->shape(), s, /*is_stack=*/true) != 0) return std::nullopt;
    return s;
  }

  // Numbers of random keys and counters are wider.
  static bool MayBeWeight(DType type) { return !IsInteger(type) || DTypeBits(type) <= 8; }

  // Arrays whose rows are layers' weights: parameters, what has their dims (optimizer state), and
  // what the step makes of whole stacks.
  void FindStacks() {
    for (const Instruction* x : old_->instructions()) {
      if (x->opcode() != Opcode::kSlice || in_.phases->UsesExamples(x)) continue;
      const Shape *row = x->shape(), *whole = x->operand(0)->shape();
      if (whole->rank() == 0 || row->dim(0) != 1 || !MayBeWeight(whole->dtype())) continue;
      if (row->element_count() * whole->dim(0) != whole->element_count()) continue;
      for (const Instruction* parameter : layer_stacks_.ParametersOf(x->operand(0))) {
        const Shape* shape = parameter->shape();
        stacks_.insert({shape->dims().begin(), shape->dims().end()});
        taken_.insert(x->operand(0));
      }
    }
  }
  // The dim of a weight or of its update that is cut over the stages; -1: none.
  int64_t StageDimOf(const Shape* shape, const Sharding* s) const {
    return StageDimOf(shape, s, IsStack(shape));
  }
  int64_t StageDimOf(const Shape* shape, const Sharding* s, bool is_stack) const {
    if (in_.options->weights != WeightPlacement::kSharded) return -1;
    return StageDim(shape, s, stages_, is_stack);
  }

  Instruction* Copy(Instruction* x) {
    std::vector<Instruction*> operands;
    for (Instruction* operand : x->operands()) {
      operands.push_back(borders_.OperandOf(builder_, x, operand, ValueOf(operand)));
    }
    Instruction* copy = CloneInto(module_, entry_, x, operands, /*take_name=*/true);
    copy->set_sharding(nullptr);
    if (RunsAsMicrobatches(copy)) SeparateCalled(module_, copy);
    const Sharding* s = in_.annotation(x);
    if (const auto within = WithinStages(x)) {
      copy->set_sharding(in_.shardings->Outside(copy->shape()->rank(), *within, 0));
      if (s != nullptr) emission_.annotations.emplace(copy, s);
    } else if (s != nullptr) {
      copy->set_sharding(borders_.Here(copy->shape(), s));
      if (!in_.layers->regions().IsInside(x)) emission_.annotations.emplace(copy, s);
    } else if (x == old_->root() && x->opcode() == Opcode::kTuple) {
      std::vector<const Shape*> shapes;
      for (const Instruction* operand : operands) shapes.push_back(operand->shape());
      copy->set_shape(context_.Tuple(shapes));
    }
    if (in_.layers->regions().Leaves(x)) {
      // A result gets a sharding over the stages, the border of a region has that of its tiles.
      const auto results = OutputsOf(*old_);
      const bool is_result = std::ranges::find(results, x) != results.end();
      if (is_result) copy = builder_.Add(Opcode::kCopy, {copy}, copy->shape()->bare());
    }
    value_[x->id()] = copy;
    return copy;
  }

  // Does it run a computation that micro-batches run, in their manual region?
  bool RunsAsMicrobatches(const Instruction* copy) const {
    std::unordered_set<const Computation*> run;
    AddRun(copy, run);
    return std::ranges::any_of(run, [&](const Computation* x) { return run_.contains(x); });
  }

  // Each updated weight gets the sharding of the weight it replaces, over the stages also where the
  // user says how over other axes. Left to propagation, a small one may be cut where it needs
  // padding, and its global shape is not in the text then.
  void CutResults() {
    if (stages_ == 1) return;
    const Instruction* root = old_->root();
    for (int64_t i = 0; i < std::max<int64_t>(root->operand_count(), 1); ++i) {
      const Instruction* x = root->opcode() == Opcode::kTuple ? root->operand(i) : root;
      if (in_.phases->PhaseOf(x) != Phase::kAfter || !x->shape()->IsArray()) continue;
      Instruction* value = ValueOf(x);
      if (value->shape()->rank() == 0) continue;
      const auto weight = in_.updates->parameter_of.find(i);
      const bool is_update = weight != in_.updates->parameter_of.end();
      const Sharding* s = in_.annotation(x);
      // Other axes are propagation's unless the weight says how.
      if (!is_update && (s != nullptr || !in_.shardings->is_fully_manual())) continue;
      if (value->sharding() != nullptr && (s == nullptr || s->IsManual())) continue;
      if (s == nullptr && is_update) s = in_.annotation(old_->parameter(weight->second));
      value->set_sharding(
          in_.shardings->Outside(value->shape()->rank(), s, StageDimOf(value->shape(), s)));
    }
  }

  void CloneParameters() {
    for (Instruction* x : old_->parameters()) {
      Instruction* copy = CloneInto(module_, entry_, x, {}, /*take_name=*/true);
      size_t number = static_cast<size_t>(x->attributes<ParameterAttributes>().number);
      copy->set_shape(in_.split->parameter_shapes[number]);
      value_[x->id()] = copy;
      if (!copy->shape()->IsArray()) continue;
      const Sharding* s = in_.annotation(x);
      bool data = in_.batch->dimension.count(static_cast<int64_t>(number)) != 0;
      copy->set_sharding(in_.shardings->Outside(copy->shape()->rank(), s,
                                                data ? -1 : StageDimOf(copy->shape(), s)));
    }
  }

  Instruction* WholeSum(Instruction* x) {
    WholeSumInputs in;
    in.module = &module_;
    in.phases = in_.phases;
    in.microbatches = in_.schedule->microbatches;
    in.value = &value_;
    in.borders = &borders_;
    in.annotation = in_.annotation;
    for (const Instruction* parameter : old_->parameters()) {
      if (in_.phases->UsesExamples(parameter)) in.data[parameter] = FormOf(parameter);
    }
    return EmitWholeSum(builder_, in, x);
  }

  DataForm FormOf(const Instruction* x) const {
    DataForm form;
    form.dimension = in_.batch->dimension.at(x->attributes<ParameterAttributes>().number);
    form.shards = in_.split->shards;
    return form;
  }

  // --- what goes in

  // Of virtual stages [first, end): the lists of all others are empty, but those of boundaries.
  RegionState StateOf(int64_t first, int64_t end) {
    const StageGraph& stages = *in_.stages;
    auto pairs = [&](const std::vector<Instruction*>& list) {
      std::vector<std::pair<const Instruction*, const Shape*>> out;
      for (const Instruction* x : list) out.emplace_back(x, borders_.HandedOn(x));
      return out;
    };
    std::vector<std::vector<std::pair<const Instruction*, const Shape*>>> forward, backward, saved,
        delayed, outputs;
    StageLists<size_t> terms;
    for (int64_t v = 0; v < stages.count(); ++v) {
      if (v + 1 < stages.count()) {
        forward.push_back(pairs(stages.forward_bundle(v)));
        backward.push_back(pairs(stages.backward_bundle(v)));
      }
      auto& of = terms.emplace_back();
      auto& out = outputs.emplace_back();
      auto& kept = saved.emplace_back();
      auto& late = delayed.emplace_back();
      if (v < first || v >= end) continue;
      kept = pairs(stages.saved(v)), late = pairs(stages.delayed(v));
      for (Pass pass : {Pass::kForward, Pass::kBackward, Pass::kWeights}) {
        for (const StageTerm& term : stages.pass(pass, v).terms) {
          of.emplace_back(term.accumulated, borders_.HandedOn(term.values[0]));
        }
        for (const Instruction* x : stages.pass(pass, v).outputs) out.emplace_back(x, x->shape());
      }
    }
    RegionState state;
    state.forward = ValueSlots(forward);
    state.backward = ValueSlots(backward);
    state.saved = ValueSlots(saved, [&](const Instruction* x) { return stages.KindOf(x); });
    state.delayed = ValueSlots(delayed);
    state.outputs = ValueSlots(outputs);
    if (!stages.has_outside()) state.term_packs = TermPacks(TakeUnlikeTerms(terms), context_);
    state.terms = TermSlots(terms, KindsOfTerms(first, end));
    FindWeights(state, first, end);
    for (Instruction* x : old_->parameters()) {
      if (in_.phases->UsesExamples(x)) state.data.push_back(x);
    }
    state.repeats = stages.IsOutside(first) ? 1 : repeats_;
    state.microbatches = in_.schedule->microbatches;
    state.has_padding = stages.has_outside();
    if (!state.has_padding) state.depths = DepthsOf(*in_.schedule);
    state.LayOut();
    return state;
  }

  // By accumulated value: of what a stage adds to it.
  TermSlots::Kind KindsOfTerms(int64_t first, int64_t end) {
    const StageGraph& stages = *in_.stages;
    auto kinds = std::make_shared<std::unordered_map<size_t, int64_t>>();
    for (int64_t v = first; v < end; ++v) {
      for (Pass pass : {Pass::kForward, Pass::kBackward, Pass::kWeights}) {
        for (const StageTerm& term : stages.pass(pass, v).terms) {
          kinds->emplace(term.accumulated, stages.KindOf(term.values[0]));
        }
      }
    }
    return [kinds](const size_t& accumulated) { return kinds->at(accumulated); };
  }

  // Weights by virtual stage, in the order in which its passes reach them. What all stages use, and
  // what the layers outside a shifting buffer use, lies whole on every device.
  void FindWeights(RegionState& state, int64_t first, int64_t end) {
    const StageGraph& stages = *in_.stages;
    std::vector<std::vector<Instruction*>> lists(static_cast<size_t>(stages.count()));
    std::unordered_map<Instruction*, std::vector<int64_t>> uses;  // stages
    for (int64_t v = first; v < end; ++v) {
      std::vector<Instruction*>& list = lists[static_cast<size_t>(v)];
      std::unordered_set<const Instruction*> found;
      for (Pass pass : {Pass::kForward, Pass::kBackward, Pass::kWeights, Pass::kRecompute}) {
        WeightsOf(pass, v, found, list);
      }
      for (Instruction* x : list) uses[x].push_back(v);
    }
    for (const auto& [x, of] : uses) NoteWeight(x, of);
    const bool one = end - first == 1 && !stages.IsOutside(first);
    StageLists<const Instruction*> own;
    std::unordered_set<const Instruction*> shared;
    for (auto& list : lists) {
      auto& of = own.emplace_back();
      for (Instruction* x : list) {
        if (std::ssize(uses.at(x)) < end - first || one) {
          of.emplace_back(x, borders_.HandedOn(x));
        } else if (shared.insert(x).second) {
          state.shared.push_back(x);
        }
      }
    }
    if (!stages.has_outside()) PlaceUnlike(state, own, shared);
    state.weights = ValueSlots(own);
    for (const Shape* shape : state.weights.shapes()) {
      weight_bytes_.alike += repeats_ * shape->byte_size();
    }
    for (const Instruction* x : state.shared) {
      if (shared.contains(x)) weight_bytes_.shared += x->shape()->byte_size();
    }
  }

  // Which stages use it: for `explain`.
  void NoteWeight(const Instruction* x, const std::vector<int64_t>& stages) {
    Instruction* value = ValueOf(x);
    std::string_view before = value->frontend_attributes();
    std::string text =
        FrontendAttribute(before, kStageAttribute);  // of another part of a shifting buffer
    text += fmt::format("{}{}", text.empty() ? "weight " : ",", fmt::join(stages, ","));
    value->set_frontend_attributes(
        WithFrontendAttribute(module_.arena(), before, kStageAttribute, text));
  }

  // Weights whose shape not all stages have: as flat pieces, or whole on every device. Those that
  // the user has placed, and what lies cut over other axes, stay as they are.
  void PlaceUnlike(RegionState& state, StageLists<const Instruction*>& own,
                   const std::unordered_set<const Instruction*>& shared) {
    const auto unlike =
        TakeUnlike<const Instruction*>(own, [&](const Instruction* x, const Shape*) {
          return AnnotationOf(x, in_.annotation, context_) == nullptr && !IsCutUnpipelined(x);
        });
    const WeightPacks packs(unlike, context_);
    for (const Shape* shape : packs.shapes()) {
      weight_bytes_.pieces += repeats_ * shape->byte_size();
    }
    std::unordered_set<const Instruction*> seen = shared;
    for (const auto& list : unlike) {
      for (const auto& [x, shape] : list) {
        weight_bytes_.unpadded += shape->byte_size();
        if (!seen.insert(x).second) continue;
        weight_bytes_.replicated += shape->byte_size();
        if (in_.options->weights == WeightPlacement::kReplicated) {
          state.shared.push_back(const_cast<Instruction*>(x));
        }
      }
    }
    weight_bytes_.unpadded /= stages_;
    if (in_.options->weights == WeightPlacement::kSharded) state.weight_packs = packs;
  }

  // Sums of terms whose shape not all stages have. What lies cut over other axes stays as it is: a
  // flat piece of it would hand on a cut of the piece to all others, and to what they meet.
  StageLists<size_t> TakeUnlikeTerms(StageLists<size_t>& terms) {
    return TakeUnlike<size_t>(terms, [&](const size_t& index, const Shape*) {
      const Accumulated& accumulated = in_.phases->accumulated()[index];
      return accumulated.combiner == Opcode::kAdd && !IsCutUnpipelined(accumulated.term);
    });
  }

  bool IsCutUnpipelined(const Instruction* x) const {
    if (in_.layers->regions().IsInside(x)) return true;
    auto it = in_.unpipelined->find(x);
    return it != in_.unpipelined->end() && IsCut(x->shape(), it->second);
  }

  // A weight as stages take it, and how that lies over the mesh of one stage.
  Instruction* HandedOn(const Instruction* x) { return borders_.HandOn(builder_, x, ValueOf(x)); }
  const Sharding* ShardingHandedOn(const Instruction* x) {
    const ManualRegions& regions = in_.layers->regions();
    if (regions.IsInside(x)) return regions.WholeSharding(context_, x);
    return AnnotationOf(x, in_.annotation, context_);
  }

  // [K * R, length]: each row the values of one virtual stage, one after another.
  Instruction* StackPieces(const WeightPacks& packs, size_t pack) {
    const Shape* shape = packs.shape(pack);
    std::vector<StackRow> rows(static_cast<size_t>(stages_ * repeats_));
    for (int64_t v = 0; v < in_.stages->count(); ++v) {
      std::vector<Instruction*> parts;
      int64_t length = 0;
      for (const auto& [x, place] : packs.places(static_cast<size_t>(v))) {
        if (place.pack != pack) continue;
        const int64_t flat[] = {place.shape->element_count()};
        parts.push_back(builder_.Reshape(ValueOf(x), flat));
        length += flat[0];
      }
      if (length == 0) continue;
      if (const int64_t rest[] = {shape->dim(0) - length}; rest[0] > 0) {
        parts.push_back(builder_.Zero(context_.Array(shape->dtype(), rest)));
      }
      rows[static_cast<size_t>(RowOf(v))].value = builder_.Concatenate(parts, 0);
    }
    return StackWeights(builder_, rows, shape, emission_.unread);
  }

  void WeightsOf(Pass pass, int64_t v, std::unordered_set<const Instruction*>& found,
                 std::vector<Instruction*>& list) {
    std::unordered_set<const Instruction*> seen;
    for (Instruction* target : in_.stages->TargetsOf(pass, v)) {
      std::vector<std::pair<Instruction*, int64_t>> stack = {{target, 0}};
      while (!stack.empty()) {
        auto& [x, next] = stack.back();
        if (next == 0 && !seen.insert(x).second) {
          stack.pop_back();
          continue;
        }
        if (in_.layers->WeightOf(x) == x) {
          if (found.insert(x).second) list.push_back(x);
          stack.pop_back();
          continue;
        }
        if (next == x->operand_count() || in_.stages->IsInput(pass, v, x)) {
          stack.pop_back();
          continue;
        }
        Instruction* operand = x->operand(next++);
        stack.emplace_back(operand, 0);
      }
    }
  }

  // Row of virtual stage v in what is stacked by device, then chunk.
  int64_t RowOf(int64_t v) const {
    if (in_.stages->has_outside()) --v;
    return v % stages_ * repeats_ + v / stages_;
  }

  Expected<void> Pipeline() {
    const RegionState state = StateOf(0, in_.stages->count());
    RegionResults results = EmitRegion(InputsOf(state));
    TakeAccumulated(state, results);
    TakeOutputs(state, results);
    return {};
  }

  Expected<void> ShiftingBuffer() {
    const int64_t count = in_.stages->count();
    const RegionState before = StateOf(0, 1), alike = StateOf(1, count - 1),
                      after = StateOf(count - 1, count);
    ShiftInputs inputs;
    inputs.clock = {stages_, repeats_, in_.schedule->microbatches};
    inputs.entry = entry_;
    inputs.before = InputsOf(before);
    inputs.alike = InputsOf(alike);
    inputs.after = InputsOf(after);
    Expected<ShiftResults> results = EmitShiftRegion(std::move(inputs));
    if (!results) return Fail(std::move(results.error()));
    for (auto [state, of] : {std::pair{&before, &results->before},
                             {&alike, &results->alike},
                             {&after, &results->after}}) {
      TakeAccumulated(*state, *of);
      TakeOutputs(*state, *of);
    }
    return {};
  }

  RegionInputs InputsOf(const RegionState& state) {
    RegionInputs region;
    for (size_t slot = 0; slot < state.weights.size(); ++slot) {
      const Shape* shape = state.weights.shape(slot);
      std::vector<StackRow> rows(static_cast<size_t>(stages_ * repeats_));
      const Sharding* s = nullptr;
      for (int64_t v = 0; v < in_.stages->count(); ++v) {
        for (auto& [at, x] : state.weights.values(static_cast<size_t>(v))) {
          if (at != slot) continue;
          rows[static_cast<size_t>(RowOf(v))].value = HandedOn(x);
          if (s == nullptr) s = ShardingHandedOn(x);
        }
      }
      Instruction* stack = StackWeights(builder_, rows, shape, emission_.unread);
      const Sharding* row_sharding =
          s == nullptr ? nullptr : AddDims(context_, s, std::vector<int64_t>{0});
      region.weights.push_back(ring_.Enter(builder_, stack, row_sharding, 0));
    }
    for (size_t pack = 0; pack < state.weight_packs.size(); ++pack) {
      region.weights.push_back(
          ring_.Enter(builder_, StackPieces(state.weight_packs, pack), nullptr, 0));
    }
    for (Instruction* x : state.shared) {
      region.shared.push_back(EnterShared(x, ShardingHandedOn(x)));
    }
    for (Instruction* x : state.data) {
      region.functions.data.push_back(FormOf(x));
      region.data.push_back(EnterShared(x, in_.annotation(x)));
    }
    region.functions.module = &module_;
    region.functions.phases = in_.phases;
    region.functions.layers = in_.layers;
    region.functions.stages = in_.stages;
    region.functions.state = &state;
    region.functions.shardings = in_.shardings;
    region.functions.annotation = in_.annotation;
    region.schedule = in_.schedule;
    region.entry = entry_;
    data_ = region.functions.data;
    return region;
  }

  // The same value on all stages; once for each.
  Instruction* EnterShared(const Instruction* x, const Sharding* s) {
    auto [known, fresh] = entered_.try_emplace(ValueOf(x), nullptr);
    if (!fresh) return known->second;
    return known->second = ring_.Enter(builder_, HandedOn(x), s, -1);
  }

  // --- what comes out

  // A buffer of the region as one global array: rows of all devices along dim 0. `row`: how a row
  // lies over other axes; null: whole.
  Instruction* Collect(Instruction* local, const Sharding* row = nullptr) {
    if (row != nullptr) row = AddDims(context_, row, std::vector<int64_t>{0});
    return ring_.Leave(builder_, local, row, 0);
  }

  // By slot, how sums lie over other axes where those of all stages lie alike; null: whole.
  std::vector<const Sharding*> ShardingsOfTerms(const RegionState& state) {
    std::vector<const Sharding*> found(state.terms.size(), nullptr);
    std::vector<bool> any(found.size(), false);
    for (size_t v = 0; v < state.terms.lists(); ++v) {
      for (auto& [slot, index] : state.terms.values(v)) {
        const Instruction* term = in_.phases->accumulated()[index].term;
        const Sharding* s = nullptr;
        if (in_.layers->regions().IsInside(term)) {
          s = in_.layers->regions().WholeSharding(context_, term);
        } else if (IsCutUnpipelined(term)) {
          s = in_.unpipelined->at(term);
        }
        found[slot] = any[slot] && found[slot] != s ? nullptr : s;
        any[slot] = true;
      }
    }
    return found;
  }

  // The rows of all devices: of layers outside a shifting buffer each has a part of the sum.
  Instruction* OverDevices(Instruction* stack, Opcode combiner) {
    DType type = stack->shape()->dtype();
    const int64_t rows[] = {0};
    return builder_.Reduce(stack, IdentityArray(builder_, context_.Scalar(type), combiner), rows,
                           builder_.BinaryComputation(combiner, type));
  }

  void TakeAccumulated(const RegionState& state, const RegionResults& results) {
    std::vector<const Sharding*> rows = ShardingsOfTerms(state);
    rows.resize(results.terms.size(), nullptr);  // flat pieces follow
    std::vector<Instruction*> stacks;
    for (size_t i = 0; i < results.terms.size(); ++i) {
      stacks.push_back(Collect(results.terms[i], rows[i]));
    }
    const std::vector<Accumulated>& accumulated = in_.phases->accumulated();
    sums_.resize(accumulated.size(), nullptr);
    for (int64_t v = 0; v < in_.stages->count(); ++v) {
      for (auto& [slot, index] : state.terms.values(static_cast<size_t>(v))) {
        const Opcode combiner = accumulated[index].combiner;
        Instruction* x = stacks[slot];
        if (in_.stages->IsOutside(v)) {
          x = OverDevices(x, combiner);
        } else {
          x = builder_.SliceDim(x, 0, RowOf(v), RowOf(v) + 1);
          x = builder_.Reshape(x, state.terms.shape(slot)->dims());
        }
        AddSum(index, x);
      }
      if (static_cast<size_t>(v) >= state.term_packs.lists()) continue;
      for (const auto& [index, place] : state.term_packs.places(static_cast<size_t>(v))) {
        Instruction* x = stacks[state.terms.size() + place.pack];
        x = builder_.SliceDim(x, 0, RowOf(v), RowOf(v) + 1);
        x = builder_.SliceDim(x, 1, place.offset, place.offset + place.shape->element_count());
        AddSum(index, builder_.Reshape(x, place.shape->dims()));
      }
    }
  }
  void AddSum(size_t index, Instruction* x) {
    Instruction*& sum = sums_[index];
    const Opcode combiner = in_.phases->accumulated()[index].combiner;
    sum = sum == nullptr ? x : builder_.Binary(combiner, sum, x);
  }

  void FinishAccumulated() {
    const std::vector<Accumulated>& accumulated = in_.phases->accumulated();
    for (size_t i = 0; i < accumulated.size(); ++i) {
      Instruction* x = sums_[i];
      if (accumulated[i].how == Accumulated::How::kMean && in_.schedule->microbatches > 1) {
        DType type = x->shape()->dtype();
        Instruction* count = builder_.BroadcastScalar(
            builder_.Scalar(type, static_cast<double>(in_.schedule->microbatches)),
            x->shape()->dims());
        x = builder_.Binary(Opcode::kDivide, x, count);
      }
      value_[accumulated[i].result->id()] = borders_.Take(builder_, accumulated[i].result, x);
    }
  }

  // Results with examples: tiles of micro-batches become the whole batch again.
  void TakeOutputs(const RegionState& state, const RegionResults& results) {
    for (int64_t v = 0; v < in_.stages->count(); ++v) {
      for (auto& [slot, x] : state.outputs.values(static_cast<size_t>(v))) {
        Instruction* all = Collect(results.outputs[slot]);
        if (in_.stages->IsOutside(v)) {
          all = InOrder(all);
        } else {
          int64_t device = RowOf(v) / repeats_;
          all = builder_.SliceDim(all, 0, device, device + 1);
        }
        value_[x->id()] = Whole(all, x);
      }
    }
  }

  // [K, groups, ..] by device and group: [1, M, ..], micro-batch j from device j mod K.
  Instruction* InOrder(Instruction* tiles) {
    std::vector<int64_t> dims(tiles->shape()->dims().begin(), tiles->shape()->dims().end());
    std::vector<int64_t> permutation;
    for (size_t d = 0; d < dims.size(); ++d) permutation.push_back(static_cast<int64_t>(d));
    std::swap(permutation[0], permutation[1]);
    Instruction* x = builder_.Transpose(tiles, permutation);
    dims[1] *= dims[0], dims[0] = 1;
    return builder_.SliceDim(builder_.Reshape(x, dims), 1, 0, in_.schedule->microbatches);
  }

  // The dim of a result that counts examples; -1: none. It is next to examples in a tuple then, of
  // a loop or a branch, and alike in all micro-batches.
  int64_t OutputDimOf(const Instruction* x) const {
    const std::vector<Instruction*> outputs = OutputsOf(*old_);
    const auto place = std::ranges::find(outputs, x) - outputs.begin();
    return in_.split->output_dimension[static_cast<size_t>(place)];
  }

  // [1, M, .., b, ..] with rows of D shards in each tile: [.., D, M, b/D, ..] merged.
  Instruction* Whole(Instruction* tiles, const Instruction* x) {
    const int64_t count = in_.schedule->microbatches;
    std::span<const int64_t> tile = x->shape()->dims();
    const int64_t dim = OutputDimOf(x);
    if (dim < 0) return builder_.Reshape(builder_.SliceDim(tiles, 1, 0, 1), tile);
    int64_t shards = 1;
    for (const DataForm& form : data_) shards = std::max(shards, form.shards);
    if (tile[static_cast<size_t>(dim)] % shards != 0) shards = 1;
    std::vector<int64_t> split = {count}, permutation, merged;
    for (size_t d = 0; d < tile.size(); ++d) {
      if (static_cast<int64_t>(d) != dim) {
        permutation.push_back(static_cast<int64_t>(split.size()));
        split.push_back(tile[d]);
        merged.push_back(tile[d]);
        continue;
      }
      permutation.push_back(static_cast<int64_t>(split.size()));
      permutation.push_back(0);
      permutation.push_back(static_cast<int64_t>(split.size()) + 1);
      split.insert(split.end(), {shards, tile[d] / shards});
      merged.push_back(tile[d] * count);
    }
    return builder_.Reshape(builder_.Transpose(builder_.Reshape(tiles, split), permutation),
                            merged);
  }

  const EmissionInputs& in_;
  Module& module_;
  Context& context_;
  Computation* old_;
  Computation* entry_;
  Builder builder_;
  ManualBorders borders_;
  StageRing ring_;
  int64_t stages_, repeats_;
  Emission emission_;
  WeightBytes& weight_bytes_ = emission_.weights;
  LayerStacks layer_stacks_;
  std::set<std::vector<int64_t>> stacks_;         // dims of parameters that stack layers' weights
  std::unordered_set<const Instruction*> taken_;  // stacks that layers take rows of
  std::vector<DataForm> data_;
  std::vector<Instruction*> sums_;  // by index into Phases::accumulated()
  std::unordered_map<const Instruction*, Instruction*> entered_;
  std::unordered_set<const Computation*> run_;  // by micro-batches
  std::vector<Instruction*> value_;             // new ones, by id of the old; null: not there yet
};

}  // namespace

Expected<Emission> EmitPipeline(const EmissionInputs& inputs) { return Emitter(inputs).Run(); }

}  // namespace gshard::pipeline
