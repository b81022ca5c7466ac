// What makes a program's step shorter or its peak smaller: each suggestion is applied to a copy of
// the program, which is priced as the program itself was; what does not help is not told.
#ifndef GSHARD_CORE_REPORT_TRIED_ADVICE_H_
#define GSHARD_CORE_REPORT_TRIED_ADVICE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/estimate/device_program.h"
#include "core/report/collective_report.h"

namespace gshard {

enum class AdviceKind : uint8_t {
  kShard,           // annotate a tensor of which there are copies
  kResharding,      // annotate what is fully rematerialised
  kDonation,        // of arguments that results replace
  kWindowedEinsum,  // gathers and scatters in steps, beside the dots
  kWeightUpdate,    // reduce-scatter of gradients in the place of all-reduce
  kOptimize,        // gshard-opt optimize
  kMesh,            // other sizes of the mesh's axes
  kRecomputation,   // gshard-opt remat
  kFlashAttention,  // scores that stay on the chip
};

// "shard", "resharding", ..: the word in JSON.
std::string_view AdviceKindName(AdviceKind kind);

struct TriedAdvice {
  AdviceKind kind = AdviceKind::kShard;
  std::string what;         // to be done; `commands` in backticks
  std::string instruction;  // that it is about; may be empty
  double step_time_s = 0;   // of the program with it
  int64_t peak_bytes = 0;
};

// What was priced, and how: as for MakeDeviceProgram and ReportCost.
struct PricedProgram {
  const Module& written;  // before it was partitioned; or the program of one device, if given so
  const Chip& chip;
  const DeviceProgramOptions& program;
  const CostOptions& cost;
  const CostReport& report;
  const CollectiveReport* collectives;  // with advice against rematerialisations; may be null
};

// What helps, the best first; at most `trials` copies are made and priced. Helps: the program is
// shorter by a hundredth or its peak smaller by a fiftieth, and neither is worse; of one that does
// not fit the memory, the peak is smaller. `written` stays as it is, but its context learns shapes
// and shardings.
std::vector<TriedAdvice> TryAdvice(const PricedProgram& priced, size_t trials);

// "`--shard '^w$=data,_'`: a step of 2.60 s in place of 2.77 s, a peak of 26.1 GiB in place of 28".
std::string AdviceSentence(const TriedAdvice& advice, const CostReport& before);

// A table under a title; empty without advice.
std::string AdviceAsText(const std::vector<TriedAdvice>& advice, const CostReport& before);
std::string AdviceAsMarkdown(const std::vector<TriedAdvice>& advice);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_TRIED_ADVICE_H_
