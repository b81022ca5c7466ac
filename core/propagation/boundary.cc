#include "core/propagation/boundary.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "ir/custom_call.h"
#include "ir/metadata.h"
#include "ir/propagation_flags.h"
#include "ir/sharding_algebra.h"

namespace gshard {
namespace {

bool Usable(const Sharding* s) { return s != nullptr && !s->IsUnknown(); }

constexpr const char* kToOutput = "--allow-spmd-sharding-propagation-to-output";
constexpr const char* kToParameters = "--allow-spmd-sharding-propagation-to-parameters";

// The leaves that have no annotation.
std::vector<bool> FreeLeaves(const Instruction* x) {
  std::vector<bool> free(static_cast<size_t>(x->shape()->leaf_count()), true);
  if (x->sharding() == nullptr) return free;
  const std::vector<const Sharding*> leaves = LeafShardings(x->shape(), x->sharding());
  for (size_t i = 0; i < free.size(); ++i) free[i] = !Usable(leaves[i]);
  return free;
}

bool HasOneTupleParameter(const Computation& entry) {
  return entry.parameter_count() == 1 && entry.parameter(0)->shape()->IsTuple();
}

std::vector<bool> FreeParameters(const Computation& entry) {
  if (HasOneTupleParameter(entry)) return FreeLeaves(entry.parameter(0));
  std::vector<bool> free;
  for (const Instruction* p : entry.parameters()) {
    const std::vector<bool> leaves = FreeLeaves(p);
    free.push_back(std::find(leaves.begin(), leaves.end(), true) != leaves.end());
  }
  return free;
}

// A constraint on the value that is also the only result says nothing of the result: what jit's
// out_shardings say stands on an element of a tuple.
std::vector<bool> FreeResults(const Computation& entry) {
  const Instruction* root = entry.root();
  if (IsCustomCallTo(*root, kShardingTarget) &&
      !FrontendAttribute(root->frontend_attributes(), "xla.sdy.sharding").empty()) {
    return {true};
  }
  return FreeLeaves(root);
}

// Of the leaves with a true flag, those that are not whole on every device.
size_t CountSharded(const Instruction* x, const std::vector<bool>& flags) {
  if (x->sharding() == nullptr) return 0;
  const std::vector<const Sharding*> leaves = LeafShardings(x->shape(), x->sharding());
  size_t count = 0;
  for (size_t i = 0; i < leaves.size(); ++i) {
    const Sharding* s = leaves[i];
    if (flags[i] && Usable(s) && !s->IsReplicated()) ++count;
  }
  return count;
}

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

// Replicates leaves with a true flag that do not divide evenly; by default also those that hold
// summands, as nobody asked for them.
bool ReplicateIndivisible(Instruction* x, const std::vector<bool>& flags, size_t first_flag,
                          bool by_default, Context& ctx, ExplainRecorder* recorder) {
  const Sharding* s = x->sharding();
  if (s == nullptr) return false;
  auto stays = [&](const Sharding* leaf, const Shape* shape) {
    const bool summands = leaf->IsUnreduced() ||
                          (leaf->IsTiled() && leaf->SubgroupDim(SubgroupType::kUnreduced) >= 0);
    return DividesEvenly(leaf, shape) && !(by_default && summands);
  };
  if (!x->shape()->IsTuple()) {
    return flags[first_flag] && !stays(s, x->shape()) &&
           SetAtBoundary(x, ctx.Replicated(), recorder);
  }
  if (x->shape()->leaf_count() != static_cast<int64_t>(x->shape()->elements().size())) return false;
  std::vector<const Sharding*> leaves = s->elements;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (flags[first_flag + i] && !stays(leaves[i], x->shape()->element(static_cast<int64_t>(i)))) {
      leaves[i] = ctx.Replicated();
    }
  }
  return leaves != s->elements && SetAtBoundary(x, ctx.TupleOf(std::move(leaves)), recorder);
}

// Of the flags that a user gives; the header's the verifier checks.
Expected<void> CheckFlags(const Module& module, const std::vector<bool>& to_parameters,
                          const std::vector<bool>& to_output) {
  const Computation& entry = *module.entry();
  const Instruction* first = entry.parameters().empty() ? entry.root() : entry.parameter(0);
  if (auto problem = ParameterFlagsProblem(kToParameters, to_parameters.size(), entry)) {
    return Fail(module.ErrorAt(first, "E-PROP-005", *std::move(problem)));
  }
  if (auto problem = OutputFlagsProblem(kToOutput, to_output.size(), entry)) {
    return Fail(module.ErrorAt(entry.root(), "E-PROP-005", *std::move(problem)));
  }
  return {};
}

// One flag an element of a tuple means all leaves of that element.
void SpreadToLeaves(const Shape* shape, std::vector<bool>& flags) {
  if (!shape->IsTuple() || flags.size() != shape->elements().size()) return;
  std::vector<bool> leaves;
  for (size_t i = 0; i < flags.size(); ++i) {
    leaves.insert(leaves.end(), static_cast<size_t>(shape->elements()[i]->leaf_count()), flags[i]);
  }
  flags = std::move(leaves);
}

}  // namespace

