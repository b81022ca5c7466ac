#include "core/estimate/device_model.h"

#include "core/estimate/device_program.h"

namespace gshard {
namespace {

// The default of --chip.
constexpr std::string_view kDefaultChip = "tpu-v3";

}  // namespace

std::optional<DeviceModel> ModelOneDevice(const Module& module) {
  const Expected<Chip> chip = BuiltInChip(kDefaultChip);
  if (!chip) return std::nullopt;
  DeviceProgramOptions options;
  options.is_partitioned = true;
  Expected<DeviceProgram> program = MakeDeviceProgram(module.Clone(), options);
  if (!program) return std::nullopt;
  const Expected<StepFigures> figures = PriceProgram(*std::move(program), *chip, CostOptions());
  if (!figures) return std::nullopt;
  return DeviceModel{figures->peak_bytes, figures->flops_per_device};
}

}  // namespace gshard
