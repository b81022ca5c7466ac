// sort, topk: n log2 n comparisons along the sorted dim.

#include <algorithm>
#include <cmath>

#include "core/cost/rules.h"

namespace gshard {

OpCost SortCost(const Instruction& instruction) {
  const Shape* keys = instruction.operand(0)->shape();
  int64_t dim = instruction.opcode() == Opcode::kSort
                    ? instruction.attributes<SortAttributes>().dimension
                    : keys->rank() - 1;
  double length = keys->rank() == 0 ? 1 : static_cast<double>(keys->dim(dim));
  double depth = instruction.opcode() == Opcode::kSort
                     ? length
                     : static_cast<double>(instruction.attributes<TopKAttributes>().k);
  return {.flops = static_cast<double>(keys->element_count()) * std::log2(std::max(2.0, depth))};
}

}  // namespace gshard