Expected<BoundaryFlags> ResolveBoundary(const Module& module,
                                        const std::vector<bool>& to_parameters,
                                        const std::vector<bool>& to_output) {
  if (auto done = CheckFlags(module, to_parameters, to_output); !done) return Fail(done.error());
  const ModuleHeader& header = module.header();
  BoundaryFlags flags;
  flags.parameters = to_parameters.empty() ? header.propagation_to_parameters : to_parameters;
  flags.results = to_output.empty() ? header.propagation_to_output : to_output;
  const Computation& entry = *module.entry();
  if (HasOneTupleParameter(entry)) SpreadToLeaves(entry.parameter(0)->shape(), flags.parameters);
  SpreadToLeaves(entry.root()->shape(), flags.results);
  if (flags.parameters.empty()) {
    flags.parameters_by_default = true;
    flags.parameters = FreeParameters(*module.entry());
  }
  if (flags.results.empty()) {
    flags.results_by_default = true;
    flags.results = FreeResults(*module.entry());
  }
  return flags;
}

bool RestoreBoundary(Module& module, const Annotations& annotations, const BoundaryFlags& flags,
                     ExplainRecorder* recorder) {
  bool changed = RestoreRoot(module, annotations.root_shardings, flags.results, recorder);
  changed =
      RestoreParameters(module, annotations.parameter_shardings, flags.parameters, recorder) ||
      changed;
  Computation* entry = module.entry();
  Context& ctx = module.context();
  auto leaves_of = [](const Instruction* x) {
    return x->shape()->IsTuple() ? x->shape()->elements().size() : size_t{1};
  };
  if (flags.results.size() == leaves_of(entry->root())) {
    changed = ReplicateIndivisible(entry->root(), flags.results, 0, flags.results_by_default, ctx,
                                   recorder) ||
              changed;
  }
  if (HasOneTupleParameter(*entry)) {
    if (flags.parameters.size() == leaves_of(entry->parameter(0))) {
      changed = ReplicateIndivisible(entry->parameter(0), flags.parameters, 0,
                                     flags.parameters_by_default, ctx, recorder) ||
                changed;
    }
  } else if (flags.parameters.size() == entry->parameters().size()) {
    for (size_t i = 0; i < entry->parameters().size(); ++i) {
      Instruction* p = entry->parameter(static_cast<int64_t>(i));
      if (!p->shape()->IsTuple()) {
        changed = ReplicateIndivisible(p, flags.parameters, i, flags.parameters_by_default, ctx,
                                       recorder) ||
                  changed;
      }
    }
  }
  return changed;
}

void RecordBoundary(Module& module, const BoundaryFlags& flags) {
  auto refused = [](const std::vector<bool>& allowed, bool by_default,
                    const std::vector<bool>& unannotated) {
    if (by_default) return false;
    const std::vector<bool> one_for_all(unannotated.size(), allowed[0]);
    const bool each = allowed.size() == unannotated.size();
    return !std::ranges::equal(unannotated, each ? allowed : one_for_all, std::less_equal());
  };
  ModuleHeader& header = module.header();
  header.propagation_to_parameters.clear();
  header.propagation_to_output.clear();
  if (refused(flags.parameters, flags.parameters_by_default, FreeParameters(*module.entry()))) {
    header.propagation_to_parameters = {false};
  }
  if (refused(flags.results, flags.results_by_default, FreeResults(*module.entry()))) {
    header.propagation_to_output = {false};
  }
}

std::optional<Diagnostic> FreeBoundaryNote(const Module& module, const BoundaryFlags& flags) {
  const Computation& entry = *module.entry();
  size_t parameters = 0, results = 0;
  if (flags.results_by_default) results = CountSharded(entry.root(), flags.results);
  if (flags.parameters_by_default && HasOneTupleParameter(entry)) {
    parameters = CountSharded(entry.parameter(0), flags.parameters);
  } else if (flags.parameters_by_default) {
    for (const Instruction* p : entry.parameters()) {
      const auto number = static_cast<size_t>(p->attributes<ParameterAttributes>().number);
      const std::vector<bool> all(static_cast<size_t>(p->shape()->leaf_count()),
                                  flags.parameters[number]);
      if (CountSharded(p, all) > 0) ++parameters;
    }
  }
  if (parameters + results == 0) return std::nullopt;
  auto counted = [](size_t count, const char* what) {
    return count == 0 ? "" : fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  auto refuse = [](const char* flag) { return fmt::format("{}=false", flag); };
  Diagnostic note;
  note.severity = Severity::kNote;
  note.message =
      fmt::format("{}{}{} without an annotation {} sharded as propagation found best",
                  counted(results, "result"), results > 0 && parameters > 0 ? " and " : "",
                  counted(parameters, "parameter"), results + parameters == 1 ? "is" : "are");
  note.hint = fmt::format(
      "to keep them whole on every device: {}{}{}", results > 0 ? refuse(kToOutput) : "",
      results > 0 && parameters > 0 ? " " : "", parameters > 0 ? refuse(kToParameters) : "");
  return note;
}

}  // namespace gshard
