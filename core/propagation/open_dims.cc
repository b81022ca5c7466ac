#include "core/propagation/open_dims.h"

#include <algorithm>

#include "core/propagation/engine.h"
#include "ir/custom_call.h"
#include "ir/sharding_algebra.h"
#include "ir/unspecified_dims.h"

namespace gshard {
namespace {

// A manual region's boundary that takes the copy's value and nothing else does, open in the same
// dims; null if there is none.
Instruction* JoinedBoundary(const Engine& engine, const Instruction* copy,
                            const std::vector<int64_t>& open) {
  std::span<Instruction* const> users = engine.rules().users(copy);
  if (users.size() != 1) return nullptr;
  Instruction* user = users[0];
  if (!IsRegionMarker(*user)) return nullptr;
  return UnspecifiedDims(*user) == open ? user : nullptr;
}

// The sharding with its manual dim as one more data dim in front of the replicas, so that merging
// treats it as fixed tiles; and back.
const Sharding* ManualDimAsData(Context& ctx, const Sharding* s) {
  std::vector<SubgroupType> rest;
  for (SubgroupType type : s->subgroups) {
    if (type != SubgroupType::kManual) rest.push_back(type);
  }
  return ctx.Tiled(s->tiles, rest);
}
const Sharding* DataDimAsManual(Context& ctx, const Sharding* s) {
  std::vector<SubgroupType> types = {SubgroupType::kManual};
  types.insert(types.end(), s->subgroups.begin(), s->subgroups.end());
  return ctx.Tiled(s->tiles, types);
}
const Sharding* ManualDimAsReplicas(Context& ctx, const Sharding* s) {
  return ctx.Tiled(s->tiles,
                   std::vector<SubgroupType>(s->subgroups.size(), SubgroupType::kReplicated));
}

// `candidate` merged into `side`, the sharding on one side of a manual region's boundary; null if
// they do not merge. `candidate` has no manual dim.
const Sharding* MergeAcrossBoundary(Context& ctx, const Sharding* candidate, const Sharding* side) {
  if (!side->IsTiled() || !side->HasManualSubgroup()) {
    return MergeShardings(ctx, candidate, side);
  }
  const int64_t last[] = {candidate->data_rank()};
  const Sharding* merged =
      MergeShardings(ctx, AddDims(ctx, candidate, last), ManualDimAsData(ctx, side));
  return merged != nullptr && merged->IsTiled() ? DataDimAsManual(ctx, merged) : nullptr;
}

}  // namespace

bool RefineOpenDims(Engine& engine, Instruction* copy, const std::vector<int64_t>& open,
                    const Sharding* s, const Instruction* from) {
  if (s == nullptr || !s->IsTiled()) return false;
  Context& ctx = engine.context();
  const Sharding* candidate = KeepOnlyDims(ctx, s, open);
  if (candidate == nullptr || !candidate->IsTiled()) return false;
  const Engine::Cause cause{from, ShardingEdge::kOperand, candidate};
  Instruction* boundary = JoinedBoundary(engine, copy, open);
  if (boundary == nullptr || engine.of(boundary) == nullptr) {
    const Sharding* merged = MergeShardings(ctx, candidate, engine.of(copy));
    if (merged == nullptr) return false;
    engine.Set(copy, merged, cause);
    return true;
  }
  if (candidate->HasManualSubgroup()) candidate = ManualDimAsReplicas(ctx, candidate);
  if (!candidate->IsTiled()) return false;
  const Sharding* here = MergeAcrossBoundary(ctx, candidate, engine.of(copy));
  const Sharding* beyond = MergeAcrossBoundary(ctx, candidate, engine.of(boundary));
  if (here == nullptr || beyond == nullptr) return false;
  engine.Set(boundary, beyond, {copy, ShardingEdge::kOperand, candidate});
  engine.Set(copy, here, cause);
  return true;
}

void RefineOpenDimsForward(Engine& engine, Instruction* copy, const std::vector<int64_t>& open) {
  RefineOpenDims(engine, copy, open, engine.of(copy->operand(0)), copy->operand(0));
}

void RefineOpenDimsBackward(Engine& engine, Instruction* copy, const std::vector<int64_t>& open) {
  // What is asked of the far side of a manual region's boundary is asked of both.
  const Instruction* value = JoinedBoundary(engine, copy, open);
  if (value == nullptr) value = copy;
  for (const Instruction* user : engine.rules().users(value)) {
    const Sharding* s = engine.of(user);
    if (s == nullptr || !engine.LevelAllowsBackward(user)) continue;
    const Sharding* asked = RuleOf(user->opcode()).backward(engine.rules(), *user, s, *value);
    RefineOpenDims(engine, copy, open, asked, user);
  }
}

}  // namespace gshard
