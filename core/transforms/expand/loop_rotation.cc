#include "core/transforms/expand/loop_rotation.h"

#include <algorithm>
#include <span>
#include <vector>

#include "core/transforms/rewriter.h"
#include "ir/host_transfers.h"
#include "ir/traversal.h"

namespace gshard {
namespace {

Computation* MakeCondition(Module& module, const Shape* carried) {
  Builder builder(module, module.AddComputation("continues"));
  Instruction* iteration = builder.Parameter(0, carried, "iteration");
  builder.computation()->set_root(builder.GetTupleElement(iteration, 1));
  return builder.computation();
}

Computation* MakeIdentity(Module& module, const Shape* shape) {
  Builder builder(module, module.AddComputation("first_iteration"));
  builder.computation()->set_root(builder.Parameter(0, shape, "values"));
  return builder.computation();
}

Instruction* Pred(Builder& builder, bool value) {
  return builder.Scalar(DType::kPred, value ? 1 : 0);
}

Computation* MakeBody(Module& module, const Instruction& loop, const Shape* carried) {
  Builder builder(module, module.AddComputation("iteration"));
  builder.set_origin(&loop);
  const Shape* shape = loop.shape();
  Instruction* iteration = builder.Parameter(0, carried, "iteration");
  Instruction* values = builder.GetTupleElement(iteration, 0);
  Instruction* operands[] = {builder.GetTupleElement(iteration, 2), values, values};
  Computation* branches[] = {MakeIdentity(module, shape), loop.called(1)};
  Instruction* next = builder.Add(Opcode::kConditional, operands, NoAttributes{}, shape, branches);
  Computation* condition[] = {loop.called(0)};
  Instruction* go_on = builder.Add(Opcode::kCall, {&next, 1}, CallAttributes{},
                                   condition[0]->root()->shape(), condition);
  Instruction* elements[] = {next, go_on, Pred(builder, false)};
  builder.computation()->set_root(builder.Tuple(elements));
  return builder.computation();
}

// `loops` are all in one computation.
void Rotate(Module& module, std::span<Instruction* const> loops) {
  Computation* computation = loops[0]->parent();
  Rewriter rewriter(module);
  rewriter.Begin(computation);
  const std::vector<Instruction*> old(computation->instructions().begin(),
                                      computation->instructions().end());
  for (Instruction* x : old) {
    rewriter.RedirectOperands(x);
    if (std::find(loops.begin(), loops.end(), x) == loops.end()) {
      rewriter.Keep(x);
      continue;
    }
    Builder& builder = rewriter.builder();
    builder.set_origin(x);
    Instruction* elements[] = {x->operand(0), Pred(builder, true), Pred(builder, true)};
    Instruction* initial = builder.Tuple(elements);
    Computation* body = MakeBody(module, *x, initial->shape());
    x->set_called(0, MakeCondition(module, initial->shape()));
    x->set_called(1, body);
    x->set_operand(0, initial);
    x->set_shape(initial->shape());
    x->set_sharding(nullptr);
    x->set_backend_config({});  // of other trip counts
    rewriter.Keep(x);
    rewriter.Alias(x, builder.GetTupleElement(x, 0));
  }
  rewriter.Finish();
}

}  // namespace

bool RotateLoops(Module& module) {
  const std::vector<Computation*> all(module.computations().begin(), module.computations().end());
  bool changed = false;
  for (Computation* computation : all) {
    std::vector<Instruction*> loops;
    for (Instruction* x : computation->instructions()) {
      if (x->opcode() == Opcode::kWhile && HoldsHostTransfer(*x->called(0))) loops.push_back(x);
    }
    if (loops.empty()) continue;
    Rotate(module, loops);
    changed = true;
  }
  if (!changed) return false;
  // Callees before callers.
  const std::vector<Computation*> order = CallPostOrder(module);
  module.SetComputations({order.begin(), order.end()});
  return true;
}

}  // namespace gshard
