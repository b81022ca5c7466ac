#include "backends/cpu/verify/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "backends/cpu/verify/diagnosis.h"
#include "backends/cpu/verify/widened_steps.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

constexpr std::string_view kLessPrecise =
    "right in f64: the devices lose more precision here than the unpartitioned graph's sums may";

// The step on the way of the largest error where it grows most.
IllConditioned Amplifier(const InstructionsResult& instructions) {
  IllConditioned found;
  for (size_t i = 0; i < instructions.growth.size(); ++i) {
    const ErrorStep& step = instructions.growth[i];
    const double before = i == 0 ? 0 : instructions.growth[i - 1].rel_error;
    const double growth = before > 0 ? step.rel_error / before : 0;
    if (!found.name.empty() && growth <= found.growth) continue;
    found = {step.name, step.rel_error, growth};
  }
  return found;
}

InstructionsResult Summary(const StepCheckResult& steps) {
  InstructionsResult result;
  result.compared = steps.arrays;
  result.skipped = steps.left_out + steps.unsettled;
  result.max_rel_error = steps.max_rel_error;
  result.worst = steps.worst;
  result.peak_memory_bytes = steps.peak_memory_bytes;
  return result;
}

// What the outputs' differences are where no step is wrong by itself. `instructions`: of both
// graphs as they run by themselves.
void Explain(const StepCheckResult& steps, const OutputTolerance& tolerance,
             InstructionsResult& instructions, VerifyResult& verify) {
  if (!steps.outputs_agree) {
    verify.ok = false;
    verify.finding.emplace();
    verify.finding->mismatch = steps.output_mismatch;
    verify.finding->is_output = true;
    verify.finding->diagnosis =
        "every array inside is right: the result is put together wrong on its way out";
    if (const auto right = steps.output_mismatch.right_device) {
      verify.finding->diagnosis = fmt::format(
          "every array inside is right, and so is device {}'s copy: {}", *right, kUnequalCopies);
    }
    return;
  }
  instructions.first.reset();
  if (!verify.near_ties.empty() && verify.ok) return;
  if (verify.ok && verify.discrete_differences == 0) return;
  // A tolerance that the user gave is a demand.
  verify.ok = !tolerance.IsGiven() || verify.ok;
  verify.discrete_outputs = verify.discrete_differences = verify.discrete_elements = 0;
  verify.ill_conditioned = Amplifier(instructions);
}

// Outputs that differ by no more than short sums of their last step may round do not differ.
void AcceptShortSums(const StepCheckResult& steps, const OutputTolerance& tolerance,
                     VerifyResult& verify) {
  if (tolerance.IsGiven() || !steps.outputs_agree) return;
  for (OutputError& output : verify.outputs) {
    if (output.output >= steps.output_roundings.size()) continue;
    if (output.error <= steps.output_roundings[output.output]) output.differs = false;
  }
  verify.ok = verify.ok || !verify.OutputsDiffer();
}

// A step in f16 or bf16, or one that spans several, that is off by more than it should is wrong if it
// is in double precision, too. What is right there may be off by what its sums round: `steps` becomes
// what is left to say.
Expected<WidenedSteps> SettleRoundings(const Module& whole, const Module& partitioned,
                                         std::span<const LocalForm> forms, const Inputs& inputs,
                                         const InstructionsOptions& options,
                                         StepCheckResult& steps) {
  auto wide = GSHARD_TRY(JudgeWidenedSteps(whole, partitioned, forms, inputs, options));
  steps.peak_memory_bytes = std::max(steps.peak_memory_bytes, wide.peak_memory_bytes);
  if (wide.finding || !wide.why_not.empty() || !steps.fault) return wide;
  InstructionsOptions by_terms = options;
  by_terms.right_when_widened = wide.is_right;
  auto again = GSHARD_TRY(CheckSteps(whole, partitioned, forms, inputs, by_terms));
  if (!again.no_room.empty()) return wide;
  again.peak_memory_bytes = std::max(again.peak_memory_bytes, steps.peak_memory_bytes);
  steps = std::move(again);
  return wide;
}

