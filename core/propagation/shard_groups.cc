#include "core/propagation/shard_groups.h"

#include <algorithm>

#include "core/propagation/annotation_checks.h"
#include "core/propagation/engine.h"
#include "core/propagation/open_dims.h"
#include "fmt/format.h"
#include "ir/custom_call.h"
#include "ir/sharding_algebra.h"
#include "ir/sharding_text.h"

namespace gshard {

ShardGroups::ShardGroups(const Annotations& annotations) : annotations_(annotations) {
  for (const auto* groups : {&annotations.shard_as, &annotations.shard_like}) {
    for (const auto& [id, group] : *groups) {
      for (Instruction* member : group.members) memberships_.push_back({member, &group});
    }
  }
}

void ShardGroups::Step(Engine& engine, uint32_t begin, uint32_t end) {
  if (memberships_.empty()) return;
  std::vector<std::pair<uint32_t, const Membership*>> here;
  for (const Membership& m : memberships_) {
    uint32_t p = engine.PositionOf(m.member);
    if (p >= begin && p < end) here.push_back({p, &m});
  }
  std::sort(here.begin(), here.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [p, m] : here) OfferTo(engine, m->member, *m->group);
}

void ShardGroups::OfferTo(Engine& engine, Instruction* member, const ShardGroup& group) {
  if (IsCustomCallTo(*member, kShardBarrierTo)) return;
  auto open = annotations_.open_dims.find(member);
  bool refine = open != annotations_.open_dims.end() && engine.rules().level() >= 1;
  if (engine.IsProvided(member) && !refine) return;
  const Sharding* current = engine.of(member);
  if (current != nullptr && current->IsManual()) return;
  if (!refine && !engine.LevelAllowsForward(member)) return;
  for (const Instruction* other : group.members) {
    if (other == member || IsCustomCallTo(*other, kShardBarrierFrom)) continue;
    const Sharding* s = engine.of(other);
    if (s == nullptr) continue;
    Engine::Cause cause{other, ShardingEdge::kShardGroup, s};
    if (refine) {
      RefineOpenDims(engine, member, open->second, s, other);
    } else if (s->IsManual()) {
      current = engine.of(member);
      if (current == nullptr || current->IsReplicated()) {
        engine.Set(member, s, cause);
        return;
      }
    } else {
      engine.OfferTo(member, s, false, cause);
    }
  }
}

bool ShardGroups::Align(Engine& engine, const Module& module, std::vector<Diagnostic>* warnings) {
  bool any = false;
  Context& ctx = engine.context();
  for (const auto& [id, group] : annotations_.shard_as) {
    const Sharding* common = nullptr;
    bool merges = true;
    for (const Instruction* member : group.members) {
      const Sharding* s = engine.of(member);
      if (IsCustomCallTo(*member, kShardBarrierFrom) || s == nullptr) continue;
      if (common == nullptr || common == s) {
        common = s;
        continue;
      }
      const Sharding* merged = MergeShardings(ctx, s, common, common->TileCount());
      if (merged == nullptr) {
        merges = false;
        break;
      }
      common = merged->canonical;
    }
    if (!merges) {
      for (const Instruction* member : group.members) {
        const Sharding* s = engine.of(member);
        if (s == nullptr || s->IsReplicated() || IsCustomCallTo(*member, kShardBarrierFrom)) {
          continue;
        }
        common = s;
        break;
      }
    }
    if (common == nullptr) continue;
    const Instruction* from = group.members.front();
    for (const Instruction* member : group.members) {
      if (engine.of(member) == common) from = member;
    }
    for (Instruction* member : group.members) {
      if (IsCustomCallTo(*member, kShardBarrierTo) || engine.of(member) == common) continue;
      any = true;
      const Sharding* mine = engine.of(member);
      if (warnings != nullptr && engine.IsProvided(member) && from != member && mine->IsTiled() &&
          !IsSubTiling(common, mine, member->shape())) {
        warnings->push_back(WarningAbout(
            module, member, "W-PROP-003",
            fmt::format("'{}' and '{}' must be sharded alike (shard_as {}) but carry different "
                        "shardings; the latter's is used",
                        member->name(), from->name(), id),
            from, fmt::format("'{}' has {}", from->name(), ToString(common))));
      }
      engine.Set(member, common, {from, ShardingEdge::kShardGroup, common});
      if (!IsCustomCallTo(*member, kShardBarrierFrom)) continue;
      Instruction* operand = member->operand(0);
      const Sharding* current = engine.of(operand);
      const Sharding* merged = current == nullptr ? common : MergeShardings(ctx, common, current);
      if (merged != nullptr) {
        engine.Set(operand, merged, {member, ShardingEdge::kBarrier, common});
      }
    }
  }
  return any;
}

}  // namespace gshard
