#include "core/report/annotation_advice.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>

#include "core/estimate/plan.h"
#include "ir/sharding_algebra.h"
#include "ir/sharding_text.h"

namespace gshard {
namespace {

using Rematerialization = CollectiveReport::Rematerialization;

struct Candidate {
  const Instruction* instruction;
  const Sharding* sharding;
};

// The value where its user wants it, the user where the value is, the user whole.
std::vector<Candidate> CandidatesFor(const CollectiveCause& cause) {
  std::vector<Candidate> candidates;
  auto fits = [](const Instruction* x, const Sharding* sharding) {
    return sharding != nullptr && x->shape()->IsArray() &&
           (!sharding->IsTiled() || sharding->data_rank() == x->shape()->rank());
  };
  auto add = [&](const Instruction* x, const Sharding* sharding) {
    if (x != nullptr && fits(x, sharding) && x->sharding() != sharding) {
      candidates.push_back({x, sharding});
    }
  };
  add(cause.value, cause.wants);
  if (cause.user != cause.value) {
    add(cause.user, cause.has);
    add(cause.user, cause.wants);
  }
  return candidates;
}

// Null: none, as of what passes made.
const Instruction* FindByName(const Module& module, std::string_view name) {
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (x->name() == name) return x;
    }
  }
  return nullptr;
}

struct Outcome {
  size_t rematerializations = 0, xla_rematerializations = 0;
  double bytes = 0;
};

// What the program sends with one more annotation; nothing if that is illegal.
std::optional<Outcome> Try(const Module& program, const PassContext& context,
                           const PerDeviceOptions& way, const Candidate& candidate) {
  const Instruction* x = FindByName(program, candidate.instruction->name());
  if (x == nullptr ||
      !WhyNotApplicable(candidate.sharding, x->shape(), 0).empty()) {
    return std::nullopt;
  }
  std::unique_ptr<Module> module = WithShardings(program, {{x->id(), candidate.sharding}});
  ExplainRecorder recorder;
  PassContext trial = context;
  trial.diagnostics.clear();
  trial.propagation.findings = nullptr;
  trial.recorder = &recorder;
  PerDeviceOptions quietly = way;
  quietly.passes = {};
  quietly.timings = nullptr;
  if (!MakePerDeviceModule(*module, trial, quietly)) return std::nullopt;
  CollectiveReport report = MakeCollectiveReport(*module, &recorder);
  return Outcome{report.rematerializations.size(), report.xla_rematerializations.size(),
                 report.bytes_per_device};
}

}  // namespace

void AdviseAnnotations(const Module& program, const PassContext& context,
                       const PerDeviceOptions& way, CollectiveReport& report, size_t limit) {
  const size_t own = report.rematerializations.size();
  const size_t by_xla = report.xla_rematerializations.size();
  std::vector<Rematerialization*> costliest;
  for (Rematerialization& r : report.rematerializations) costliest.push_back(&r);
  for (Rematerialization& r : report.xla_rematerializations) costliest.push_back(&r);
  std::stable_sort(costliest.begin(), costliest.end(), [](const auto* a, const auto* b) {
    return a->bytes_per_device > b->bytes_per_device;
  });
  costliest.resize(std::min(limit, costliest.size()));
  for (Rematerialization* r : costliest) {
    for (const Candidate& candidate : CandidatesFor(r->cause)) {
      std::optional<Outcome> outcome = Try(program, context, way, candidate);
      // Worth taking: one less, none of the other kind for it, and less is sent.
      if (!outcome || outcome->bytes >= report.bytes_per_device) continue;
      if (outcome->rematerializations > own || outcome->xla_rematerializations > by_xla) continue;
      if (outcome->rematerializations + outcome->xla_rematerializations >= own + by_xla) continue;
      if (r->advice && r->advice->bytes_per_device <= outcome->bytes) continue;
      const std::string name(candidate.instruction->name());
      r->advice = {
          fmt::format("^{}$={}", RE2::QuoteMeta(name), ToString(candidate.sharding)),
          outcome->bytes};
    }
  }
}

}  // namespace gshard
