#include "core/transforms/expand/async_unwrapper.h"

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/transforms/rewriter.h"
#include "ir/host_transfers.h"

namespace gshard {
namespace {

void UnwrapAsyncIn(Module& module, Computation* computation,
                   std::unordered_set<const Instruction*>& unwrapped) {
  Rewriter rewriter(module);
  rewriter.Begin(computation);
  Builder& builder = rewriter.builder();
  const std::vector<Instruction*> old(computation->instructions().begin(),
                                      computation->instructions().end());
  std::unordered_map<const Instruction*, Instruction*> result;
  for (Instruction* x : old) {
    const bool follows =
        (x->opcode() == Opcode::kAsyncUpdate || x->opcode() == Opcode::kAsyncDone) &&
        result.count(x->operand(0)) != 0;
    Instruction* value = follows ? result.at(x->operand(0)) : nullptr;
    rewriter.RedirectOperands(x);
    builder.set_origin(x);
    if (unwrapped.count(x) != 0) {
      Computation* called[] = {x->called(0)};
      value = builder.Add(Opcode::kCall, x->operands(), CallAttributes{},
                          called[0]->root()->shape(), called);
      result[x] = value;
      rewriter.Replace(x, builder.Tuple({&value, 1}));
    } else if (!follows) {
      rewriter.Keep(x);
    } else if (x->opcode() == Opcode::kAsyncUpdate) {
      result[x] = value;
      rewriter.Replace(x, rewriter.ValueOf(x->operand(0)));
    } else {
      rewriter.Replace(x, value);
    }
  }
  rewriter.Finish();
}

}  // namespace

bool UnwrapAsync(Module& module) {
  bool changed = false;
  const std::vector<Computation*> all(module.computations().begin(), module.computations().end());
  for (Computation* computation : all) {
    std::unordered_set<const Instruction*> unwrapped;
    for (const Instruction* x : computation->instructions()) {
      if (x->opcode() == Opcode::kAsyncStart && HoldsHostTransfer(*x->called(0))) {
        unwrapped.insert(x);
      }
    }
    if (unwrapped.empty()) continue;
    UnwrapAsyncIn(module, computation, unwrapped);
    changed = true;
  }
  return changed;
}

}  // namespace gshard
