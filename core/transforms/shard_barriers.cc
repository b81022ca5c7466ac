#include "core/transforms/shard_barriers.h"

#include <algorithm>
#include <vector>

#include "ir/custom_call.h"

namespace gshard {
namespace {

bool IsBarrier(const Instruction* x) {
  return IsCustomCallTo(*x, kShardBarrierFrom) || IsCustomCallTo(*x, kShardBarrierTo);
}

Instruction* Through(Instruction* x) {
  while (IsBarrier(x)) x = x->operand(0);
  return x;
}

}  // namespace

bool RemoveShardBarriers(Module& module) {
  bool removed = false;
  for (Computation* computation : module.computations()) {
    std::span<Instruction* const> all = computation->instructions();
    if (std::none_of(all.begin(), all.end(), IsBarrier)) continue;
    removed = true;
    std::vector<Instruction*> list;
    for (Instruction* x : all) {
      if (IsBarrier(x)) continue;
      list.push_back(x);
      for (int64_t i = 0; i < x->operand_count(); ++i) x->set_operand(i, Through(x->operand(i)));
    }
    Instruction* root = Through(computation->root());
    computation->SetInstructions(std::move(list));
    computation->set_root(root);
  }
  return removed;
}

}  // namespace gshard
