// Which operands' memory a result may take over, element for element.
#ifndef GSHARD_CORE_COST_MEMORY_IN_PLACE_H_
#define GSHARD_CORE_COST_MEMORY_IN_PLACE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "ir/instruction.h"

namespace gshard {

// A leaf of an operand.
struct OperandLeaf {
  const Instruction* operand = nullptr;
  int64_t leaf = 0;
};

// The values at which `is_input` ends the kernel that computes leaf `leaf` of `root`, whose element
// at each index is read by nothing but the result's element at that index: elementwise chains, the
// array that a dynamic-update-slice or scatter updates, sorted operands. Linear in the kernel.
std::vector<OperandLeaf> InPlaceInputs(const Instruction* root, int64_t leaf,
                                       const std::function<bool(const Instruction*)>& is_input);

// Does the kernel that computes `root`, of inputs as above, read a reduction of `array`, broadcast
// to its elements (x - max(x), exp(x) / sum(exp(x)))? A compiler that reads rows whole takes the
// reduction in the same kernel, and may not write over the rows. Looks at 64 values at most.
bool ReadsReductionOf(const Instruction* array, const Instruction* root,
                      const std::function<bool(const Instruction*)>& is_input);

// The pairs of output_to_operand_aliasing={{0}: (1, {})}, for outputs of one index or none: for
// leaf `leaf` of a result that is no nested tuple the operand, or null.
const Instruction* AliasedOperand(const Instruction* call, std::string_view aliasing, int64_t leaf);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_MEMORY_IN_PLACE_H_
