// The memory part of a cost report: the verdict, and what is alive at the peak.
#ifndef GSHARD_CORE_REPORT_MEMORY_TEXT_H_
#define GSHARD_CORE_REPORT_MEMORY_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "core/cost/memory/peak_memory.h"
#include "ir/source_lines.h"
#include "ir/traversal.h"

namespace gshard {

// "fits tpu-v3 (15.5 GiB): 11.8 GiB", "does NOT fit: over by 52.0 GiB (67.5 GiB; tpu-v3 has 15.5 GiB)".
// Empty without a limit.
std::string VerdictText(const MemoryReport& report);

// Bytes of a buffer's elements, without the padding of tiles; at least 1.
int64_t DenseBytes(const LiveBuffer& buffer);

// Source lines of what is alive at the peak. Its module must stay.
class BufferPlaces {
 public:
  // `module`: what the report is of.
  BufferPlaces(const Module& module, const MemoryReport& report);

  // "/src/gpt.py:22", where the value is made; of what has no line, as arguments, the nearest use
  // that has one, else the nearest value that it is made of; empty if there is none.
  std::string Of(const LiveBuffer& buffer) const;
  // The same for people: a short path, "used at gpt.py:22" of what has no line of its own.
  std::string TextOf(const LiveBuffer& buffer) const;

 private:
  const Instruction* Nearest(const Instruction& x, bool is_user) const;

  const Module& module_;
  SourceLines lines_;
  Users users_;
  bool has_line_;  // any instruction of the module
};

// The `rows` largest of what is alive at the peak, a line each, and the sum of the rest.
std::string AtPeakText(const Module& module, const MemoryReport& report, size_t rows);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_MEMORY_TEXT_H_
