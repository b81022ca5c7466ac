#include "core/report/quantity_text.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <span>
#include <string_view>

namespace gshard {
namespace {

std::string Scaled(double value, double base, std::span<const std::string_view> units) {
  size_t unit = 0;
  while (std::abs(value) >= base && unit + 1 < units.size()) {
    value /= base;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value,
                     value == std::floor(value) && value < 1000 ? 0
                     : value < 10                               ? 2
                                                                : 1,
                     units[unit]);
}

}  // namespace

std::string Counted(int64_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

std::string HumanBytes(double bytes) {
  static constexpr std::array<std::string_view, 6> kUnits = {"B",   "KiB", "MiB",
                                                             "GiB", "TiB", "PiB"};
  return Scaled(bytes, 1024, kUnits);
}

std::string HumanSeconds(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

std::string HumanFlops(double flops) {
  static constexpr std::array<std::string_view, 6> kUnits = {"FLOP",  "kFLOP", "MFLOP",
                                                             "GFLOP", "TFLOP", "PFLOP"};
  return Scaled(flops, 1000, kUnits);
}

}  // namespace gshard
