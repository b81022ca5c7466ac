// What a device can do: the numbers behind every estimate. Built in for common chips, or from JSON.
#ifndef GSHARD_CORE_COST_CHIP_H_
#define GSHARD_CORE_COST_CHIP_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/diagnostic.h"
#include "ir/dtype.h"

namespace gshard {

// All rates are per device as the program counts devices (a TPU v3 device is one core).
struct Chip {
  std::string name;
  std::map<std::string, double> peak_flops;  // by dtype name, FLOP/s; "f32", "bf16", "s8", ..
  double hbm_bytes = 0;
  double hbm_bytes_per_s = 0;
  double link_bytes_per_s = 0;  // one way, along one mesh axis
  double link_latency_s = 0;    // per message

  // Of the type, else of the nearest wider or narrower type the chip lists.
  double PeakFlops(DType dtype) const;
};

// "tpu-v3", .. Errors (E-COST-001) list the names there are.
Expected<Chip> BuiltInChip(std::string_view name);
std::vector<std::string> BuiltInChipNames();
// {"name":..,"peak_flops":{"bf16":6.15e13},"hbm_bytes":..,"hbm_bytes_per_s":..,"link_bytes_per_s":..,
// "link_latency_s":..}
Expected<Chip> ParseChip(std::string_view json, const std::string& file_name);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_CHIP_H_
