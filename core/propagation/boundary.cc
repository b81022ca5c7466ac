#include "core/propagation/boundary.h"

#include <algorithm>

#include "ir/sharding_algebra.h"

namespace gshard {
namespace {

bool Usable(const Sharding* s) { return s != nullptr && !s->IsUnknown(); }

// True if that is a change.
bool SetAtBoundary(Instruction* x, const Sharding* s, ExplainRecorder* recorder) {
  if (SameSharding(x->sharding(), s)) return false;
  if (recorder != nullptr) {
    recorder->Record({x, nullptr, ShardingEdge::kBoundary, -1, s, x->sharding(), s});
  }
  x->set_sharding(s);
  return true;
}

bool RestoreRoot(Module& module, const std::vector<const Sharding*>& saved,
                 const std::vector<bool>& allowed, ExplainRecorder* recorder) {
  Instruction* root = module.entry()->root();
  if (root->sharding() == nullptr || saved.size() != allowed.size() || saved.empty()) return false;
  std::vector<const Sharding*> leaves = LeafShardings(root->shape(), root->sharding());
  if (leaves.size() != allowed.size()) return false;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!allowed[i] && Usable(saved[i])) leaves[i] = saved[i];
  }
  const Sharding* s = root->shape()->IsTuple() ? module.context().TupleOf(leaves) : leaves[0];
  return SetAtBoundary(root, s, recorder);
}

bool RestoreParameters(Module& module, const std::vector<const Sharding*>& saved,
                       const std::vector<bool>& allowed, ExplainRecorder* recorder) {
  Computation* entry = module.entry();
  if (saved.empty() || saved.size() != allowed.size()) return false;
  if (entry->parameter_count() == 1 && entry->parameter(0)->shape()->IsTuple()) {
    Instruction* p = entry->parameter(0);
    if (p->sharding() == nullptr) return false;
    std::vector<const Sharding*> leaves = p->sharding()->elements;
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (!allowed[i]) leaves[i] = Usable(saved[i]) ? saved[i] : module.context().Replicated();
    }
    return SetAtBoundary(p, module.context().TupleOf(std::move(leaves)), recorder);
  }
  bool changed = false;
  for (size_t i = 0; i < saved.size(); ++i) {
    if (allowed[i]) continue;
    changed = SetAtBoundary(entry->parameter(static_cast<int64_t>(i)),
                            Usable(saved[i]) ? saved[i] : nullptr, recorder) ||
              changed;
  }
  return changed;
}

// Replicates leaves with a true flag that do not divide evenly.
bool ReplicateIndivisible(Instruction* x, const std::vector<bool>& flags, size_t first_flag,
                          Context& ctx, ExplainRecorder* recorder) {
  const Sharding* s = x->sharding();
  if (s == nullptr) return false;
  if (!x->shape()->IsTuple()) {
    return flags[first_flag] && !DividesEvenly(s, x->shape()) &&
           SetAtBoundary(x, ctx.Replicated(), recorder);
  }
  if (x->shape()->leaf_count() != static_cast<int64_t>(x->shape()->elements().size())) return false;
  std::vector<const Sharding*> leaves = s->elements;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (flags[first_flag + i] &&
        !DividesEvenly(leaves[i], x->shape()->element(static_cast<int64_t>(i)))) {
      leaves[i] = ctx.Replicated();
    }
  }
  return leaves != s->elements && SetAtBoundary(x, ctx.TupleOf(std::move(leaves)), recorder);
}

}  // namespace

bool RestoreBoundary(Module& module, const Annotations& annotations,
                     const std::vector<bool>& allow_to_parameters,
                     const std::vector<bool>& allow_to_output, ExplainRecorder* recorder) {
  bool changed = RestoreRoot(module, annotations.root_shardings, allow_to_output, recorder);
  changed =
      RestoreParameters(module, annotations.parameter_shardings, allow_to_parameters, recorder) ||
      changed;
  Computation* entry = module.entry();
  Context& ctx = module.context();
  auto leaves_of = [](const Instruction* x) {
    return x->shape()->IsTuple() ? x->shape()->elements().size() : size_t{1};
  };
  if (allow_to_output.size() == leaves_of(entry->root())) {
    changed = ReplicateIndivisible(entry->root(), allow_to_output, 0, ctx, recorder) || changed;
  }
  bool one_tuple = entry->parameter_count() == 1 && entry->parameter(0)->shape()->IsTuple();
  if (one_tuple) {
    if (allow_to_parameters.size() == leaves_of(entry->parameter(0))) {
      changed = ReplicateIndivisible(entry->parameter(0), allow_to_parameters, 0, ctx, recorder) ||
                changed;
    }
  } else if (allow_to_parameters.size() == entry->parameters().size()) {
    for (size_t i = 0; i < entry->parameters().size(); ++i) {
      Instruction* p = entry->parameter(static_cast<int64_t>(i));
      if (!p->shape()->IsTuple()) {
        changed = ReplicateIndivisible(p, allow_to_parameters, i, ctx, recorder) || changed;
      }
    }
  }
  return changed;
}

}  // namespace gshard
