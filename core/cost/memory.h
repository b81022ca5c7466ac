// Peak memory of one device from the liveness of buffers.
//
// Instructions run in text order. Arguments stay alive throughout unless donated; tuples, reshapes
// and barriers alias; while loops carry in place; dynamic-update-slice and elementwise results take
// over an operand that dies there; fused values (core/analysis/fusion.h) take nothing.
#ifndef GSHARD_CORE_COST_MEMORY_H_
#define GSHARD_CORE_COST_MEMORY_H_

#include <cstdint>
#include <vector>

#include "ir/module.h"

namespace gshard {

struct LiveBuffer {
  const Instruction* instruction = nullptr;  // that allocated it
  int64_t bytes = 0;
};

struct MemoryReport {
  int64_t peak_bytes = 0;
  int64_t argument_bytes = 0;
  int64_t output_bytes = 0;         // those that do not alias an argument
  int64_t temp_bytes = 0;           // peak without arguments and outputs
  std::vector<LiveBuffer> at_peak;  // largest first
};

// `module` is the program of one device.
MemoryReport PeakMemory(const Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_MEMORY_H_
