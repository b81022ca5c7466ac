// Which collectives of a per-device program exist for the sake of a given instruction, and which
// instructions a given collective serves.
#ifndef GSHARD_CORE_REPORT_COLLECTIVE_CAUSES_H_
#define GSHARD_CORE_REPORT_COLLECTIVE_CAUSES_H_

#include <string>
#include <string_view>
#include <vector>

#include "core/explain/recorder.h"
#include "ir/module.h"

namespace gshard {

struct CausedCollective {
  const Instruction* instruction = nullptr;
  std::string cause;  // in words (frontend attribute gshard.cause)
  // Of the sharded program: the value that moves and who needs it. Null if not recorded.
  const Instruction* value = nullptr;
  const Instruction* user = nullptr;
};

// Collectives of `partitioned` whose recorded value or user is called `instruction_name`, or whose
// cause in words names it, or that have this name themselves; in text order. `recorder` was given
// to the partitioner; null: words only.
std::vector<CausedCollective> CollectivesBecauseOf(const Module& partitioned,
                                                   const ExplainRecorder* recorder,
                                                   std::string_view instruction_name);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_COLLECTIVE_CAUSES_H_
