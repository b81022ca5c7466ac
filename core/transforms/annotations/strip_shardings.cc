// See strip_shardings.h.

#include "core/transforms/annotations/strip_shardings.h"

#include <algorithm>
#include <string>
#include <unordered_set>

#include "core/transforms/rewriter.h"
#include "ir/custom_call.h"
#include "ir/op_traits.h"
#include "ir/shardy_attribute.h"

namespace gshard {
namespace {

bool IsManual(const Sharding* sharding) {
  if (sharding == nullptr) return false;
  if (sharding->IsTuple()) return std::ranges::any_of(sharding->elements, IsManual);
  return sharding->IsManual() || (sharding->IsTiled() && sharding->HasManualSubgroup());
}

// Of each leaf.
bool IsOnFirstDevice(const Sharding* sharding) {
  if (sharding == nullptr) return false;
  if (sharding->IsTuple()) return std::ranges::all_of(sharding->elements, IsOnFirstDevice);
  return sharding->IsMaximal() && sharding->device == 0;
}

// How an operation may be cut is no annotation.
bool IsShardys(std::string_view key) {
  return key.starts_with("xla.sdy.") && key != "xla.sdy.sharding_rule";
}

class Stripper {
 public:
  Stripper(Module& module, StrippedShardings which) : module_(module), which_(which) {
    for (const Computation* computation : module.computations()) FindKept(*computation);
  }

  bool Run() {
    bool changed = false;
    for (Computation* computation : module_.computations()) {
      for (Instruction* x : computation->instructions()) changed |= Strip(x);
    }
    if (which_ == StrippedShardings::kAll) changed |= StripHeader();
    changed |= RewriteModule(module_, [&](Instruction* x, Rewriter&) {
      const bool goes = x->sharding() == nullptr && x->opcode() == Opcode::kCustomCall &&
                        IsShardingMarker(x->attributes<CustomCallAttributes>().target);
      return goes && x->operand_count() == 1 ? x->operand(0) : x;
    });
    return changed;
  }

 private:
  // What is manual, and what stands at the borders of a region; parameters and results.
  void FindKept(const Computation& computation) {
    for (const Instruction* x : computation.instructions()) {
      if (!IsRegionMarker(*x)) {
        if (IsManual(x->sharding())) kept_.insert(x);
        continue;
      }
      kept_.insert(x);
      for (const Instruction* operand : x->operands()) kept_.insert(operand);
    }
    if (which_ == StrippedShardings::kAll || &computation != module_.entry()) return;
    for (const Instruction* parameter : computation.parameters()) kept_.insert(parameter);
    const Instruction* root = computation.root();
    kept_.insert(root);
    // JAX says how results lie by Sharding calls on the elements of the root.
    for (const Instruction* operand : root->operands()) {
      if (IsCustomCallTo(*operand, kShardingTarget)) kept_.insert(operand);
    }
  }

  bool Strip(Instruction* x) {
    if (kept_.contains(x)) return false;
    const bool stays = IsDoneByFirstDevice(*x);
    const std::string_view attributes =
        WithoutFrontendAttributes(module_.arena(), x->frontend_attributes(), IsShardys);
    const bool changed =
        (x->sharding() != nullptr && !stays) || attributes.size() != x->frontend_attributes().size();
    if (!stays) x->set_sharding(nullptr);
    x->set_frontend_attributes(attributes);
    return changed;
  }

  bool StripHeader() {
    ModuleHeader& header = module_.header();
    const std::string_view attributes =
        WithoutFrontendAttributes(module_.arena(), header.frontend_attributes, IsShardys);
    const bool changed = attributes.size() != header.frontend_attributes.size() ||
                         !header.propagation_to_parameters.empty() ||
                         !header.propagation_to_output.empty();
    header.frontend_attributes = attributes;
    header.propagation_to_parameters.clear();
    header.propagation_to_output.clear();
    return changed;
  }

  Module& module_;
  const StrippedShardings which_;
  std::unordered_set<const Instruction*> kept_;
};

}  // namespace

bool IsDoneByFirstDevice(const Instruction& x) {
  return HasSideEffect(x) && IsOnFirstDevice(x.sharding());
}

bool StripShardings(Module& module, StrippedShardings which) {
  return Stripper(module, which).Run();
}

}  // namespace gshard
