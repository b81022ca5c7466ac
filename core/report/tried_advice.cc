// See tried_advice.h.

#include "core/report/tried_advice.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "core/analysis/axis_text.h"
#include "core/analysis/partitioned.h"
#include "core/remat/fit_to_memory.h"
#include "core/report/annotation_advice.h"
#include "core/report/quantity_text.h"
#include "core/report/table_text.h"
#include "core/transforms/annotations/remesh.h"
#include "ir/dims.h"

namespace gshard {
namespace {

constexpr size_t kMaxShards = 3;   // tensors of which a cut is tried
constexpr size_t kMaxMeshes = 12;  // other shapes of the mesh
constexpr double kMinWait = 0.01;  // of the step, before something is tried against waiting
constexpr double kShorter = 0.01, kSmaller = 0.02;

// What is changed before the program is made, and before it is priced; both may be empty.
struct Change {
  std::function<Expected<void>(Module& written, DeviceProgramOptions&, CostOptions&)> written;
  std::function<void(Module& device)> device;
};

// As `--limit` takes it: "16GiB", or in the largest unit that is exact.
std::string LimitFlag(int64_t bytes) {
  for (const auto& [unit, shift] :
       {std::pair("GiB", 30), std::pair("MiB", 20), std::pair("KiB", 10)}) {
    if (bytes % (int64_t{1} << shift) == 0) return fmt::format("{}{}", bytes >> shift, unit);
  }
  return fmt::format("{}", bytes);
}

// Array arguments that a result of the same shape can take the place of, each result once.
std::vector<int64_t> ReplacedArguments(const Module& module) {
  std::vector<const Shape*> results = LeafShapes(module.entry()->root()->shape());
  for (const Shape*& result : results) result = result->bare();
  std::vector<int64_t> replaced;
  for (int64_t i = 0; i < module.entry()->parameter_count(); ++i) {
    const Shape* shape = module.entry()->parameter(i)->shape();
    if (!shape->IsArray() || shape->rank() == 0) continue;
    const auto result = std::find(results.begin(), results.end(), shape->bare());
    if (result == results.end()) continue;
    results.erase(result);
    replaced.push_back(i);
  }
  return replaced;
}

class AdviceTrials {
 public:
  AdviceTrials(const PricedProgram& priced, size_t trials)
      : priced_(priced),
        trials_(trials),
        is_given_partitioned_(
            priced.program.is_partitioned.value_or(IsPartitioned(priced.written))),
        step_(std::max(priced.report.step_time_s, 1e-30)),
        peak_(static_cast<double>(std::max<int64_t>(priced.report.memory.peak_bytes, 1))) {}

