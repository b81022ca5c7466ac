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
  if (x == nullptr || !WhyNotApplicable(candidate.sharding, x->shape(), 0).empty()) {
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

int64_t AxisSize(std::span<const MeshAxis> mesh, const std::string& name) {
  const auto axis = std::ranges::find(mesh, name, &MeshAxis::name);
  return axis == mesh.end() ? 1 : axis->size;
}

// "_,model" for a tensor [_, _] that model could cut; empty if no dim divides.
std::string SpecWith(const LiveBuffer& buffer, const std::string& axis, int64_t size) {
  const std::string& text = buffer.sharding_text;
  std::vector<std::string> dims(static_cast<size_t>(buffer.global_shape->rank()), "_");
  if (text.size() > 2 && text.front() == '[' && text.back() == ']') {
    size_t dim = 0;
    for (size_t begin = 1; begin < text.size() && dim < dims.size(); ++dim) {
      const size_t end = std::min(text.find(", ", begin), text.size() - 1);
      dims[dim] = text.substr(begin, end - begin);
      begin = end + 2;
    }
  }
  int64_t best = -1;
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    const int64_t extent = buffer.global_shape->dim(static_cast<int64_t>(dim));
    if (dims[dim] != "_" || size <= 1 || extent % size != 0) continue;
    if (best < 0 || extent > buffer.global_shape->dim(best)) best = static_cast<int64_t>(dim);
  }
  if (best < 0) return "";
  dims[static_cast<size_t>(best)] = axis;
  return fmt::format("{}", fmt::join(dims, ","));
}

// Of the axes "data+model" along which the tensor only has copies.
CopyCut CutOf(const LiveBuffer& buffer, std::span<const MeshAxis> mesh) {
  CopyCut cut;
  for (size_t begin = 0; begin <= buffer.free_axes.size();) {
    const size_t end = std::min(buffer.free_axes.find('+', begin), buffer.free_axes.size());
    const std::string name = buffer.free_axes.substr(begin, end - begin);
    const int64_t size = AxisSize(mesh, name);
    std::string spec = SpecWith(buffer, name, size);
    if (!spec.empty() && size > cut.axis_size) cut = {&buffer, name, size, std::move(spec), 0};
    begin = end + 1;
  }
  cut.saved_bytes =
      static_cast<double>(buffer.bytes) * (1 - 1.0 / static_cast<double>(cut.axis_size));
  return cut;
}

}  // namespace

std::vector<CopyCut> CutsOfCopies(const MemoryReport& memory, std::span<const MeshAxis> mesh) {
  std::vector<CopyCut> cuts;
  for (const LiveBuffer& buffer : memory.at_peak) {
    if (buffer.free_axes.empty() || buffer.global_shape == nullptr) continue;
    CopyCut cut = CutOf(buffer, mesh);
    if (cut.buffer != nullptr) cuts.push_back(std::move(cut));
  }
  std::stable_sort(cuts.begin(), cuts.end(), [](const CopyCut& a, const CopyCut& b) {
    return a.saved_bytes > b.saved_bytes;
  });
  return cuts;
}

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
      r->advice = {fmt::format("^{}$={}", RE2::QuoteMeta(name), ToString(candidate.sharding)),
                   outcome->bytes};
    }
  }
}

}  // namespace gshard
