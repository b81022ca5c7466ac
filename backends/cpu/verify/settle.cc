#include "backends/cpu/verify/settle.h"

#include <algorithm>
#include <utility>

#include "backends/cpu/verify/diagnosis.h"
#include "backends/cpu/verify/local_check.h"

namespace gshard::cpu {
namespace {

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

}  // namespace

Expected<void> Settle(const Module& whole, const Module& partitioned,
                      std::span<const LocalForm> forms, const Inputs& inputs,
                      const InstructionsOptions& options, InstructionsResult& instructions,
                      VerifyResult& verify) {
  const bool outputs_differ = !verify.ok || verify.discrete_differences > 0;
  if (!outputs_differ && !instructions.first) return {};
  const uint32_t device = instructions.first ? instructions.first->device : verify.mismatch.device;
  auto checked = CheckLocally(whole, partitioned, forms, inputs, options, device);
  if (!checked) {
    if (checked.error().code == "E-RUN-MEMORY") return {};
    return Fail(checked.error());
  }
  instructions.peak_memory_bytes =
      std::max(instructions.peak_memory_bytes, checked->peak_memory_bytes);
  if (checked->fault) {
    auto finding = Diagnose(whole, partitioned, forms, inputs, options, *checked->fault);
    if (!finding) return Fail(finding.error());
    instructions.first = finding->mismatch;
    verify.finding = std::move(*finding);
    verify.ok = false;
    return {};
  }
  if (checked->unsettled > 0) return {};
  if (!checked->outputs_agree) {
    verify.ok = false;
    verify.finding.emplace();
    verify.finding->mismatch = checked->output_mismatch;
    verify.finding->diagnosis =
        "every array inside is right: the result is put together wrong on its way out";
    return {};
  }
  instructions.first.reset();
  if (!verify.near_ties.empty() && verify.ok) return {};
  if (!outputs_differ) return {};
  // A tolerance that the user gave is a demand.
  verify.ok = !options.tolerance.IsGiven() || verify.ok;
  verify.discrete_outputs = verify.discrete_differences = verify.discrete_elements = 0;
  verify.ill_conditioned = Amplifier(instructions);
  return {};
}

}  // namespace gshard::cpu
