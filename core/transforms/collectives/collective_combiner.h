// Many small collectives become few large ones: fewer latencies.
#ifndef GSHARD_CORE_TRANSFORMS_COLLECTIVES_COLLECTIVE_COMBINER_H_
#define GSHARD_CORE_TRANSFORMS_COLLECTIVES_COLLECTIVE_COMBINER_H_

#include "ir/module.h"

namespace gshard {

struct CombineOptions {
  // A combined collective moves at most so many bytes per device (result of an all-gather, operand
  // of the others) and has at most so many operands.
  int64_t max_bytes = int64_t{32} << 20;
  int64_t max_operands = 256;
};

// Combines collectives of `opcode` (all-reduce, all-gather, reduce-scatter) with the same groups,
// element type, dim and reduction, of which none depends on another, into one with several
// operands. True if something changed. Linear for each of the kinds of such collectives that a
// computation has.
bool CombineCollectives(Module& module, Opcode opcode, const CombineOptions& options);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_COLLECTIVES_COLLECTIVE_COMBINER_H_
