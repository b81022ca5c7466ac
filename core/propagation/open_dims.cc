#include "core/propagation/open_dims.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "core/propagation/engine.h"
#include "ir/metadata.h"
#include "ir/sharding_algebra.h"

namespace gshard {
namespace {

// The full-to-shard call that takes the copy's value and nothing else does, open in the same dims.
Instruction* JoinedFullToShard(const Engine& engine, const Instruction* copy,
                               const std::vector<int64_t>& open) {
  std::span<Instruction* const> users = engine.rules().users(copy);
  if (users.size() != 1 || !IsCustomCallTo(*users[0], "SPMDFullToShardShape")) return nullptr;
  return UnspecifiedDims(*users[0]) == open ? users[0] : nullptr;
}

// The manual side's sharding with its manual dim as one more data dim in front of the replicas, so
// that merging treats it as fixed tiles; and back.
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

// `s` with one more data dim of count 1.
const Sharding* WithTrailingDataDim(Context& ctx, const Sharding* s) {
  const int64_t last[] = {s->data_rank()};
  return AddDims(ctx, s, last);
}

}  // namespace

std::vector<int64_t> UnspecifiedDims(const Instruction& x) {
  std::vector<int64_t> dims;
  std::string text = Unquoted(x.backend_config());
  constexpr std::string_view kKey = "unspecified_dims=[";
  size_t at = text.find(kKey);
  if (at == std::string::npos) return dims;
  const char* p = text.data() + at + kKey.size();
  const char* end = text.data() + text.size();
  while (p < end && *p != ']') {
    int64_t value = 0;
    auto [next, error] = std::from_chars(p, end, value);
    if (error != std::errc()) {
      ++p;
      continue;
    }
    dims.push_back(value);
    p = next;
  }
  std::sort(dims.begin(), dims.end());
  dims.erase(std::unique(dims.begin(), dims.end()), dims.end());
  return dims;
}

bool RefineOpenDims(Engine& engine, Instruction* copy, const std::vector<int64_t>& open,
                    const Sharding* s, const Instruction* from) {
  if (s == nullptr || !s->IsTiled()) return false;
  Context& ctx = engine.context();
  const Sharding* candidate = KeepOnlyDims(ctx, s, open);
  if (candidate == nullptr || !candidate->IsTiled()) return false;
  const Sharding* current = engine.of(copy);
  const Sharding* merged = MergeShardings(ctx, candidate, current);
  if (merged == nullptr) return false;
  Engine::Cause cause{from, ShardingEdge::kOperand, candidate};
  Instruction* call = JoinedFullToShard(engine, copy, open);
  if (call != nullptr && engine.of(call) != nullptr && engine.of(call)->IsTiled() &&
      engine.of(call)->HasManualSubgroup()) {
    const Sharding* inside = ManualDimAsData(ctx, engine.of(call));
    const Sharding* refined = MergeShardings(ctx, WithTrailingDataDim(ctx, candidate), inside);
    if (refined == nullptr || !refined->IsTiled()) return false;
    engine.Set(call, DataDimAsManual(ctx, refined), {copy, ShardingEdge::kOperand, candidate});
  }
  engine.Set(copy, merged, cause);
  return true;
}

void RefineOpenDimsForward(Engine& engine, Instruction* copy, const std::vector<int64_t>& open) {
  RefineOpenDims(engine, copy, open, engine.of(copy->operand(0)), copy->operand(0));
}

void RefineOpenDimsBackward(Engine& engine, Instruction* copy, const std::vector<int64_t>& open) {
  for (const Instruction* user : engine.rules().users(copy)) {
    const Sharding* s = engine.of(user);
    if (s == nullptr || !engine.LevelAllowsThroughUser(user)) continue;
    const Sharding* asked = RuleOf(user->opcode()).backward(engine.rules(), *user, s, *copy);
    RefineOpenDims(engine, copy, open, asked, user);
  }
}

}  // namespace gshard
