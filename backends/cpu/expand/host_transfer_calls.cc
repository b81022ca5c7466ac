#include "backends/cpu/expand/host_transfer_calls.h"

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "backends/cpu/expand/computation_rewriter.h"
#include "backends/cpu/expand/scan_loop.h"
#include "backends/cpu/expand/turned_loop.h"
#include "core/propagation/shardy_import.h"
#include "core/transforms/inline_calls.h"

namespace gshard::cpu {
namespace {

void UnwrapAsyncIn(Module& module, Computation* computation,
                   std::unordered_set<const Instruction*>& unwrapped) {
  ComputationRewriter rewriter(module, computation);
  Builder& builder = rewriter.builder();
  const std::vector<Instruction*> old(computation->instructions().begin(),
                                      computation->instructions().end());
  std::unordered_map<const Instruction*, Instruction*> result;
  for (Instruction* x : old) {
    const bool follows =
        (x->opcode() == Opcode::kAsyncUpdate || x->opcode() == Opcode::kAsyncDone) &&
        result.count(x->operand(0)) != 0;
    Instruction* value = follows ? result.at(x->operand(0)) : nullptr;
    rewriter.UseReplacements(x);
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
      rewriter.Replace(x, rewriter.Replacement(x->operand(0)));
    } else {
      rewriter.Replace(x, value);
    }
  }
  rewriter.Finish();
}

// An asynchronous computation with transfers is a call: its start has the result.
void UnwrapAsync(Module& module) {
  const std::vector<Computation*> all(module.computations().begin(), module.computations().end());
  for (Computation* computation : all) {
    std::unordered_set<const Instruction*> unwrapped;
    for (const Instruction* x : computation->instructions()) {
      if (x->opcode() == Opcode::kAsyncStart && HoldsHostTransfer(*x->called(0)))
        unwrapped.insert(x);
    }
    if (!unwrapped.empty()) UnwrapAsyncIn(module, computation, unwrapped);
  }
}

// Those whose condition has transfers.
bool TurnLoopsThatAsk(Module& module) {
  const std::vector<Computation*> all(module.computations().begin(), module.computations().end());
  bool any = false;
  for (Computation* computation : all) {
    std::vector<Instruction*> loops;
    for (Instruction* x : computation->instructions()) {
      if (x->opcode() == Opcode::kWhile && HoldsHostTransfer(*x->called(0))) loops.push_back(x);
    }
    TurnLoops(module, loops);
    any |= !loops.empty();
  }
  return any;
}

}  // namespace

bool IsHostTransfer(const Instruction& x) {
  switch (x.opcode()) {
    case Opcode::kInfeed:
    case Opcode::kOutfeed:
      return true;
    case Opcode::kSend:
    case Opcode::kSendDone:
    case Opcode::kRecv:
    case Opcode::kRecvDone:
      return x.attributes<ChannelAttributes>().is_host_transfer;
    default:
      return false;
  }
}

bool HoldsHostTransfer(const Computation& computation) {
  for (const Instruction* x : computation.instructions()) {
    if (IsHostTransfer(*x)) return true;
    for (const Computation* called : x->called()) {
      if (HoldsHostTransfer(*called)) return true;
    }
  }
  return false;
}

Expected<void> UnshareHostTransfers(Module& module) {
  bool nested = false;
  for (const Computation* computation : module.computations()) {
    if (computation == module.entry()) continue;
    for (const Instruction* x : computation->instructions()) nested |= IsHostTransfer(*x);
  }
  if (!nested) return {};
  ExpandScans(module);
  UnwrapAsync(module);
  if (auto done = ImportShardyShardings(module); !done) return Fail(done.error());
  if (auto done = InlineCalls(module); !done) return Fail(done.error());
  if (!TurnLoopsThatAsk(module)) return {};
  if (auto done = InlineCalls(module); !done) return Fail(done.error());
  return {};
}

}  // namespace gshard::cpu