// What double precision says of a fault that is none there.
void QualifyRounding(const WidenedSteps& wide, const StepCheckResult::Fault& fault, Finding& finding) {
  if (!wide.why_not.empty()) {
    finding.diagnosis +=
        fmt::format("{}not run in f64, which would tell whether it is rounding: {}",
                    finding.diagnosis.empty() ? "" : "; ", wide.why_not);
  } else if (fault.x->id() < wide.is_right.size() && wide.is_right[fault.x->id()] != 0) {
    finding.diagnosis = kLessPrecise;
  }
}

}  // namespace

Expected<InstructionsResult> DecideVerdict(const Module& whole, const Module& partitioned,
                                           std::span<const LocalForm> forms, const Inputs& inputs,
                                           const InstructionsOptions& options, VerifyResult& verify,
                                           std::optional<StepCheckResult> known) {
  auto steps = GSHARD_TRY(known ? Expected<StepCheckResult>(*std::move(known))
                                : CheckSteps(whole, partitioned, forms, inputs, options));
  const bool judged = steps.no_room.empty();
  WidenedSteps wide;
  if (steps.fault ? steps.fault->may_be_rounding : steps.is_suspect) {
    wide = GSHARD_TRY(SettleRoundings(whole, partitioned, forms, inputs, options, steps));
  }
  InstructionsOptions own_ways = options;
  own_ways.right = steps.is_right;
  if (wide.finding || steps.fault) {
    auto finding = GSHARD_TRY(
        wide.finding ? Expected<Finding>(*wide.finding)
                     : Diagnose(whole, partitioned, forms, inputs, options, *steps.fault));
    if (!wide.finding) QualifyRounding(wide, *steps.fault, finding);
    InstructionsResult instructions = Summary(steps);
    if (verify.discrete_differences > 0) {
      // Near ties may stand beside it.
      instructions = GSHARD_TRY(VerifyInstructions(whole, partitioned, forms, inputs, own_ways));
      verify.near_ties = instructions.near_ties;
    }
    instructions.first = finding.mismatch;
    verify.finding = std::move(finding);
    verify.ok = false;
    return instructions;
  }
  const bool proven = judged && steps.unsettled == 0;
  const bool in_f64 = proven && steps.right_in_f64 > 0;
  if (proven) AcceptShortSums(steps, options.tolerance, verify);
  if (proven && verify.ok && verify.discrete_differences == 0) {
    InstructionsResult instructions = Summary(steps);
    Explain(steps, options.tolerance, instructions, verify);
    return instructions;
  }
  if (proven) own_ways.right.assign(whole.instruction_limit(), 1);
  if (proven && steps.outputs_agree && options.whole_grid.device_count() == 1) {
    // No step is wrong: picks and what they are made from tell whether near ties are all there is.
    own_ways.only_choices = true;
    auto choices = GSHARD_TRY(VerifyInstructions(whole, partitioned, forms, inputs, own_ways));
    if (choices.outputs_agree.value_or(false)) {
      InstructionsResult instructions = Summary(steps);
      instructions.peak_memory_bytes =
          std::max(instructions.peak_memory_bytes, choices.peak_memory_bytes);
      verify.near_ties = std::move(choices.near_ties);
      verify.ok = true;
      return instructions;
    }
    own_ways.only_choices = options.only_choices;
  }
  auto found = GSHARD_TRY(VerifyInstructions(whole, partitioned, forms, inputs, own_ways));
  verify.near_ties = std::move(found.near_ties);
  // Near ties explain what differs exactly if nothing does once both graphs pick the same.
  if (found.outputs_agree) verify.ok = *found.outputs_agree;
  found.peak_memory_bytes = std::max(found.peak_memory_bytes, steps.peak_memory_bytes);
  if (proven && !in_f64) Explain(steps, options.tolerance, found, verify);
  return found;
}

}  // namespace gshard::cpu
