// reduce-window and select-and-scatter: the body once a window position, but no more often than a
// scan or a tree of partial results needs it.

#include <algorithm>
#include <cmath>

#include "core/cost/rules.h"

namespace gshard {
namespace {

// Combinations a result for one dim of a window. Long windows that advance by one element share
// partial results: a cumulative sum, or the sum of a whole row for each of its elements, takes
// log2(size) steps of a tree (Hillis and Steele, "Data parallel algorithms", 1986), for a window of
// any size one more step joins two overlapping ones.
double CombinationsOf(const WindowDim& dim) {
  const auto size = static_cast<double>(dim.size);
  const bool shares = dim.stride == 1 && dim.window_dilation == 1 && dim.base_dilation == 1;
  return shares ? std::min(size, std::ceil(std::log2(std::max(1.0, size))) + 1) : size;
}

}  // namespace

OpCost ReduceWindowCost(const Instruction& instruction) {
  double window = 1;
  for (const WindowDim& dim : instruction.attributes<WindowAttributes>().window) {
    window *= static_cast<double>(dim.size);
  }
  if (instruction.opcode() == Opcode::kSelectAndScatter) {
    double windows = static_cast<double>(instruction.operand(1)->shape()->element_count());
    return {.flops = windows * (window * ScalarComputationFlops(*instruction.called(0)) +
                                ScalarComputationFlops(*instruction.called(1)))};
  }
  const Shape* result =
      instruction.shape()->IsTuple() ? instruction.shape()->element(0) : instruction.shape();
  double windows = static_cast<double>(result->element_count()), combinations = 1;
  for (const WindowDim& dim : instruction.attributes<WindowAttributes>().window) {
    combinations *= CombinationsOf(dim);
  }
  return {.flops = windows * combinations * ScalarComputationFlops(*instruction.called(0))};
}

}  // namespace gshard
