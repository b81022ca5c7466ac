// The mesh runs ahead of the unpartitioned graph, which compares.
#include "backends/cpu/verify/verify_instructions.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "backends/cpu/verify/analysis/compared_arrays.h"
#include "backends/cpu/verify/analysis/error_scale.h"
#include "backends/cpu/verify/kept_choices.h"
#include "backends/cpu/verify/near_ties.h"
#include "backends/cpu/verify/paired_run.h"
#include "backends/cpu/verify/reference_comparer.h"
#include "ir/computation.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

constexpr size_t kMaxStepsReported = 16;
constexpr int64_t kMaxPicksBytes = int64_t{1} << 30;  // what waits of choices, for all iterations

class InstructionVerifier {
 public:
  InstructionVerifier(const Module& whole, const Module& partitioned,
                      std::span<const LocalForm> forms, const Inputs& inputs,
                      const InstructionsOptions& options)
      : whole_(whole),
        partitioned_(partitioned),
        inputs_(inputs),
        options_(options),
        scale_(whole),
        all_(CollectArrays(whole, options.whole_grid, options.whole_forms, forms)),
        errors_(whole.instruction_limit()) {
    ShownChoices choices = FindShownChoices(whole, partitioned, all_.candidates);
    const bool takes_picks =
        options.whole_grid.device_count() == 1 && BytesToKeep(whole, choices) <= kMaxPicksBytes;
    if (takes_picks) choices_ = std::move(choices);
    SetArrays();
  }

  Expected<InstructionsResult> Run() {
    const auto all = static_cast<double>(arrays_.size() + choices_.choices.size() + 1);
    for (bool first = true; first || !arrays_.empty(); first = false) {
      const int64_t compared = comparisons_;
      const auto has_run = GSHARD_TRY(RunPass(first));
      if (!has_run) {  // no room
        result_.skipped += first ? static_cast<int64_t>(choices_.choices.size()) : 0;
        break;
      }
      for (Candidate& array : arrays_) array.retry = std::exchange(array.missed, {});
      if (comparisons_ == compared) break;
      std::erase_if(arrays_, [](const Candidate& array) { return array.retry.empty(); });
      const double now = 1 - static_cast<double>(arrays_.size()) / all;
      settles_ = std::min(now - settled_, 1 - now);
      settled_ = now;
      if (first) reported_ = now;
      if (!arrays_.empty()) ReportProgress(0);
    }
    result_.skipped += all_.left_out + static_cast<int64_t>(arrays_.size());
    const Instruction* from = first_ != nullptr ? first_ : worst_;
    if (from != nullptr) FollowBack(from);
    return std::move(result_);
  }

 private:
  struct Errors {
    bool compared = false;
    double relative = 0;
    double ulps = 0;
  };

  // Without the choices, which are compared when what decides them has been.
  void SetArrays() {
    arrays_.clear();
    if (options_.only_choices) return;
    std::vector<uint8_t> is_choice(errors_.size(), 0);
    for (const Choice& choice : choices_.choices) is_choice[choice.x->id()] = 1;
    for (const Candidate& array : all_.candidates) {
      if (is_choice[array.x->id()] == 0) arrays_.push_back(array);
    }
  }

  // Runs both graphs and compares. False: there is no room for them.
  Expected<bool> RunPass(bool first) {
    std::vector<Candidate> probed = arrays_;
    probed.insert(probed.end(), choices_.candidates.begin(), choices_.candidates.end());
    std::vector<ProbePoint> whole_probes = WholeProbes(arrays_);
    std::vector<ProbePoint> local_probes = LocalProbes(arrays_, partitioned_);
    const auto append = [](std::vector<ProbePoint>& to, const std::vector<ProbePoint>& more) {
      to.insert(to.end(), more.begin(), more.end());
    };
    append(whole_probes, choices_.whole_probes);
    append(local_probes, choices_.local_probes);
    PairedRun runs;
    runs.options = &options_;
    runs.candidates = probed;
    runs.first_pass = first;
    runs.budget_bytes = options_.budget_bytes;
    runs.held_bytes = BytesToKeep(whole_, choices_);
    runs.progress = [this](double share) { ReportProgress(share); };
    GSHARD_TRY(runs.Prepare(whole_, whole_probes, partitioned_, local_probes, inputs_, false));
    if (!runs.no_room.empty() && !choices_.choices.empty()) {
      // Without the mesh's picks there is less to hold.
      choices_ = {};
      if (first) SetArrays();
      return RunPass(first);
    }
    if (!runs.no_room.empty()) return false;
    ReferenceComparer comparer(
        {arrays_, &choices_, first, options_.right,
         [this](const Candidate& array, const Comparison& found) { Note(*array.x, found); }},
        *runs.mesh, runs.Spreads(), *runs.exchange, scale_);
    const Expected<void> done = runs.Run(comparer, [] { return false; });
    result_.peak_memory_bytes = std::max(result_.peak_memory_bytes, runs.peak_memory_bytes());
    if (!done) return Fail(done.error());
    if (!first) return true;
    result_.near_ties = comparer.NearTies();
    if (result_.near_ties.empty()) return true;
    const auto compared =
        GSHARD_TRY(runs.CompareOutputs(whole_, partitioned_, inputs_, options_.tolerance));
    result_.outputs_agree = compared.ok && compared.discrete_differences == 0;
    return true;
  }

