// Which collectives of a per-device program exist for the sake of a given instruction.
#ifndef GSHARD_CORE_EXPLAIN_COLLECTIVE_CAUSES_H_
#define GSHARD_CORE_EXPLAIN_COLLECTIVE_CAUSES_H_

#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"

namespace gshard {

struct CausedCollective {
  const Instruction* instruction = nullptr;
  std::string cause;
};

// Collectives of `partitioned` whose recorded cause (frontend attribute gshard.cause) names
// `instruction_name` as a whole word, in text order.
std::vector<CausedCollective> CollectivesBecauseOf(const Module& partitioned,
                                                   std::string_view instruction_name);

}  // namespace gshard

#endif  // GSHARD_CORE_EXPLAIN_COLLECTIVE_CAUSES_H_
