// What propagation noticed that a user may worry about: annotations that say something else than
// their neighbours wanted.
#ifndef GSHARD_CORE_EXPLAIN_PROPAGATION_FINDINGS_H_
#define GSHARD_CORE_EXPLAIN_PROPAGATION_FINDINGS_H_

#include <vector>

#include "ir/instruction.h"
#include "ir/sharding.h"

namespace gshard {

struct PropagationFindings {
  // An annotated instruction whose operand or user would have it tiled in a way that neither
  // contains nor is contained in its annotation: data moves there.
  struct Conflict {
    const Instruction* annotated = nullptr;
    const Instruction* neighbour = nullptr;
    bool neighbour_is_user = false;
    const Sharding* wanted = nullptr;  // of the annotated instruction, by the neighbour
  };
  std::vector<Conflict> conflicts;  // in program order
};

}  // namespace gshard

#endif  // GSHARD_CORE_EXPLAIN_PROPAGATION_FINDINGS_H_
