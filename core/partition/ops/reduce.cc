// Reductions: local reduce of masked tiles, then all-reduce or reduce-scatter of the partials.
#include <algorithm>

#include "core/partition/ops/rules.h"

namespace gshard::partition_rules {

namespace {

// operand 0..n-1 are reduced along `dimensions`; the inits follow.
Labels ReduceLabels(PartitionContext& rule, Dims dimensions, int64_t inputs, bool cut_reduced) {
  Labels labels;
  std::vector<int> operand, result;
  for (int64_t d = 0; d < rule.operand_shape(0)->rank(); ++d) {
    if (std::find(dimensions.begin(), dimensions.end(), d) == dimensions.end()) {
      operand.push_back(labels.Add());
      result.push_back(operand.back());
    } else {
      operand.push_back(cut_reduced ? labels.Add({.summed = true}) : Labels::kWhole);
    }
  }
  labels.operands.assign(static_cast<size_t>(inputs), operand);
  labels.operands.resize(static_cast<size_t>(2 * inputs));
  labels.results.assign(static_cast<size_t>(inputs), result);
  labels.flops =
      static_cast<double>(rule.operand_shape(0)->element_count()) * static_cast<double>(inputs);
  return labels;
}

}  // namespace

RuleResult Reduce(PartitionContext& rule) {
  const Instruction& source = rule.source();
  Dims dimensions = rule.attributes<DimensionsAttributes>().dimensions;
  auto inputs = static_cast<int64_t>(rule.operands().size()) / 2;
  std::optional<Opcode> found;
  if (inputs == 1) found = CombinerOf(source.called(0));
  const bool mergeable = found.has_value();
  const Opcode combiner = found.value_or(Opcode::kAdd);
  Labels labels = ReduceLabels(rule, dimensions, inputs, /*cut_reduced=*/true);
  if (mergeable) labels.combiner = combiner;
  labels.placed_by_operands = true;
  const Strategy& strategy = rule.Choose(labels);

  bool is_cut = false;
  for (size_t label = 0; label < labels.labels.size(); ++label) {
    is_cut |= labels.labels[label].summed && !strategy.cut[label].empty();
  }
  // An init that is no identity would be folded once per shard.
  Instruction* late_init = nullptr;
  std::vector<Instruction*> locals, inits;
  for (int64_t i = 0; i < inputs; ++i) {
    inits.push_back(rule.Operand(inputs + i, strategy.operands[static_cast<size_t>(inputs + i)]));
  }
  if (is_cut && mergeable && !IsFilledWithIdentity(source.operand(1), combiner)) {
    late_init = inits[0];
    inits[0] = Identity(rule.scope(), combiner, inits[0]->shape()->dtype());
  }
  for (int64_t i = 0; i < inputs; ++i) {
    const MeshLayout* layout = strategy.operands[static_cast<size_t>(i)];
    locals.push_back(MaskPadding(rule.scope(), rule.Operand(i, layout), rule.operand_shape(i),
                                 layout, dimensions, inits[static_cast<size_t>(i)]));
  }
  locals.insert(locals.end(), inits.begin(), inits.end());
  if (!is_cut || mergeable) {
    PartitionedValue* result = rule.Emit(locals, strategy.results);
    if (late_init == nullptr) return result;
    const MeshLayout* reduced = rule.layouts().Reduced(strategy.results[0]);
    Instruction* sum = rule.Move(result, reduced);
    Instruction* init = rule.builder().BroadcastScalar(late_init, sum->shape()->dims());
    return rule.Result(rule.builder().Add(combiner, {init, sum}), reduced);
  }

  // Any other computation: gather one partial result per shard and reduce again.
  AxisList axes;
  for (size_t label = 0; label < labels.labels.size(); ++label) {
    if (labels.labels[label].summed) {
      axes.insert(axes.end(), strategy.cut[label].begin(), strategy.cut[label].end());
    }
  }
  axes = MergedAxes(axes);
  std::vector<const MeshLayout*> reduced;
  std::vector<const Shape*> shapes;
  const Shape* shape = source.shape();
  for (int64_t i = 0; i < inputs; ++i) {
    reduced.push_back(rule.layouts().Reduced(strategy.results[static_cast<size_t>(i)]));
    shapes.push_back(
        LocalShape(rule.context(), inputs == 1 ? shape : shape->element(i), reduced.back()));
  }
  const Shape* local_shape = inputs == 1 ? shapes[0] : rule.context().Tuple(shapes);
  Instruction* partial = rule.builder().CloneWith(&source, locals, local_shape);
  partial->set_sharding(nullptr);
  std::vector<Instruction*> gathered;
  for (int64_t i = 0; i < inputs; ++i) {
    Instruction* one = inputs == 1 ? partial : rule.builder().GetTupleElement(partial, i);
    std::vector<int64_t> stacked(one->shape()->dims().begin(), one->shape()->dims().end());
    stacked.insert(stacked.begin(), 1);
    gathered.push_back(rule.scope().AllGather(rule.builder().Reshape(one, stacked), 0,
                                              strategy.operands[0], axes, rule.Cause()));
  }
  gathered.insert(gathered.end(), inits.begin(), inits.end());
  const int64_t first[] = {0};
  Instruction* final = rule.builder().Add(Opcode::kReduce, gathered,
                                          DimensionsAttributes{rule.builder().Copy(first)},
                                          local_shape, source.called());
  rule.TakeName(final);
  return rule.scope().NewFromLocal(shape, reduced, final);
}

}  // namespace gshard::partition_rules
