// Chip table and its JSON form. Sources of the figures: docs/cost.md, "Chips".

#include "core/cost/chip.h"

#include <fmt/format.h>

#include "core/json.h"

namespace gshard {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

// Per TensorCore. The MXUs multiply bf16; f32 products take three bf16 passes there, hence a third.
std::vector<Chip> BuildChips() {
  auto tpu = [](std::string name, double bf16, double s8, double hbm_bytes, double hbm_rate,
                double link) {
    Chip chip{
        std::move(name), {{"bf16", bf16}, {"f32", bf16 / 3}}, hbm_bytes, hbm_rate, link, 1e-6};
    if (s8 > 0) chip.peak_flops["s8"] = s8;
    return chip;
  };
  return {
      tpu("tpu-v2", 23e12, 0, 8 * kGiB, 350e9, 62e9),
      tpu("tpu-v3", 61.5e12, 0, 16 * kGiB, 450e9, 82e9),
      tpu("tpu-v4", 137.5e12, 137.5e12, 16 * kGiB, 600e9, 45e9),
      tpu("tpu-v5e", 197e12, 393e12, 16e9, 819e9, 45e9),
      tpu("tpu-v5p", 229.5e12, 459e12, 47.5e9, 1382.5e9, 90e9),
      tpu("tpu-v6e", 918e12, 1836e12, 32e9, 1638e9, 90e9),
  };
}

const std::vector<Chip>& Chips() {
  static const std::vector<Chip> chips = BuildChips();
  return chips;
}

}  // namespace

double Chip::PeakFlops(DType dtype) const {
  auto find = [&](std::string_view type) {
    auto it = peak_flops.find(std::string(type));
    return it == peak_flops.end() ? 0 : it->second;
  };
  double exact = find(DTypeName(dtype));
  if (exact > 0) return exact;
  // Narrow integers and 8-bit floats run at least at bf16 speed; f16 like bf16; all else like f32.
  bool narrow = DTypeBits(dtype) <= 16 && dtype != DType::kPred;
  double fallback = narrow ? find("bf16") : find("f32");
  if (fallback <= 0) fallback = std::max(find("f32"), find("bf16"));
  return dtype == DType::kF64 || dtype == DType::kC128 ? fallback / 8 : fallback;
}

std::vector<std::string> BuiltInChipNames() {
  std::vector<std::string> names;
  for (const Chip& chip : Chips()) names.push_back(chip.name);
  return names;
}

Expected<Chip> BuiltInChip(std::string_view name) {
  for (const Chip& chip : Chips()) {
    if (chip.name == name) return chip;
  }
  return Fail(MakeError(
      "E-COST-001", fmt::format("no chip is called '{}'", name),
      fmt::format("there are {}; --chip-file reads another", fmt::join(BuiltInChipNames(), ", "))));
}

Expected<Chip> ParseChip(std::string_view json, const std::string& file_name) {
  Chip chip;
  try {
    const Json document = Json::Parse(json);
    chip.name = document.StringAt("name");
    chip.peak_flops = document.NumbersAt("peak_flops");
    chip.hbm_bytes = document.NumberAt("hbm_bytes");
    chip.hbm_bytes_per_s = document.NumberAt("hbm_bytes_per_s");
    chip.link_bytes_per_s = document.NumberAt("link_bytes_per_s");
    chip.link_latency_s =
        document.Has("link_latency_s") ? document.NumberAt("link_latency_s") : 1e-6;
  } catch (const JsonError& error) {
    return Fail(MakeError("E-COST-002", fmt::format("{}: {}", file_name, error.what()),
                          "docs/cost.md has the fields of a chip description"));
  }
  bool positive = chip.hbm_bytes > 0 && chip.hbm_bytes_per_s > 0 && chip.link_bytes_per_s > 0 &&
                  chip.link_latency_s >= 0 && chip.PeakFlops(DType::kF32) > 0;
  if (!positive) {
    return Fail(
        MakeError("E-COST-002", fmt::format("{}: rates and sizes must be positive, and f32 or bf16 "
                                            "must have a peak",
                                            file_name)));
  }
  return chip;
}

}  // namespace gshard
