#include "core/propagation/shardy_import.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/propagation/rules.h"
#include "core/propagation/shardy/annotation.h"
#include "core/propagation/shardy_regions.h"
#include "fmt/format.h"
#include "ir/custom_call.h"
#include "ir/metadata.h"
#include "ir/op_traits.h"
#include "ir/sharding_algebra.h"
#include "ir/sharding_text.h"
#include "ir/shardy_attribute.h"
#include "ir/shardy_text.h"

namespace gshard {
namespace {

Expected<void> ImportInto(Module& module, Instruction* x, const ShardyMeshes& meshes) {
  std::string attribute = FrontendAttribute(x->frontend_attributes(), "xla.sdy.sharding");
  if (attribute.empty()) return {};
  std::vector<ShardySharding> shardings;
  auto fail = [&](const std::string& why) {
    return Fail(module.ErrorAt(x, "E-SDY-001",
                               fmt::format("cannot read the xla.sdy.sharding of '{}', {}: {}",
                                           x->name(), attribute, why)));
  };
  TextError error;
  if (!ReadShardyShardings(attribute, meshes, shardings, &error)) return fail(error.message);
  std::vector<const Sharding*> leaves;
  for (const ShardySharding& sharding : shardings) {
    tl::expected<const Sharding*, TextError> s =
        ParseSharding(module.context(), MeshFormOf(sharding));
    if (!s) return fail(s.error().message);
    leaves.push_back(*s);
  }
  if (leaves.empty()) return {};
  if (!x->shape()->IsTuple()) {
    x->set_sharding(leaves[0]);
  } else if (leaves.size() == 1) {
    x->set_sharding(module.context().TupleOf(LeafShardings(x->shape(), leaves[0])));
  } else if (static_cast<int64_t>(leaves.size()) == x->shape()->leaf_count()) {
    x->set_sharding(module.context().TupleOf(std::move(leaves)));
  } else {
    return fail(fmt::format("{} shardings for {} leaves", leaves.size(), x->shape()->leaf_count()));
  }
  return {};
}

// Shardy's barrier as GSPMD's: what may not pass forward stops at a ShardBarrierFrom, what may not
// pass backward at a ShardBarrierTo.
Instruction* ImportBarrier(Module& module, Instruction* x, std::vector<Instruction*>& list) {
  const std::string text = FrontendAttribute(x->frontend_attributes(), "xla.sdy.allowed_direction");
  const int direction = text.empty() ? 0 : text[0] - '0';
  constexpr int kForward = 1, kBackward = 2;  // NONE 0, FORWARD 1, BACKWARD 2, BOTH 3
  Instruction* value = x->operand(0);
  const auto add = [&](std::string_view target) {
    CustomCallAttributes attributes;
    attributes.target = target;
    Instruction* const operands[] = {value};
    value = module.Add(x->parent(), Opcode::kCustomCall, module.UniqueName(x->name()), x->shape(),
                       operands, attributes);
    value->set_metadata(x->metadata());
    value->set_source(x->source());
    list.push_back(value);
  };
  if ((direction & kForward) == 0) add(kShardBarrierFrom);
  if ((direction & kBackward) == 0) add(kShardBarrierTo);
  return value;
}

// A value of a sharding group is marked as one that is sharded as the others of the group.
void ImportGroup(Module& module, const Instruction* x) {
  const std::string text = FrontendAttribute(x->frontend_attributes(), "xla.sdy.sharding_group_id");
  int64_t group = 0;
  std::from_chars(text.data(), text.data() + text.size(), group);
  Instruction* value = x->operand(0);
  if (!value->shape()->IsArray() || group < 0) return;
  Sharding marked;
  marked.kind = ShardingKind::kUnknown;
  if (value->sharding() != nullptr) marked = *value->sharding();
  if (marked.group_kind != ShardGroupKind::kNone) return;
  marked.group_kind = ShardGroupKind::kShardAs;
  marked.group_id = group;
  value->set_sharding(module.context().Intern(std::move(marked)));
}

// Shardy's markers that speak of propagation only, in terms of GSPMD's.
bool ImportPropagationMarkers(Module& module, Computation* computation) {
  constexpr std::string_view kBarrier = "xla.sdy.PropagationBarrier";
  constexpr std::string_view kGroup = "xla.sdy.ShardingGroup";
  const auto is_marker = [&](const Instruction* x) {
    return x->operand_count() == 1 && (IsCustomCallTo(*x, kBarrier) ||
                                       (IsCustomCallTo(*x, kGroup) && x != computation->root()));
  };
  if (std::ranges::none_of(computation->instructions(), is_marker)) return false;
  const std::vector<Instruction*> old(computation->instructions().begin(),
                                      computation->instructions().end());
  std::unordered_map<const Instruction*, Instruction*> value_of;
  const auto resolve = [&](Instruction* x) {
    const auto it = value_of.find(x);
    return it == value_of.end() ? x : it->second;
  };
  std::vector<Instruction*> list;
  for (Instruction* x : old) {
    for (int64_t i = 0; i < x->operand_count(); ++i) x->set_operand(i, resolve(x->operand(i)));
    if (!is_marker(x)) {
      list.push_back(x);
    } else if (IsCustomCallTo(*x, kBarrier)) {
      value_of[x] = ImportBarrier(module, x, list);
    } else {
      ImportGroup(module, x);
    }
  }
  Instruction* root = resolve(computation->root());
  computation->SetInstructions(std::move(list));
  computation->set_root(root);
  return true;
}

// Elements have no layout: JAX constrains those of a scatter's or reduce's function where shardings
// are explicit. True if there were any calls.
bool DropShardingCalls(Computation* computation) {
  const auto is_call = [](const Instruction* x) {
    return IsCustomCallTo(*x, kShardingTarget) && x->operand_count() == 1;
  };
  if (std::ranges::none_of(computation->instructions(), is_call)) return false;
  std::unordered_map<const Instruction*, Instruction*> value_of;
  const auto resolve = [&](Instruction* x) {
    const auto it = value_of.find(x);
    return it == value_of.end() ? x : it->second;
  };
  std::vector<Instruction*> list;
  for (Instruction* x : computation->instructions()) {
    for (int64_t i = 0; i < x->operand_count(); ++i) x->set_operand(i, resolve(x->operand(i)));
    if (is_call(x)) {
      value_of[x] = x->operand(0);
    } else {
      list.push_back(x);
    }
  }
  Instruction* root = resolve(computation->root());
  computation->SetInstructions(std::move(list));
  computation->set_root(root);
  return true;
}

bool DropShardingsOfElements(Module& module) {
  bool changed = false;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (CalleesOf(x->opcode()) != Callees::kPerElement) continue;
      for (Computation* called : x->called()) changed |= DropShardingCalls(called);
    }
  }
  return changed;
}

}  // namespace

