// Which annotation avoids a full rematerialisation, and which cuts a tensor that has copies. The
// former is found by trying: candidates are put on the user's program, which is propagated and
// partitioned again.
#ifndef GSHARD_CORE_REPORT_ANNOTATION_ADVICE_H_
#define GSHARD_CORE_REPORT_ANNOTATION_ADVICE_H_

#include <span>
#include <string>
#include <vector>

#include "core/cost/memory/peak_memory.h"
#include "core/report/collective_report.h"
#include "core/spmd/per_device_module.h"

namespace gshard {

// Fills in the advice of the report's rematerialisations, ours and XLA's, the costliest first, at
// most `limit` of them; only what makes one of them less and the program send less. `program` is
// the unpartitioned program as the user wrote it; `context` and `way` are what made the reported
// one of it. Each costs up to three times propagating and partitioning the program.
void AdviseAnnotations(const Module& program, const PassContext& context,
                       const PerDeviceOptions& way, CollectiveReport& report, size_t limit = 8);

// A tensor at the memory peak that a mesh axis could cut, along which it has copies.
struct CopyCut {
  const LiveBuffer* buffer = nullptr;
  std::string axis;
  int64_t axis_size = 1;
  std::string spec;        // all of its dims, as `annotate --shard` takes them: "_,model"
  double saved_bytes = 0;  // of a device, at the peak
};

// By the largest axis that divides a dim without one, the largest dim first. What saves most is
// first. Points into `memory`.
std::vector<CopyCut> CutsOfCopies(const MemoryReport& memory, std::span<const MeshAxis> mesh);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_ANNOTATION_ADVICE_H_
