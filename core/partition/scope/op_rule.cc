#include "core/partition/scope/op_rule.h"

#include <algorithm>

#include "core/analysis/gradient_sums.h"
#include "ir/diagnostic.h"
#include "ir/dims.h"

namespace gshard {

Instruction* PartitionContext::Operand(int64_t i, const MeshLayout* layout) {
  return scope_.Reshard(operand(i), layout, {.user = &source_, .value = source_.operand(i)});
}

Instruction* PartitionContext::Move(PartitionedValue* value, const MeshLayout* layout) {
  return scope_.Reshard(value, layout, {.user = &source_, .value = value->source});
}

void PartitionContext::TakeName(Instruction* local) { scope_.TakeName(local, &source_); }

Instruction* PartitionContext::EmitLocal(std::span<Instruction* const> operands,
                                         const Shape* shape) {
  return scope_.CloneLocal(&source_, operands, shape);
}

const Strategy& PartitionContext::Choose(const Labels& labels) {
  PartitionRun& run = scope_.run();
  const bool makes_sums = std::ranges::any_of(labels.labels, &Labels::Label::summed);
  if (run.options.sums_leave_loops && makes_sums &&
      IsAddedToCarried(source_, run.UsersIn(*source_.parent()))) {
    Labels leaving = labels;
    leaving.sums_leave_loop = true;
    return run.tables.strategies.Choose(scope_, leaving, operands_, result_shapes_, wanted_);
  }
  return run.tables.strategies.Choose(scope_, labels, operands_, result_shapes_, wanted_);
}

namespace {

// Is all that is computed from `source` elementwise, or its elements in another order, up to the
// root? Of more than a few dozen operations: no.
bool EndsInOutputs(const Instruction& source, const Users& users) {
  constexpr size_t kMax = 64;
  std::vector<const Instruction*> reached = {&source};
  for (size_t i = 0; i < reached.size(); ++i) {
    for (const Instruction* user : users.of(reached[i])) {
      if (user == user->parent()->root()) continue;
      const bool keeps_elements = IsElementwise(user->opcode()) ||
                                  user->opcode() == Opcode::kTranspose ||
                                  user->opcode() == Opcode::kReshape;
      if (!keeps_elements || reached.size() == kMax) return false;
      if (std::find(reached.begin(), reached.end(), user) == reached.end()) {
        reached.push_back(user);
      }
    }
  }
  return true;
}

}  // namespace

void PartitionContext::ShareMove(const Strategy& strategy, PartitionedValue& value) {
  if (!strategy.cuts_freely || !value.shape->IsArray()) return;
  if (EndsInOutputs(source_, scope_.run().UsersIn(*source_.parent()))) {
    value.required_layout = wanted_[0];
  }
}

PartitionedValue* PartitionContext::ByLabels(const Labels& labels) {
  const Strategy& strategy = Choose(labels);
  std::vector<Instruction*> locals;
  locals.reserve(operands_.size());
  for (size_t i = 0; i < operands_.size(); ++i) {
    locals.push_back(Operand(static_cast<int64_t>(i), strategy.operands[i]));
  }
  return Emit(locals, strategy.results);
}

PartitionedValue* PartitionContext::Emit(std::span<Instruction* const> operands,
                                         std::span<const MeshLayout* const> results) {
  const Shape* shape = source_.shape();
  if (!shape->IsTuple()) {
    return Result(EmitLocal(operands, LocalShape(context(), shape, results[0])), results[0]);
  }
  std::vector<const Shape*> elements;
  for (size_t i = 0; i < results.size(); ++i) {
    elements.push_back(LocalShape(context(), shape->elements()[i], results[i]));
  }
  return scope_.NewFromLocal(shape, results, EmitLocal(operands, context().Tuple(elements)));
}

PartitionedValue* PartitionContext::Finish(Instruction* local, const Instruction* operand,
                                           const MeshLayout* layout) {
  if (local != operand) {
    const Shape* shape = LocalShape(context(), source_.shape(), layouts().Reduced(layout));
    CheckInternal(SameDims(shape, local->shape()), "a local result of another shape");
    local->set_shape(shape);
    TakeName(local);
  }
  return Result(local, layout);
}

const MeshLayout* PartitionContext::Region() {
  if (!wanted_.empty()) return wanted_[0];
  const Sharding* sharding = source_.sharding();
  if (sharding != nullptr && sharding->IsTuple() && !sharding->elements.empty()) {
    sharding = sharding->elements[0];
  }
  if (sharding != nullptr && (sharding->IsManual() || sharding->HasManualSubgroup())) {
    return layouts().FromSharding(sharding, sharding->data_rank());
  }
  for (const PartitionedValue* operand : operands_) {
    if (operand->IsTuple()) continue;
    const MeshLayout* layout = PartitionScope::LayoutOf(*operand);
    if (layout->IsManual() || !layout->manual.empty()) return layout;
  }
  return layouts().Replicated(0);
}

std::vector<const MeshLayout*> PartitionContext::WholeLeaves(const Shape* shape) {
  const std::vector<const Shape*> leaves = LeafShapes(shape);
  std::vector<const MeshLayout*> layouts;
  for (const Shape* leaf : leaves) layouts.push_back(Whole(leaf->IsArray() ? leaf->rank() : 0));
  return layouts;
}

PartitionedValue* PartitionContext::Default() {
  std::vector<Instruction*> locals;
  for (size_t i = 0; i < operands_.size(); ++i) {
    ReshardCause cause{.user = &source_, .value = source_.operand(static_cast<int64_t>(i))};
    locals.push_back(scope_.Materialize(operands_[i], WholeLeaves(operands_[i]->shape), cause));
  }
  return scope_.NewFromLocal(source_.shape(), WholeLeaves(source_.shape()),
                             EmitLocal(locals, source_.shape()));
}

tl::unexpected<Diagnostic> PartitionContext::Error(std::string code, std::string message,
                                                   std::string hint) const {
  Diagnostic error = scope_.run().module.ErrorAt(&source_, std::move(code), std::move(message));
  error.hint = std::move(hint);
  return Fail(std::move(error));
}

}  // namespace gshard