  // Never less than before, but once: the first pass hopes to be the last.
  void ReportProgress(double share_of_pass) {
    reported_ = std::max(reported_, settled_ + settles_ * share_of_pass);
    if (options_.progress) options_.progress(reported_);
  }

  void Note(const Instruction& x, const Comparison& comparison) {
    Errors& errors = errors_[x.id()];
    if (!errors.compared) ++result_.compared;
    errors.compared = true;
    ++comparisons_;
    if (comparison.at < 0) return;
    const double relative =
        comparison.magnitude > 0 ? comparison.largest / comparison.magnitude : comparison.largest;
    if (relative > errors.relative) {
      errors.relative = relative;
      errors.ulps = comparison.mismatch.ulps;
    }
    if (relative > result_.max_rel_error) {
      result_.max_rel_error = relative;
      result_.worst = x.name();
      worst_ = &x;
    }
    if (comparison.beyond == 0 || (first_ != nullptr && comparison.order >= first_order_)) return;
    first_ = &x;
    first_order_ = comparison.order;
    result_.first = comparison.mismatch;
    result_.first->name = x.name();
  }

  // From `end` to the operand with the largest error, and on.
  void FollowBack(const Instruction* end) {
    std::vector<ErrorStep> steps;
    std::vector<uint8_t> seen(errors_.size(), 0);
    for (const Instruction* x = end; x != nullptr; x = LargestBehind(*x, seen)) {
      const Errors& errors = errors_[x->id()];
      // Only where the error grows.
      if (!steps.empty() && errors.relative > steps.back().rel_error / 1.5) {
        if (steps.size() > 1) steps.back() = {std::string(x->name()), errors.relative, errors.ulps};
        continue;
      }
      steps.push_back({std::string(x->name()), errors.relative, errors.ulps});
      if (steps.size() == kMaxStepsReported) break;
    }
    result_.growth.assign(steps.rbegin(), steps.rend());
  }

  // The compared instruction with the largest error among the nearest that x follows from.
  const Instruction* LargestBehind(const Instruction& x, std::vector<uint8_t>& seen) {
    const Instruction* best = nullptr;
    std::vector<const Instruction*> stack = {&x};
    while (!stack.empty()) {
      const Instruction* at = stack.back();
      stack.pop_back();
      auto visit = [&](const Instruction* behind) {
        if (seen[behind->id()] != 0) return;
        seen[behind->id()] = 1;
        const Errors& errors = errors_[behind->id()];
        if (!errors.compared) {
          stack.push_back(behind);
        } else if (errors.relative > 0 &&
                   (best == nullptr || errors.relative > errors_[best->id()].relative)) {
          best = behind;
        }
      };
      for (const Instruction* operand : at->operands()) visit(operand);
      if (at->opcode() == Opcode::kWhile) visit(at->called(1)->root());
      if (at->opcode() == Opcode::kCall) visit(at->called(0)->root());
    }
    return best;
  }

  const Module& whole_;
  const Module& partitioned_;
  const Inputs& inputs_;
  const InstructionsOptions& options_;
  ErrorScale scale_;
  const ComparedArrays all_;
  ShownChoices choices_;           // that the unpartitioned graph may go on with
  std::vector<Candidate> arrays_;  // still to be compared
  std::vector<Errors> errors_;     // by instruction id of the whole graph
  int64_t comparisons_ = 0;
  // Of the arrays, by passes that are over, and by the present one if it does as much as the one
  // before it.
  double settled_ = 0, settles_ = 1;
  double reported_ = 0;
  const Instruction* first_ = nullptr;
  const Instruction* worst_ = nullptr;
  uint64_t first_order_ = 0;
  InstructionsResult result_;
};

}  // namespace

Expected<InstructionsResult> VerifyInstructions(const Module& whole, const Module& partitioned,
                                                std::span<const LocalForm> forms,
                                                const Inputs& inputs,
                                                const InstructionsOptions& options) {
  return InstructionVerifier(whole, partitioned, forms, inputs, options).Run();
}

}  // namespace gshard::cpu
