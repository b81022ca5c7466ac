#include "core/report/device_model.h"

#include <memory>

#include "core/analysis/fusion.h"
#include "core/cost/cost_report.h"
#include "core/transforms/forward_tuple_elements.h"
#include "core/transforms/inline_calls.h"
#include "ir/traversal.h"

namespace gshard {
namespace {

// The default of --chip.
constexpr std::string_view kDefaultChip = "tpu-v3";
constexpr int64_t kMostInlined = 1'000'000;

}  // namespace

Expected<void> CleanForCost(Module& module) {
  if (IsCompiled(module)) return {};
  if (CheckInlinedSize(module, kMostInlined)) {
    if (auto inlined = InlineCalls(module); !inlined) return Fail(std::move(inlined.error()));
  }
  ForwardTupleElements(module);
  RemoveDeadCode(module);
  return {};
}

MemoryOptions MemoryOptionsOf(const Chip& chip) {
  MemoryOptions options;
  options.rounds_dot_operands = chip.RoundsDotOperands();
  if (chip.all_reduce_combine_bytes > 0) options.combine_bytes = chip.all_reduce_combine_bytes;
  return options;
}

std::optional<DeviceModel> ModelOneDevice(const Module& module) {
  if (!CheckBoundedSizes(module)) return std::nullopt;
  const Expected<Chip> chip = BuiltInChip(kDefaultChip);
  const std::unique_ptr<Module> copy = module.Clone();
  if (!chip || !CleanForCost(*copy)) return std::nullopt;
  CostOptions options;
  options.memory = MemoryOptionsOf(*chip);
  const Expected<CostReport> report = EstimateCost(*copy, *chip, options);
  if (!report) return std::nullopt;
  return DeviceModel{report->memory.peak_bytes, report->flops_per_device};
}

}  // namespace gshard
