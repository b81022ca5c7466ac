#include "core/transforms/collectives/collective_permute_folder.h"

#include <unordered_map>

#include "core/transforms/collectives/collective_groups.h"
#include "core/transforms/rewriter.h"
#include "ir/constant_fill.h"

namespace gshard {
namespace {

Instruction* Fold(Instruction* x, Rewriter& rewriter) {
  if (!IsPlainCollective(x, Opcode::kCollectivePermute)) return x;
  Instruction* inner = x->operand(0);
  // A bounded operand may have a result of static shape, or the other way round.
  if (inner->shape() != x->shape()) return x;
  if (IsFilledWith(inner, 0.0)) return inner;
  if (!IsPlainCollective(inner, Opcode::kCollectivePermute) || !rewriter.IsOnlyUse(inner)) return x;
  if (inner->operand(0)->shape() != x->shape()) return x;
  std::unordered_map<int64_t, int64_t> source_of;
  for (const DevicePair& pair : inner->attributes<CollectiveAttributes>().source_target_pairs) {
    source_of[pair.target] = pair.source;
  }
  std::vector<DevicePair> pairs;
  for (const DevicePair& pair : x->attributes<CollectiveAttributes>().source_target_pairs) {
    auto source = source_of.find(pair.source);
    if (source != source_of.end()) pairs.push_back({source->second, pair.target});
  }
  Builder& builder = rewriter.builder();
  if (pairs.empty()) return builder.Zero(x->shape());
  Instruction* both = builder.CollectivePermute(inner->operand(0), pairs);
  KeepCause(both, x);
  return both;
}

}  // namespace

bool FoldCollectivePermutes(Module& module) { return RewriteModule(module, Fold); }

}  // namespace gshard
