// Leaves of tuple-shaped values: numbered in pre-order, as LeafShapes (ir/dims.h) lists them.
#ifndef GSHARD_CORE_AUTODIFF_LEAVES_H_
#define GSHARD_CORE_AUTODIFF_LEAVES_H_

#include <optional>
#include <utility>
#include <vector>

#include "ir/dims.h"
#include "ir/leaves.h"

namespace gshard {

// Is the leaf of a type that has gradients: floating or complex?
bool IsDifferentiable(const Shape* leaf);

// A leaf of a parameter.
struct ParameterLeaf {
  int64_t parameter = 0;
  int64_t leaf = 0;
  bool operator==(const ParameterLeaf&) const = default;
};
// Which leaf of a parameter x is, being the parameter or read from it by get-tuple-element only.
std::optional<ParameterLeaf> ParameterLeafOf(const Instruction* x);

}  // namespace gshard

#endif  // GSHARD_CORE_AUTODIFF_LEAVES_H_