Expected<bool> ImportShardyShardings(Module& module) {
  ShardyMeshes meshes;
  if (std::string text = shardy::ShardyMeshesText(module); !text.empty()) {
    TextError error;
    if (!ReadShardyMeshes(text, meshes, &error)) {
      return Fail(MakeError("E-SDY-002", fmt::format("cannot read the module's xla.sdy.meshes, "
                                                     "{}: {}",
                                                     text, error.message)));
    }
  }
  bool changed = DropShardingsOfElements(module);
  Expected<bool> regions = ImportManualRegions(module, meshes);
  if (!regions) return Fail(regions.error());
  changed |= *regions;
  for (Computation* computation : module.computations()) {
    for (Instruction* x : computation->instructions()) {
      const bool result = IsCustomCallTo(*x, "xla.sdy.FuncResultSharding");
      if (!result && x->frontend_attributes().find("xla.sdy.sharding") == std::string_view::npos) {
        continue;
      }
      if (HasStaleShardyAttribute(*x)) {
        x->set_frontend_attributes(WithoutFrontendAttributes(
            module.arena(), x->frontend_attributes(),
            [](std::string_view key) { return key == "xla.sdy.sharding"; }));
        changed = true;
        continue;
      }
      if (x->sharding() == nullptr || result) {
        const Sharding* before = x->sharding();
        if (Expected<void> ok = ImportInto(module, x, meshes); !ok) return Fail(ok.error());
        changed = changed || x->sharding() != before;
      }
      if (!result) continue;
      CustomCallAttributes& attributes = x->mutable_attributes<CustomCallAttributes>();
      attributes.target = kShardingTarget;
      attributes.has_side_effect = false;
      if (x->sharding() == nullptr) x->set_sharding(module.context().Unknown());
      changed = true;
    }
    changed |= ImportPropagationMarkers(module, computation);
  }
  return changed;
}

}  // namespace gshard
