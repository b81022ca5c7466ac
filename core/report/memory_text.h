// The memory part of a cost report: the verdict, and what is alive at the peak.
#ifndef GSHARD_CORE_REPORT_MEMORY_TEXT_H_
#define GSHARD_CORE_REPORT_MEMORY_TEXT_H_

#include <string>

#include "core/cost/memory/peak_memory.h"

namespace gshard {

// "fits tpu-v3 (16 GiB): 11.8 GiB", "does NOT fit: over by 51.5 GiB (67.5 GiB; tpu-v3 has 16 GiB)".
// Empty without a limit.
std::string VerdictText(const MemoryReport& report);

// The `rows` largest of what is alive at the peak, a line each, and the sum of the rest.
std::string AtPeakText(const Module& module, const MemoryReport& report, size_t rows);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_MEMORY_TEXT_H_