  std::vector<TriedAdvice> Run() {
    TryRecomputation();
    TryDonation();
    TryFlashAttention();
    if (!is_given_partitioned_ && priced_.report.devices > 1) {
      TryReshardings();
      TryShards();
      TryOptions();
      TryMeshes();
    }
    if (!priced_.program.optimize) {
      Try(AdviceKind::kOptimize,
          "`gshard-opt optimize` the program of one device (XLA does equal computations once)", "",
          {[](Module&, DeviceProgramOptions& program, CostOptions&) {
             program.optimize = true;
             return Expected<void>();
           },
           {}});
    }
    std::stable_sort(helpful_.begin(), helpful_.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<TriedAdvice> advice;
    for (auto& [gain, one] : helpful_) advice.push_back(std::move(one));
    return advice;
  }

 private:
  bool Fits() const { return priced_.report.memory.Fits(); }
  bool Waits() const { return priced_.report.exposed_communication_s > kMinWait * step_; }

  // How much better it is than the program as it was; 0 or less: it does not help.
  double GainOf(const StepFigures& figures) const {
    const double time = 1 - figures.step_time_s / step_;
    const double memory = 1 - static_cast<double>(figures.peak_bytes) / peak_;
    const MemoryReport& before = priced_.report.memory;
    const bool fits = before.limit_bytes == 0 || figures.peak_bytes <= before.limit_bytes;
    if (!Fits()) return fits ? 1 + time + memory / 2 : memory >= kSmaller ? memory : 0;
    if (!fits || time < -1e-6 || memory < -1e-6) return 0;
    return time >= kShorter || memory >= kSmaller ? time + memory / 2 : 0;
  }

  // Applies the change to a copy, prices that, and keeps what helps. What cannot be applied does
  // not help.
  void Try(AdviceKind kind, std::string what, std::string instruction, const Change& change) {
    if (trials_ == 0) return;
    --trials_;
    std::unique_ptr<Module> module = priced_.written.Clone();
    DeviceProgramOptions program = priced_.program;
    program.recorder = nullptr;
    program.propagation.findings = nullptr;
    program.records_tensors = false;
    CostOptions cost = priced_.cost;
    if (change.written && !change.written(*module, program, cost)) return;
    Expected<DeviceProgram> device = MakeDeviceProgram(std::move(module), program);
    if (!device) return;
    if (change.device) change.device(*device->module);
    Expected<StepFigures> figures = PriceProgram(*std::move(device), priced_.chip, cost);
    if (!figures) return;
    const double gain = GainOf(*figures);
    if (gain <= 0) return;
    helpful_.push_back({gain,
                        {kind, std::move(what), std::move(instruction), figures->step_time_s,
                         figures->peak_bytes}});
  }

  void TryAnnotation(AdviceKind kind, const std::string& shard, const std::string& instruction) {
    Try(kind, fmt::format("`gshard-opt annotate IN --shard '{}'`", shard), instruction,
        {[&](Module& module, DeviceProgramOptions&, CostOptions&) -> Expected<void> {
           Expected<AnnotationRule> rule = ParseAnnotationRule(shard, "--shard");
           if (!rule) return Fail(std::move(rule.error()));
           AnnotateOptions options;
           options.rules = {std::move(*rule)};
           return Annotate(module, options);
         },
         {}});
  }

  void TryShards() {
    if (priced_.report.mesh_is_inferred) return;  // annotations need names of axes
    std::vector<CopyCut> cuts = CutsOfCopies(priced_.report.memory, priced_.report.mesh);
    if (cuts.size() > kMaxShards) cuts.resize(kMaxShards);
    for (const CopyCut& cut : cuts) {
      const std::string name(cut.buffer->instruction->name());
      TryAnnotation(AdviceKind::kShard, fmt::format("^{}$={}", RE2::QuoteMeta(name), cut.spec),
                    name);
    }
  }

  void TryReshardings() {
    if (priced_.collectives == nullptr) return;
    for (const auto& remat : priced_.collectives->rematerializations) {
      if (!remat.advice) continue;
      const Instruction* user = remat.cause.user != nullptr ? remat.cause.user : remat.cause.value;
      TryAnnotation(AdviceKind::kResharding, remat.advice->shard, std::string(user->name()));
    }
  }

  void TryDonation() {
    const ModuleHeader& header = priced_.written.header();
    if (!header.input_output_alias.empty() || !header.buffer_donor.empty()) return;
    const std::vector<int64_t> replaced = ReplacedArguments(priced_.written);
    if (replaced.empty()) return;
    const std::string first(priced_.written.entry()->parameter(replaced.front())->name());
    const std::string which = replaced.size() == 1
                                  ? fmt::format("donate {}, which a result replaces", first)
                                  : fmt::format("donate {} and {} more, which results replace",
                                                first, replaced.size() - 1);
    Try(AdviceKind::kDonation, fmt::format("{} (`donate_argnums` of `jax.jit`)", which), first,
        {{}, [](Module& device) {
           for (const int64_t i : ReplacedArguments(device)) {
             device.header().buffer_donor.push_back({i, {}});
           }
         }});
  }

  void TryFlashAttention() {
    if (priced_.cost.fuse_attention) return;
    Try(AdviceKind::kFlashAttention,
        "an attention kernel that keeps scores on the chip (`--attention flash`)", "",
        {[](Module&, DeviceProgramOptions&, CostOptions& cost) {
           cost.fuse_attention = true;
           return Expected<void>();
         },
         {}});
  }

  void TryRecomputation() {
    if (Fits()) return;
    FitOptions fit;
    fit.limit_bytes = priced_.report.memory.limit_bytes;
    fit.memory = MemoryOptionsOf(priced_.chip, priced_.cost);
    fit.cleanup = CleanupOf(priced_.chip);
    fit.num_partitions = priced_.program.num_partitions;
    Try(AdviceKind::kRecomputation,
        fmt::format("`{}`", RematCommand("IN", LimitFlag(fit.limit_bytes),
                                         "--chip " + priced_.chip.name, priced_.cost)),
        "",
        {[&](Module& module, DeviceProgramOptions& program, CostOptions&) -> Expected<void> {
           PassContext context;
           context.propagation = program.propagation;
           auto done = FitToMemory(module, context, fit);
           if (!done) return Fail(std::move(done.error()));
           return {};
         },
         {}});
  }

  void TryOptions() {
    if (!Waits()) return;
    Try(AdviceKind::kWindowedEinsum, "`gshard-opt partition IN --windowed-einsum 0`", "",
        {[](Module&, DeviceProgramOptions& program, CostOptions&) {
           program.windowed_einsum = true;
           return Expected<void>();
         },
         {}});
    Try(AdviceKind::kWeightUpdate, "`gshard-opt partition IN --weight-update-sharding`", "",
        {[](Module&, DeviceProgramOptions& program, CostOptions&) {
           program.weight_update_sharding = true;
           return Expected<void>();
         },
         {}});
  }

  // As many devices, other powers of two of the axes.
  void TryMeshes() {
    if (!Waits() && Fits()) return;
    std::unique_ptr<Module> module = priced_.written.Clone();
    Expected<AnnotatedMesh> annotated = FindAnnotatedMesh(*module);
    if (!annotated || annotated->mesh == nullptr || annotated->axes.size() < 2) return;
    std::vector<MeshAxis> axes = annotated->axes;
    std::vector<std::vector<MeshAxis>> shapes;
    AddShapes(axes, 0, annotated->mesh->device_count(), shapes);
    std::erase(shapes, annotated->axes);
    if (shapes.size() > kMaxMeshes) return;
    for (const std::vector<MeshAxis>& shape : shapes) {
      Try(AdviceKind::kMesh,
          fmt::format("a mesh of {} in place of {}", MeshText(shape), MeshText(annotated->axes)),
          "",
          {[&](Module& written, DeviceProgramOptions&, CostOptions&) {
             return Remesh(written, shape, {});
           },
           {}});
    }
  }

  static void AddShapes(std::vector<MeshAxis>& axes, size_t axis, int64_t left,
                        std::vector<std::vector<MeshAxis>>& shapes) {
    if (axis + 1 == axes.size()) {
      axes[axis].size = left;
      shapes.push_back(axes);
      return;
    }
    for (int64_t size = 1; size <= left; size *= 2) {
      if (left % size != 0) continue;
      axes[axis].size = size;
      AddShapes(axes, axis + 1, left / size, shapes);
    }
  }

  const PricedProgram& priced_;
  size_t trials_;
  bool is_given_partitioned_;
  double step_, peak_;
  std::vector<std::pair<double, TriedAdvice>> helpful_;
};

}  // namespace

std::string_view AdviceKindName(AdviceKind kind) {
  switch (kind) {
    case AdviceKind::kShard:
      return "shard";
    case AdviceKind::kResharding:
      return "resharding";
    case AdviceKind::kDonation:
      return "donation";
    case AdviceKind::kWindowedEinsum:
      return "windowed-einsum";
    case AdviceKind::kWeightUpdate:
      return "weight-update-sharding";
    case AdviceKind::kOptimize:
      return "optimize";
    case AdviceKind::kMesh:
      return "mesh";
    case AdviceKind::kRecomputation:
      return "remat";
    case AdviceKind::kFlashAttention:
      return "flash-attention";
  }
  return "";
}

std::vector<TriedAdvice> TryAdvice(const PricedProgram& priced, size_t trials) {
  return AdviceTrials(priced, trials).Run();
}

std::string AdviceSentence(const TriedAdvice& advice, const CostReport& before) {
  return fmt::format("{}: a step of {} in place of {}, a peak of {} in place of {}.", advice.what,
                     HumanSeconds(advice.step_time_s), HumanSeconds(before.step_time_s),
                     HumanBytes(static_cast<double>(advice.peak_bytes)),
                     HumanBytes(static_cast<double>(before.memory.peak_bytes)));
}

std::string AdviceAsText(const std::vector<TriedAdvice>& advice, const CostReport& before) {
  if (advice.empty()) return "";
  std::string out = fmt::format("\n  {:>12}{:>14}  what helps, as tried (now {}, {})\n",
                                "step time", "peak memory", HumanSeconds(before.step_time_s),
                                HumanBytes(static_cast<double>(before.memory.peak_bytes)));
  for (const TriedAdvice& one : advice) {
    std::string what = one.what;
    std::erase(what, '`');
    out += fmt::format("  {:>12}{:>14}  {}\n", HumanSeconds(one.step_time_s),
                       HumanBytes(static_cast<double>(one.peak_bytes)), what);
  }
  return out;
}

std::string AdviceAsMarkdown(const std::vector<TriedAdvice>& advice) {
  TextTable table{{{"step time", true}, {"peak memory", true}, {"what helps, as tried", false}},
                  {}};
  for (const TriedAdvice& one : advice) {
    std::string what = one.what;
    std::erase(what, '`');
    table.rows.push_back({HumanSeconds(one.step_time_s),
                          HumanBytes(static_cast<double>(one.peak_bytes)), std::move(what)});
  }
  return table.rows.empty() ? "" : fmt::format("\n{}", TableAsMarkdown(table));
}

}  // namespace gshard
