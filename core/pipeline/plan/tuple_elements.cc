#include "core/pipeline/plan/tuple_elements.h"

#include <vector>

#include "core/transforms/rewriter.h"
#include "ir/builder.h"

namespace gshard::pipeline {
namespace {

bool IsOpaqueTuple(const Instruction* x) {
  return x->shape()->IsTuple() && x->opcode() != Opcode::kTuple;
}

Instruction* FromElements(Builder& b, Instruction* x) {
  if (!IsOpaqueTuple(x)) return x;
  std::vector<Instruction*> elements;
  for (size_t i = 0; i < x->shape()->elements().size(); ++i) {
    Instruction* element = b.GetTupleElement(x, static_cast<int64_t>(i));
    elements.push_back(FromElements(b, element));
  }
  return b.Tuple(elements);
}

}  // namespace

void TakeResultApart(Module& module) {
  Computation* entry = module.entry();
  Builder builder(module, entry);
  entry->set_root(FromElements(builder, entry->root()));
}

void TakeTuplesApart(Module& module) {
  Computation* entry = module.entry();
  const std::vector<Instruction*> old(entry->instructions().begin(), entry->instructions().end());
  Rewriter rewriter(module);
  rewriter.Begin(entry);
  Builder& b = rewriter.builder();
  for (Instruction* x : old) {
    for (int64_t i = 0; i < x->operand_count(); ++i) {
      const bool takes_apart = x->opcode() == Opcode::kGetTupleElement;
      if (!takes_apart) x->set_operand(i, FromElements(b, x->operand(i)));
    }
    rewriter.Keep(x);
  }
  if (Instruction* root = FromElements(b, entry->root()); root != entry->root()) {
    rewriter.Alias(entry->root(), root);
  }
  rewriter.Finish();
}

}  // namespace gshard::pipeline
