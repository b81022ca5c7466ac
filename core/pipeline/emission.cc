#include "core/pipeline/emission.h"

#include <algorithm>

#include "core/pipeline/clone.h"
#include "core/pipeline/weight_stacks.h"
#include "ir/custom_call.h"
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
        stages_(in.schedule->stages),
        repeats_(in.schedule->repeats) {}

  void Run() {
    CloneParameters();
    for (Instruction* x : old_->instructions()) {
      if (x->opcode() == Opcode::kParameter || in_.phases->PhaseOf(x) != Phase::kBefore) continue;
      if (x->opcode() == Opcode::kAllReduce) {
        value_[x] = WholeSum(x);
      } else {
        Copy(x);
      }
    }
    MakeState();
    Pipeline();
    TakeAccumulated();
    TakeOutputs();
    for (Instruction* x : old_->instructions()) {
      if (in_.phases->PhaseOf(x) == Phase::kAfter && value_.count(x) == 0) Copy(x);
    }
    entry_->set_root(value_.at(old_->root()));
    module_.set_entry(entry_);
    RemoveDeadCode(module_);
    module_.header().num_partitions = in_.shardings->device_count();
  }

 private:
  Instruction* Copy(Instruction* x) {
    std::vector<Instruction*> operands;
    for (Instruction* operand : x->operands()) operands.push_back(value_.at(operand));
    Instruction* copy = CloneInto(module_, entry_, x, operands, /*take_name=*/true);
    copy->set_sharding(nullptr);
    if (copy->shape()->IsArray()) {
      if (const Sharding* s = in_.annotation(x)) {
        copy->set_sharding(in_.shardings->Outside(copy->shape()->rank(), s, -1));
      }
    } else if (x == old_->root() && x->opcode() == Opcode::kTuple) {
      std::vector<const Shape*> shapes;
      for (const Instruction* operand : operands) shapes.push_back(operand->shape());
      copy->set_shape(context_.Tuple(shapes));
    }
    value_[x] = copy;
    return copy;
  }

  void CloneParameters() {
    for (Instruction* x : old_->parameters()) {
      Instruction* copy = CloneInto(module_, entry_, x, {}, /*take_name=*/true);
      size_t number = static_cast<size_t>(x->attributes<ParameterAttributes>().number);
      copy->set_shape(in_.split->parameter_shapes[number]);
      value_[x] = copy;
      if (!copy->shape()->IsArray()) continue;
      const Sharding* s = in_.annotation(x);
      bool data = in_.batch->dimension.count(static_cast<int64_t>(number)) != 0;
      bool cut = !data && in_.options->weights == WeightPlacement::kSharded;
      copy->set_sharding(in_.shardings->Outside(copy->shape()->rank(), s,
                                                cut ? StageDim(copy->shape(), s, stages_) : -1));
    }
  }

  Instruction* WholeSum(Instruction* x) {
    WholeSumInputs in;
    in.module = &module_;
    in.phases = in_.phases;
    in.microbatches = in_.schedule->microbatches;
    in.value = &value_;
    for (const Instruction* parameter : old_->parameters()) {
      if (in_.phases->UsesExamples(parameter)) in.data[parameter] = FormOf(parameter);
    }
    return EmitWholeSum(builder_, in, x);
  }

  DataForm FormOf(const Instruction* x) const {
    DataForm form;
    form.dimension = in_.batch->dimension.at(x->attributes<ParameterAttributes>().number);
    if (const Sharding* s = in_.annotation(x)) form.shards = s->TileCount(form.dimension);
    return form;
  }

  // --- what goes in

  void MakeState() {
    const StageGraph& stages = *in_.stages;
    auto pairs = [](const std::vector<Instruction*>& list) {
      std::vector<std::pair<const Instruction*, const Shape*>> out;
      for (const Instruction* x : list) out.emplace_back(x, x->shape());
      return out;
    };
    std::vector<std::vector<std::pair<const Instruction*, const Shape*>>> forward, backward, saved,
        delayed, outputs;
    std::vector<std::vector<std::pair<size_t, const Shape*>>> terms;
    for (int64_t v = 0; v < stages.count(); ++v) {
      if (v + 1 < stages.count()) {
        forward.push_back(pairs(stages.forward_bundle(v)));
        backward.push_back(pairs(stages.backward_bundle(v)));
      }
      saved.push_back(pairs(stages.saved(v)));
      delayed.push_back(pairs(stages.delayed(v)));
      auto& of = terms.emplace_back();
      auto& out = outputs.emplace_back();
      for (Pass pass : {Pass::kForward, Pass::kBackward, Pass::kWeights}) {
        for (const StageTerm& term : stages.pass(pass, v).terms) {
          of.emplace_back(term.accumulated, term.values[0]->shape());
        }
        for (const Instruction* x : stages.pass(pass, v).outputs) out.emplace_back(x, x->shape());
      }
    }
    state_.forward = ValueSlots(forward);
    state_.backward = ValueSlots(backward);
    state_.saved = ValueSlots(saved);
    state_.delayed = ValueSlots(delayed);
    state_.outputs = ValueSlots(outputs);
    state_.terms = TermSlots(terms);
    FindWeights();
    for (Instruction* x : old_->parameters()) {
      if (in_.phases->UsesExamples(x)) state_.data.push_back(x);
    }
    state_.depths = DepthsOf(*in_.schedule);
    state_.repeats = repeats_;
    state_.microbatches = in_.schedule->microbatches;
    state_.LayOut();
  }

  // Weights by virtual stage, in the order in which its passes reach them.
  void FindWeights() {
    const StageGraph& stages = *in_.stages;
    std::vector<std::vector<Instruction*>> lists;
    std::unordered_map<Instruction*, int64_t> uses;
    for (int64_t v = 0; v < stages.count(); ++v) {
      std::vector<Instruction*> list;
      std::unordered_set<const Instruction*> found;
      for (Pass pass : {Pass::kForward, Pass::kBackward, Pass::kWeights}) {
        WeightsOf(pass, v, found, list);
      }
      for (Instruction* x : list) ++uses[x];
      lists.push_back(std::move(list));
    }
    std::vector<std::vector<std::pair<const Instruction*, const Shape*>>> own;
    std::unordered_set<const Instruction*> shared;
    for (auto& list : lists) {
      auto& of = own.emplace_back();
      for (Instruction* x : list) {
        if (uses[x] < stages.count() || stages.count() == 1) {
          of.emplace_back(x, x->shape());
        } else if (shared.insert(x).second) {
          state_.shared.push_back(x);
        }
      }
    }
    state_.weights = ValueSlots(own);
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

  Instruction* Enter(Instruction* value, const Sharding* outside, const Shape* local,
                     const Sharding* inside) {
    if (stages_ == 1) return value;
    Instruction* const whole[] = {value};
    Instruction* copy = builder_.Add(Opcode::kCopy, whole, NoAttributes{}, value->shape());
    copy->set_sharding(outside);
    CustomCallAttributes attributes;
    attributes.target = kEnterManualTarget;
    Instruction* const operands[] = {copy};
    Instruction* border =
        builder_.Add(Opcode::kCustomCall, operands, attributes, local, {}, "enter");
    border->set_sharding(inside);
    return border;
  }

  Instruction* Leave(Instruction* value, const Shape* whole, const Sharding* outside) {
    if (stages_ == 1) return value;
    CustomCallAttributes attributes;
    attributes.target = kLeaveManualTarget;
    Instruction* const operands[] = {value};
    Instruction* border =
        builder_.Add(Opcode::kCustomCall, operands, attributes, whole, {}, "leave");
    border->set_sharding(outside);
    return border;
  }

  // Row of virtual stage v in what is stacked by device, then chunk.
  int64_t RowOf(int64_t v) const { return v % stages_ * repeats_ + v / stages_; }

  void Pipeline() {
    RegionInputs region;
    const RegionShardings& shardings = *in_.shardings;
    for (size_t slot = 0; slot < state_.weights.size(); ++slot) {
      const Shape* shape = state_.weights.shape(slot);
      std::vector<StackRow> rows(static_cast<size_t>(in_.stages->count()));
      const Sharding* s = nullptr;
      for (size_t v = 0; v < rows.size(); ++v) {
        StackRow& row = rows[static_cast<size_t>(RowOf(static_cast<int64_t>(v)))];
        for (auto& [at, x] : state_.weights.values(v)) {
          if (at != slot) continue;
          row.value = value_.at(x);
          if (s == nullptr) s = AnnotationOf(x, in_.annotation, context_);
        }
      }
      Instruction* stack = StackWeights(builder_, rows, shape, shardings, s);
      std::vector<int64_t> dims(stack->shape()->dims().begin(), stack->shape()->dims().end());
      dims[0] = repeats_;
      const Sharding* row_sharding =
          s == nullptr ? nullptr : AddDims(context_, s, std::vector<int64_t>{0});
      region.weights.push_back(Enter(stack, shardings.Outside(shape->rank() + 1, row_sharding, 0),
                                     context_.Array(shape->dtype(), dims),
                                     shardings.Inside(shape->rank() + 1, row_sharding)));
    }
    for (Instruction* x : state_.shared) {
      const Sharding* s = AnnotationOf(x, in_.annotation, context_);
      region.shared.push_back(EnterShared(value_.at(x), s));
    }
    for (Instruction* x : state_.data) {
      Instruction* whole = value_.at(x);
      const Sharding* s = in_.annotation(x);
      region.functions.data.push_back(FormOf(x));
      region.data.push_back(EnterShared(whole, s));
    }
    region.functions.module = &module_;
    region.functions.phases = in_.phases;
    region.functions.layers = in_.layers;
    region.functions.stages = in_.stages;
    region.functions.state = &state_;
    region.functions.shardings = in_.shardings;
    region.functions.annotation = in_.annotation;
    region.schedule = in_.schedule;
    region.entry = entry_;
    data_ = region.functions.data;
    results_ = EmitRegion(std::move(region));
  }

  Instruction* EnterShared(Instruction* value, const Sharding* s) {
    int64_t rank = value->shape()->rank();
    return Enter(value, in_.shardings->Outside(rank, s, -1), value->shape()->bare(),
                 in_.shardings->Inside(rank, s));
  }

  // --- what comes out

  // A buffer of the region as one global array: rows of all devices along dim 0.
  Instruction* Collect(Instruction* local) {
    std::vector<int64_t> dims(local->shape()->dims().begin(), local->shape()->dims().end());
    dims[0] *= stages_;
    const Shape* whole = context_.Array(local->shape()->dtype(), dims);
    return Leave(local, whole, in_.shardings->Outside(whole->rank(), nullptr, 0));
  }

  void TakeAccumulated() {
    std::vector<Instruction*> stacks;
    for (Instruction* x : results_.terms) stacks.push_back(Collect(x));
    const std::vector<Accumulated>& accumulated = in_.phases->accumulated();
    std::vector<Instruction*> sums(accumulated.size(), nullptr);
    for (size_t v = 0; v < state_.terms.lists(); ++v) {
      for (auto& [slot, index] : state_.terms.values(v)) {
        int64_t row = RowOf(static_cast<int64_t>(v));
        Instruction* x = builder_.SliceDim(stacks[slot], 0, row, row + 1);
        x = builder_.Reshape(x, state_.terms.shape(slot)->dims());
        Instruction*& sum = sums[index];
        sum = sum == nullptr ? x : builder_.Binary(accumulated[index].combiner, sum, x);
      }
    }
    for (size_t i = 0; i < accumulated.size(); ++i) {
      Instruction* x = sums[i];
      if (accumulated[i].how == Accumulated::How::kMean && in_.schedule->microbatches > 1) {
        DType type = x->shape()->dtype();
        Instruction* count = builder_.BroadcastScalar(
            builder_.Scalar(type, static_cast<double>(in_.schedule->microbatches)),
            x->shape()->dims());
        x = builder_.Binary(Opcode::kDivide, x, count);
      }
      value_[accumulated[i].result] = x;
    }
  }

  // Results with examples: tiles of micro-batches become the whole batch again.
  void TakeOutputs() {
    for (size_t v = 0; v < state_.outputs.lists(); ++v) {
      for (auto& [slot, x] : state_.outputs.values(v)) {
        Instruction* all = Collect(results_.outputs[slot]);
        int64_t device = static_cast<int64_t>(v) % stages_;
        Instruction* own = builder_.SliceDim(all, 0, device, device + 1);
        value_[const_cast<Instruction*>(x)] = Whole(own, x);
      }
    }
  }

  // [1, M, .., b, ..] with rows of D shards in each tile: [.., D, M, b/D, ..] merged.
  Instruction* Whole(Instruction* tiles, const Instruction* x) {
    const int64_t count = in_.schedule->microbatches;
    std::span<const int64_t> tile = x->shape()->dims();
    int64_t dim = 0;
    const Computation& entry = *old_;
    for (size_t i = 0; i < in_.split->output_dimension.size(); ++i) {
      const Instruction* output = entry.root()->opcode() == Opcode::kTuple
                                      ? entry.root()->operand(static_cast<int64_t>(i))
                                      : entry.root();
      if (output == x) dim = std::max<int64_t>(in_.split->output_dimension[i], 0);
    }
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
  int64_t stages_, repeats_;
  RegionState state_;
  RegionResults results_;
  std::vector<DataForm> data_;
  std::unordered_map<const Instruction*, Instruction*> value_;  // old to new
};

}  // namespace

void EmitPipeline(const EmissionInputs& inputs) { Emitter(inputs).Run(); }

}  // namespace gshard::pipeline
