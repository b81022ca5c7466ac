#include "core/propagation/shardy_import.h"

#include <string>
#include <string_view>
#include <vector>

#include "core/propagation/rules.h"
#include "core/propagation/shardy_regions.h"
#include "fmt/format.h"
#include "ir/custom_call.h"
#include "ir/metadata.h"
#include "ir/sharding_algebra.h"
#include "ir/sharding_text.h"
#include "ir/shardy_text.h"

namespace gshard {
namespace {

Expected<void> ImportInto(Module& module, Instruction* x, const ShardyMeshes& meshes) {
  std::string attribute = FrontendAttribute(x->frontend_attributes(), "xla.sdy.sharding");
  if (attribute.empty()) return {};
  std::vector<ShardySharding> shardings;
  auto fail = [&](const std::string& why) {
    return Fail(module.ErrorAt(
        x, "E-SDY-001",
        fmt::format("cannot read the xla.sdy.sharding of '{}': {}", x->name(), why)));
  };
  if (!ReadShardyShardings(attribute, meshes, shardings)) return fail(attribute);
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

}  // namespace

Expected<bool> ImportShardyShardings(Module& module) {
  ShardyMeshes meshes;
  std::string_view header = module.header().frontend_attributes;
  if (header.find("xla.sdy.meshes") != std::string_view::npos) {
    for (const auto& [key, value] : ParseFrontendAttributes(header)) {
      if (key != "xla.sdy.meshes") continue;
      std::string text = value.starts_with('"') ? Unquoted(value) : std::string(value);
      if (!ReadShardyMeshes(text, meshes)) {
        return Fail(MakeError("E-SDY-002", "cannot read the module's xla.sdy.meshes: " + text));
      }
    }
  }
  Expected<bool> regions = ImportManualRegions(module, meshes);
  if (!regions) return Fail(regions.error());
  bool changed = *regions;
  for (Computation* computation : module.computations()) {
    for (Instruction* x : computation->instructions()) {
      const bool result = IsCustomCallTo(*x, "xla.sdy.FuncResultSharding");
      if (!result && x->frontend_attributes().find("xla.sdy.sharding") == std::string_view::npos) {
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
  }
  return changed;
}

}  // namespace gshard
