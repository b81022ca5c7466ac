// See cost_findings.h.

#include "core/report/cost_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/analysis/axis_text.h"
#include "core/analysis/meshes.h"
#include "core/report/annotation_advice.h"
#include "core/report/quantity_text.h"
#include "ir/source_lines.h"

namespace gshard {
namespace {

std::string Percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

std::string Bytes(int64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

class FindingList {
 public:
  FindingList(Module& module, const CostReport& report, const CollectiveReport* collectives,
              const std::vector<TriedAdvice>& advice)
      : module_(module),
        report_(report),
        collectives_(collectives),
        advice_(advice),
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

  // The program of one device was given; gshard-opt cannot annotate or partition it any more.
  bool IsGivenPartitioned() const { return report_.devices > 1 && collectives_ == nullptr; }

  // The best of these kinds that helps, with its figures; empty without.
  std::string Tried(std::initializer_list<AdviceKind> kinds) const {
    for (const TriedAdvice& one : advice_) {
      if (std::ranges::find(kinds, one.kind) != kinds.end()) return AdviceSentence(one, report_);
    }
    return "";
  }

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
         Tried({AdviceKind::kRecomputation, AdviceKind::kMesh, AdviceKind::kShard,
                AdviceKind::kDonation, AdviceKind::kFlashAttention}),
         "memory", std::string(largest.instruction->name()), 3});
  }

  void AddCopies() {
    const std::vector<CopyCut> cuts = CutsOfCopies(report_.memory, report_.mesh);
    if (cuts.empty()) return;
    double saved = 0;
    for (const CopyCut& cut : cuts) saved += cut.saved_bytes;
    const LiveBuffer& worst = *cuts.front().buffer;
    const std::string name(worst.instruction->name());
    std::string others;
    if (cuts.size() > 1) {
      others = fmt::format(" It and {} more could save {}.", cuts.size() - 1, HumanBytes(saved));
    }
    findings_.push_back(
        {fmt::format("{} at the peak are copies that an axis could cut", HumanBytes(saved)),
         fmt::format("{} {} is {}: {} on each device, equal along {}{}.{}", name,
                     ToString(worst.global_shape, false), worst.sharding_text, Bytes(worst.bytes),
                     worst.free_axes, At(MemoryModule(), *worst.instruction), others),
         Tried({AdviceKind::kShard}), "memory", name, MemoryWeight(saved) * 0.5});
  }

  void AddUndonated() {
    const ModuleHeader& header = module_.header();
    if (!header.input_output_alias.empty() || !header.buffer_donor.empty()) return;
    const MemoryReport& memory = report_.memory;
    std::string fix = Tried({AdviceKind::kDonation});
    int64_t outputs = memory.output_bytes;
    if (fix.empty()) {  // of outputs that are made after the peak it would spare nothing
      outputs = 0;
      for (const LiveBuffer& buffer : memory.at_peak) {
        if (buffer.kind == BufferClass::kOutput) outputs += buffer.bytes;
      }
    }
    const double saved = static_cast<double>(std::min(outputs, memory.argument_bytes));
    findings_.push_back(
        {fmt::format("No argument is donated: outputs take another {}", Bytes(outputs)),
         "A step that returns new parameters and optimizer state beside the old ones holds both.",
         std::move(fix), "memory", "", MemoryWeight(saved) * 0.5});
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
    const std::string tried = Tried({AdviceKind::kResharding});
    findings_.push_back(
        {fmt::format("{} full rematerialisation{}", count, count == 1 ? "" : "s"),
         fmt::format("{} is split before and after, and whole on every device for {}{}.",
                     worst->cause.value->name(), user->name(), At(module_, *user)),
         tried.empty() ? fmt::format("`gshard-opt explain IN {}` tells where the two shardings "
                                     "come from.",
                                     user->name())
                       : tried,
         "collectives", std::string(user->name()),
         0.02 + report_.exposed_communication_s / step_ * sent / collectives_->bytes_per_device});
  }

  std::string FixOf(const std::string& name) const {
    std::string tried =
        Tried({AdviceKind::kMesh, AdviceKind::kWindowedEinsum, AdviceKind::kWeightUpdate,
               AdviceKind::kOptimize, AdviceKind::kResharding});
    if (!tried.empty() || IsGivenPartitioned()) return tried;
    return fmt::format("`gshard-opt explain IN {}` tells why it is there.", name);
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
         FixOf(name), "collectives", name, worst->exposed_s / step_});
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
         is_uneven ? "`gshard-opt pipeline IN .. --report -` lists the layers of each stage."
                   : "`gshard-cost sweep IN --stages 2..8 --microbatches 8..64 --schedule "
                     "gpipe,1f1b,interleaved` compares pipelines.",
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
         "`gshard-cost sweep IN --stages 2..8 --microbatches 8..64` compares pipelines.",
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
         "tensors.",
         "roofline", "", padding * busy});
    const double again = report_.recompute_flops_per_device / all;
    findings_.push_back({fmt::format("{} of the arithmetic is done again", Percent(again)),
                         "Values are recomputed for the backward pass instead of kept.", "",
                         "roofline", "", report_.memory.Fits() ? again * busy * 0.7 : 0});
    // Attention kernels do not compute what a mask cuts off; products of their own do.
    const double masked = report_.masked_flops_per_device / all;
    const std::string kernel = Tried({AdviceKind::kFlashAttention});
    if (kernel.empty()) return;
    findings_.push_back({fmt::format("{} of the arithmetic is masked away", Percent(masked)),
                         "A causal mask throws away scores that were computed.", kernel, "roofline",
                         "", masked * busy * 0.7});
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
           "", "roofline", name, time / step_ * 0.5});
    }
  }

  Module& module_;
  const CostReport& report_;
  const CollectiveReport* collectives_;
  const std::vector<TriedAdvice>& advice_;
  const Mesh* mesh_;
  double peak_, step_;
  std::vector<CostFinding> findings_;
};

}  // namespace

std::vector<CostFinding> WorstFindings(Module& module, const CostReport& report,
                                       const CollectiveReport* collectives,
                                       const std::vector<TriedAdvice>& advice, size_t most) {
  return FindingList(module, report, collectives, advice).Run(most);
}

}  // namespace gshard
