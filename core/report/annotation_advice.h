// Which annotation avoids a full rematerialisation. Found by trying: candidates are put on the
// user's program, which is propagated and partitioned again.
#ifndef GSHARD_CORE_REPORT_ANNOTATION_ADVICE_H_
#define GSHARD_CORE_REPORT_ANNOTATION_ADVICE_H_

#include "core/report/collective_report.h"
#include "core/spmd/per_device_module.h"

namespace gshard {

// Fills in the advice of the report's rematerialisations, ours and XLA's, the costliest first, at
// most `limit` of them; only what makes one of them less and the program send less. `program` is
// the unpartitioned program as the user wrote it; `context` and `way` are what made the reported
// one of it. Each costs up to three times propagating and partitioning the program.
void AdviseAnnotations(const Module& program, const PassContext& context,
                       const PerDeviceOptions& way, CollectiveReport& report, size_t limit = 8);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_ANNOTATION_ADVICE_H_
