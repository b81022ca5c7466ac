// Chakra execution traces of a priced step, one file a device, and what ASTRA-sim reads beside
// them: the groups of collectives, the network, the system (docs/traces.md).
//
// Schema: et_def.proto of github.com/mlcommons/chakra; files are read by Chakra's own tools and by
// ASTRA-sim 2.
#ifndef GSHARD_CORE_REPORT_TRACE_CHAKRA_H_
#define GSHARD_CORE_REPORT_TRACE_CHAKRA_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "core/cost/chip.h"
#include "core/cost/priced_step.h"
#include "ir/module.h"

namespace gshard {

struct ChakraSummary {
  int64_t traces = 0;  // files of devices
  int64_t nodes = 0;   // in all of them
  int64_t bytes = 0;
};

// Takes a file's name and its bytes, which are gone afterwards.
using FileSink = std::function<Expected<void>(const std::string& name, std::string_view bytes)>;

// Files "step.DEVICE.et" of `devices` (empty: of all), "comm_group.json", "network.yml",
// "system.json" and "memory.json". FLOPs and bytes of the nodes of one device add up to the cost
// report's. Errors: E-TRACE-001; groups of collectives that cannot be (E-RUN-GROUPS); the sink's.
Expected<ChakraSummary> WriteChakra(const Module& module, const PricedStep& priced,
                                    const Chip& chip, std::span<const int64_t> devices,
                                    const FileSink& sink);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_TRACE_CHAKRA_H_
