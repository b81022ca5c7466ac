// What one instruction does on one device: floating-point operations and bytes of memory traffic.
//
// Local shapes as they stand in the text; collectives' network bytes are in
// core/cost/collective_cost.h. Rules per family: core/cost/ops/<family>.cc.
#ifndef GSHARD_CORE_COST_OP_COST_H_
#define GSHARD_CORE_COST_OP_COST_H_

#include <cstdint>
#include <string_view>

#include "ir/instruction.h"

namespace gshard {

struct OpCost {
  double flops = 0;            // multiply-add counts two
  double transcendentals = 0;  // exp, tanh, ..: not among the flops
  double other_ops = 0;        // on integers, comparisons, selections, casts: not among the flops
  double bytes = 0;  // operands read + results written, each once, where it is not all of them
  bool has_bytes = false;  // false: bytes are operands + result
};

// Cost of the instruction itself, without called computations of while, conditional, call and
// fusion; reductions, sorts and scatters count their combiner per element.
OpCost CostOf(const Instruction& instruction);

// What an opcode's rule counts, as a word for tables: "flops", "bytes" (only moved), "combiner" (of
// a collective: the network is priced apart) or "callees".
std::string_view CostKindOf(Opcode opcode);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_OP_COST_H_
