// While, conditional, call: called computations are partitioned for the layouts of their site.
#include "core/partition/ops/rules.h"

namespace gshard::partition_rules {

RuleResult While(PartitionContext& rule) {
  const Instruction& source = rule.source();
  std::vector<const MeshLayout*> leaves(rule.wanted_leaves().begin(), rule.wanted_leaves().end());
  ReshardCause cause{.user = &source, .value = source.operand(0)};
  Instruction* init = rule.scope().Materialize(rule.operand(0), leaves, cause);
  // All devices of a region must agree on whether to go on: the predicate is whole.
  Expected<Computation*> condition = rule.scope().Callee(source.called(0), {{leaves}, {}});
  if (!condition) return Fail(condition.error());
  Expected<Computation*> body = rule.scope().Callee(source.called(1), {{leaves}, leaves});
  if (!body) return Fail(body.error());
  Instruction* operands[] = {init};
  Instruction* local = rule.EmitLocal(operands, init->shape());
  local->set_called(0, *condition);
  local->set_called(1, *body);
  return rule.scope().NewFromLocal(source.shape(), leaves, local);
}

RuleResult Conditional(PartitionContext& rule) {
  const Instruction& source = rule.source();
  std::vector<const MeshLayout*> leaves(rule.wanted_leaves().begin(), rule.wanted_leaves().end());
  std::vector<Instruction*> locals = {rule.Operand(0, rule.Whole(0))};
  std::vector<Computation*> branches;
  for (int64_t b = 0; b + 1 < source.operand_count(); ++b) {
    PartitionedValue* operand = rule.operand(b + 1);
    std::vector<const MeshLayout*> parameter = PartitionScope::LeafLayouts(*operand);
    ReshardCause cause{.user = &source, .value = source.operand(b + 1)};
    locals.push_back(rule.scope().Materialize(operand, parameter, cause));
    Expected<Computation*> branch =
        rule.scope().Callee(source.called(b), {{std::move(parameter)}, leaves});
    if (!branch) return Fail(branch.error());
    branches.push_back(*branch);
  }
  Instruction* local = rule.EmitLocal(locals, branches[0]->root()->shape());
  for (size_t b = 0; b < branches.size(); ++b) {
    local->set_called(static_cast<int64_t>(b), branches[b]);
  }
  return rule.scope().NewFromLocal(source.shape(), leaves, local);
}

RuleResult Call(PartitionContext& rule) {
  const Instruction& source = rule.source();
  std::vector<const MeshLayout*> leaves(rule.wanted_leaves().begin(), rule.wanted_leaves().end());
  CalleeSignature signature;
  signature.root = leaves;
  std::vector<Instruction*> locals;
  for (int64_t i = 0; i < source.operand_count(); ++i) {
    signature.parameters.push_back(PartitionScope::LeafLayouts(*rule.operand(i)));
    ReshardCause cause{.user = &source, .value = source.operand(i)};
    locals.push_back(rule.scope().Materialize(rule.operand(i), signature.parameters.back(), cause));
  }
  Expected<Computation*> callee = rule.scope().Callee(source.called(0), signature);
  if (!callee) return Fail(callee.error());
  Instruction* local = rule.EmitLocal(locals, (*callee)->root()->shape());
  local->set_called(0, *callee);
  return rule.scope().NewFromLocal(source.shape(), leaves, local);
}

}  // namespace gshard::partition_rules
