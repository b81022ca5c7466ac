// See cost_findings.h.

#include "core/report/cost_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/analysis/axis_text.h"
#include "core/analysis/meshes.h"
#include "core/report/quantity_text.h"
#include "ir/metadata.h"

namespace gshard {
namespace {

std::string Percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

// As --limit takes it: "16GiB", or bytes where that is not exact.
std::string LimitFlag(int64_t bytes) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  if (bytes % (kMiB << 10) == 0) return fmt::format("{}GiB", bytes / (kMiB << 10));
  return bytes % kMiB == 0 ? fmt::format("{}MiB", bytes / kMiB) : fmt::format("{}", bytes);
}

std::string Bytes(int64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

class FindingList {
 public:
  FindingList(Module& module, const CostReport& report, const CollectiveReport* collectives)
      : module_(module),
        report_(report),
        collectives_(collectives),
        mesh_(MainMesh(module)),
        peak_(static_cast<double>(std::max<int64_t>(report.memory.peak_bytes, 1))),
        step_(std::max(report.step_time_s, 1e-30)) {}

  std::vector<CostFinding> Run(size_t most) {
    AddOverLimit();
    AddCopies();
    AddUndonated();
    AddRematerializations();
    AddCommunication();
    AddBubble();
    AddLostFlops();
    AddKernels();
    std::erase_if(findings_, [](const CostFinding& finding) { return finding.weight < 0.01; });
    std::stable_sort(
        findings_.begin(), findings_.end(),
        [](const CostFinding& a, const CostFinding& b) { return a.weight > b.weight; });
    if (findings_.size() > most) findings_.resize(most);
    return std::move(findings_);
  }

 private:
  std::string At(const Module& module, const Instruction& x) const {
    const std::string line = SourceLineOf(module, x);
    return line.empty() ? "" : " at " + line;
  }
  const Module& MemoryModule() const {
    return report_.memory.compiled ? *report_.memory.compiled : module_;
  }

  int64_t AxisSize(const std::string& name) const {
    const int axis = mesh_ == nullptr ? -1 : mesh_->FindAxis(name);
    return axis < 0 ? 1 : mesh_->axes[static_cast<size_t>(axis)].size;
  }

  // The program of one device was given; gshard-opt cannot annotate or partition it any more.
  bool IsGivenPartitioned() const { return report_.devices > 1 && collectives_ == nullptr; }

  // Memory counts twice where the program does not fit: nothing else matters then.
  double MemoryWeight(double bytes) const {
    return bytes / peak_ * (report_.memory.Fits() ? 1 : 2);
  }

  void AddOverLimit() {
    const MemoryReport& memory = report_.memory;
    if (memory.Fits() || memory.at_peak.empty()) return;
    const LiveBuffer& largest = memory.at_peak.front();
    findings_.push_back(
        {fmt::format("Over the limit by {}", Bytes(memory.peak_bytes - memory.limit_bytes)),
         fmt::format("The largest at the peak is {}, {} of {}{}.", largest.instruction->name(),
                     Bytes(largest.bytes), Bytes(memory.peak_bytes),
                     At(MemoryModule(), *largest.instruction)),
         memory.temp_bytes > memory.argument_bytes
             ? fmt::format("Most of it is computed on the way: `gshard-opt remat IN --limit {}` "
                           "recomputes instead of keeping.",
                           LimitFlag(memory.limit_bytes))
             : "Most of it are arguments: split them over more of the mesh, or use a larger one "
               "(`gshard-cost sweep IN --mesh ..` shows which fit).",
         "memory", std::string(largest.instruction->name()), 3});
  }

  // "_,model" for a tensor [_, _] that model could cut; empty if no dim divides.
  std::string SpecWith(const LiveBuffer& buffer, const std::string& axis) const {
    const int64_t size = AxisSize(axis);
    std::string text = buffer.sharding_text;
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

  void AddCopies() {
    double saved = 0, most = 0;
    size_t count = 0;
    const LiveBuffer* worst = nullptr;
    std::string axis_of_worst, spec_of_worst;
    for (const LiveBuffer& buffer : report_.memory.at_peak) {
      if (buffer.free_axes.empty() || buffer.global_shape == nullptr) continue;
      std::string axis, spec;
      for (size_t begin = 0; begin <= buffer.free_axes.size();) {
        const size_t end = std::min(buffer.free_axes.find('+', begin), buffer.free_axes.size());
        const std::string name = buffer.free_axes.substr(begin, end - begin);
        std::string with = SpecWith(buffer, name);
        if (!with.empty() && AxisSize(name) > AxisSize(axis)) {
          axis = name;
          spec = std::move(with);
        }
        begin = end + 1;
      }
      if (spec.empty()) continue;
      const double gain =
          static_cast<double>(buffer.bytes) * (1 - 1.0 / static_cast<double>(AxisSize(axis)));
      saved += gain;
      ++count;
      if (gain <= most) continue;
      most = gain;
      worst = &buffer;
      axis_of_worst = axis;
      spec_of_worst = spec;
    }
    if (worst == nullptr) return;
    const std::string name(worst->instruction->name());
    std::string others;
    if (count > 1) {
      others = fmt::format(" It and {} more could save {}.", count - 1, HumanBytes(saved));
    }
    findings_.push_back(
        {fmt::format("{} at the peak are copies that an axis could cut", HumanBytes(saved)),
         fmt::format("{} {} is {}: {} on each device, equal along {}{}.{}", name,
                     ToString(worst->global_shape, false), worst->sharding_text,
                     Bytes(worst->bytes), worst->free_axes, At(MemoryModule(), *worst->instruction),
                     others),
         IsGivenPartitioned()
             ? fmt::format("This is the program of one device: annotate the tensor as {} in the "
                           "program before it was partitioned; 1/{} of it is left on a device.",
                           spec_of_worst, AxisSize(axis_of_worst))
             : fmt::format("`gshard-opt annotate IN --shard '^{}$={}'` leaves 1/{} of it on a "
                           "device; what it costs to gather, the next estimate tells.",
                           name, spec_of_worst, AxisSize(axis_of_worst)),
         "memory", name, MemoryWeight(saved) * 0.5});
  }

  void AddUndonated() {
    const ModuleHeader& header = module_.header();
    if (!header.input_output_alias.empty() || !header.buffer_donor.empty()) return;
    const MemoryReport& memory = report_.memory;
    const double saved = static_cast<double>(std::min(memory.output_bytes, memory.argument_bytes));
    findings_.push_back(
        {fmt::format("No argument is donated: outputs take another {}", Bytes(memory.output_bytes)),
         "A step that returns new parameters and optimizer state beside the old ones holds both.",
         "`jax.jit(step, donate_argnums=..)` for the state that the step replaces, or "
         "`input_output_alias` in the text.",
         "memory", "", MemoryWeight(saved) * 0.5});
  }

  void AddRematerializations() {
    if (collectives_ == nullptr || collectives_->bytes_per_device <= 0) return;
    double sent = 0;
    const CollectiveReport::Rematerialization* worst = nullptr;
    for (const auto& remat : collectives_->rematerializations) {
      sent += remat.bytes_per_device;
      // The costliest that can be avoided, else the costliest.
      auto rank = [](const CollectiveReport::Rematerialization& r) {
        return std::pair(r.advice.has_value(), r.bytes_per_device);
      };
      if (worst == nullptr || rank(remat) > rank(*worst)) worst = &remat;
    }
    if (worst == nullptr) return;
    const Instruction* user = worst->cause.user != nullptr ? worst->cause.user : worst->cause.value;
    const size_t count = collectives_->rematerializations.size();
    findings_.push_back(
        {fmt::format("{} full rematerialisation{}", count, count == 1 ? "" : "s"),
         fmt::format("{} is split before and after, and whole on every device for {}{}.",
                     worst->cause.value->name(), user->name(), At(module_, *user)),
         worst->advice
             ? fmt::format("`--shard '{}'` avoids it: the program then sends {} instead of {}.",
                           worst->advice->shard, HumanBytes(worst->advice->bytes_per_device),
                           HumanBytes(collectives_->bytes_per_device))
             : fmt::format("`gshard-opt explain IN {}` tells where the two shardings come from; "
                           "annotate one of them with the other's.",
                           user->name()),
         "collectives", std::string(user->name()),
         0.02 + report_.exposed_communication_s / step_ * sent / collectives_->bytes_per_device});
  }

  std::string FixOf(const std::string& kind, const std::string& name) const {
    if (IsGivenPartitioned()) {
      return "This is the program of one device: `gshard-cost sweep` and `gshard-opt partition` "
             "take the program before it was partitioned.";
    }
    if (kind == "all-gather" || kind == "reduce-scatter") {
      return "`gshard-opt partition IN --windowed-einsum 0` runs it in steps beside the dots; or "
             "another mesh: `gshard-cost sweep IN --mesh ..`.";
    }
    if (kind == "all-reduce") {
      return "Fewer devices along its axis (`gshard-cost sweep IN --mesh ..`); of gradients, "
             "`gshard-opt partition IN --weight-update-sharding` makes it a reduce-scatter.";
    }
    return fmt::format(
        "`gshard-opt explain IN {}` tells why it is there; `gshard-cost sweep IN "
        "--mesh ..` what other meshes cost.",
        name);
  }

  void AddCommunication() {
    struct Sum {
      const CollectiveCall* first = nullptr;
      double exposed_s = 0, count = 0;
    };
    std::map<std::pair<std::string, std::string>, Sum> sums;
    const Sum* worst = nullptr;
    for (const CollectiveCall& call : report_.collective_calls) {
      Sum& sum = sums[{call.cost.kind, call.cost.cause}];
      if (sum.first == nullptr) sum.first = &call;
      sum.exposed_s += call.exposed_s;
      sum.count += call.count;
      if (worst == nullptr || sum.exposed_s > worst->exposed_s) worst = &sum;
    }
    if (worst == nullptr) return;
    const CollectiveCost& cost = worst->first->cost;
    const std::string name(worst->first->instruction->name());
    findings_.push_back(
        {fmt::format("{} of the step waits for {}{}", Percent(worst->exposed_s / step_), cost.kind,
                     name == cost.kind ? "" : fmt::format(" ({})", name)),
         fmt::format("{}{}{}: {} exposed in {} execution{}{}.", name,
                     cost.axes.empty() ? "" : " over ",
                     cost.axes.empty() ? "" : AxesInWords(cost.axes, mesh_->axes),
                     HumanSeconds(worst->exposed_s), worst->count, worst->count == 1 ? "" : "s",
                     cost.cause.empty() ? "" : "; " + cost.cause),
         FixOf(cost.kind, name), "collectives", name, worst->exposed_s / step_});
  }

  void AddBubble() {
    if (!report_.pipeline) return;
    const PipelineReport& pipeline = *report_.pipeline;
    if (pipeline.is_shift) return AddPadding(pipeline);
    const double share = report_.breakdown.bubble_s / step_;
    const bool is_uneven = pipeline.imbalance > 1.2;
    findings_.push_back(
        {fmt::format("{} of the step stages wait for each other", Percent(share)),
         fmt::format("The bubble is {} of {} ticks; the busiest stage has {:.2f} of the mean.",
                     Percent(pipeline.bubble_share), pipeline.ticks.size(), pipeline.imbalance),
         is_uneven
             ? "Cut the layers more evenly: `gshard-opt pipeline IN .. --report -` lists them, "
               "`--balance 0,5,11` names each stage's first."
             : "More micro-batches, fewer stages or another schedule: `gshard-cost sweep IN "
               "--stages 2..8 --microbatches 8..64 --schedule gpipe,1f1b,interleaved`.",
         "pipeline", "", share});
  }

  // Of a shifting buffer.
  void AddPadding(const PipelineReport& pipeline) {
    const double share = pipeline.bubble_share * pipeline.span_s / step_;
    findings_.push_back(
        {fmt::format("{} of the step stages compute on padding", Percent(share)),
         fmt::format("Of {} ticks of the shifting buffer {} are its bubble: {} of {} a device.",
                     pipeline.ticks.size(), Percent(pipeline.bubble_share),
                     HumanFlops(pipeline.PaddingFlopsPerDevice()),
                     HumanFlops(pipeline.FlopsPerDevice() + pipeline.PaddingFlopsPerDevice())),
         "More micro-batches, fewer stages, or each stage several times (`gshard-opt pipeline .. "
         "--schedule shift --repeats 2`).",
         "pipeline", "", share});
  }

  void AddLostFlops() {
    const double all = std::max(report_.flops_per_device, 1.0),
                 busy = report_.compute_time_s / step_;
    const double buffer = report_.pipeline ? report_.pipeline->PaddingFlopsPerDevice() -
                                                 report_.pipeline->padding_recompute_flops
                                           : 0;  // AddPadding's
    const double padding = std::max(0.0, report_.padding_flops_per_device - buffer) / all;
    findings_.push_back(
        {fmt::format("{} of the arithmetic is on padding, or done twice", Percent(padding)),
         "Some dims do not divide evenly over their tiles, or devices compute the same.",
         "`gshard-opt propagate IN --report - -o /dev/null` lists uneven dims and replicated "
         "tensors; make such dims multiples of their tile counts.",
         "roofline", "", padding * busy});
    const double again = report_.recompute_flops_per_device / all;
    findings_.push_back({fmt::format("{} of the arithmetic is done again", Percent(again)),
                         "Values are recomputed for the backward pass instead of kept.",
                         "If memory allows, keep more: a weaker `jax.checkpoint` policy.",
                         "roofline", "", report_.memory.Fits() ? again * busy * 0.7 : 0});
    const double masked = report_.masked_flops_per_device / all;
    findings_.push_back({fmt::format("{} of the arithmetic is masked away", Percent(masked)),
                         "A causal mask throws away scores that were computed.",
                         "A kernel that skips masked blocks (Splash or Flash attention).",
                         "roofline", "", masked * busy * 0.7});
  }

  void AddKernels() {
    std::map<WorkClass, std::pair<double, const KernelRow*>> classes;
    for (const KernelRow& kernel : report_.kernels) {
      auto& [time, longest] = classes[kernel.work_class];
      time += kernel.time_s;
      if (longest == nullptr || kernel.time_s > longest->time_s) longest = &kernel;
    }
    for (const auto& [work_class, sum] : classes) {
      if (work_class != WorkClass::kMovement && work_class != WorkClass::kOther) continue;
      const auto& [time, kernel] = sum;
      const bool moves = work_class == WorkClass::kMovement;
      const std::string name(kernel->root->name());
      findings_.push_back(
          {fmt::format("{} of the step {}", Percent(time / step_),
                       moves ? "only moves data" : "is elementwise work and reductions"),
           fmt::format("Most of all {}: {}, {} of memory traffic{}.", name,
                       HumanSeconds(kernel->time_s), HumanBytes(kernel->bytes),
                       At(module_, *kernel->root)),
           moves ? "Store the value in the layout that its user reads: avoid the transpose, copy "
                   "or slice there."
                 : "Memory is the bound: a narrower type (bf16), or fewer passes over the values.",
           "roofline", name, time / step_ * 0.5});
    }
  }

  Module& module_;
  const CostReport& report_;
  const CollectiveReport* collectives_;
  const Mesh* mesh_;
  double peak_, step_;
  std::vector<CostFinding> findings_;
};

}  // namespace

std::vector<CostFinding> WorstFindings(Module& module, const CostReport& report,
                                       const CollectiveReport* collectives, size_t most) {
  return FindingList(module, report, collectives).Run(most);
}

}  // namespace gshard
