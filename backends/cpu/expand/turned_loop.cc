#include "backends/cpu/expand/turned_loop.h"

#include <algorithm>
#include <vector>

#include "backends/cpu/expand/computation_rewriter.h"

namespace gshard::cpu {
namespace {

Computation* MakeCondition(Module& module, const Shape* carried) {
  Builder builder(module, module.AddComputation("goes_on"));
  Instruction* turn = builder.Parameter(0, carried, "turn");
  builder.computation()->set_root(builder.GetTupleElement(turn, 1));
  return builder.computation();
}

Computation* MakeIdentity(Module& module, const Shape* shape) {
  Builder builder(module, module.AddComputation("first_turn"));
  builder.computation()->set_root(builder.Parameter(0, shape, "values"));
  return builder.computation();
}

Instruction* Pred(Builder& builder, bool value) {
  return builder.Scalar(DType::kPred, value ? 1 : 0);
}

Computation* MakeBody(Module& module, const Instruction& loop, const Shape* carried) {
  Builder builder(module, module.AddComputation("turn"));
  builder.set_origin(&loop);
  const Shape* shape = loop.shape();
  Instruction* turn = builder.Parameter(0, carried, "turn");
  Instruction* values = builder.GetTupleElement(turn, 0);
  Instruction* operands[] = {builder.GetTupleElement(turn, 2), values, values};
  Computation* branches[] = {MakeIdentity(module, shape), loop.called(1)};
  Instruction* next = builder.Add(Opcode::kConditional, operands, NoAttributes{}, shape, branches);
  Computation* condition[] = {loop.called(0)};
  Instruction* go_on = builder.Add(Opcode::kCall, {&next, 1}, CallAttributes{},
                                   condition[0]->root()->shape(), condition);
  Instruction* elements[] = {next, go_on, Pred(builder, false)};
  builder.computation()->set_root(builder.Tuple(elements));
  return builder.computation();
}

}  // namespace

void TurnLoops(Module& module, std::span<Instruction* const> loops) {
  if (loops.empty()) return;
  Computation* computation = loops[0]->parent();
  ComputationRewriter rewriter(module, computation);
  const std::vector<Instruction*> old(computation->instructions().begin(),
                                      computation->instructions().end());
  for (Instruction* x : old) {
    rewriter.UseReplacements(x);
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

}  // namespace gshard::cpu
