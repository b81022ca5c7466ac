// Leaves of tuple-shaped values: numbered in pre-order, as LeafShapes (ir/dims.h) lists them.
#ifndef GSHARD_CORE_AUTODIFF_LEAVES_H_
#define GSHARD_CORE_AUTODIFF_LEAVES_H_

#include <optional>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/dims.h"

namespace gshard {

// The first leaf of element `index` of a tuple.
int64_t FirstLeaf(const Shape* tuple, int64_t index);
// Is the leaf of a type that has gradients: floating or complex?
bool IsDifferentiable(const Shape* leaf);

// Leaf `leaf` of x, looked up through tuple() or read by get-tuple-element, which `builder` (of the
// computation of x) makes.
Instruction* LeafValue(Builder& builder, Instruction* x, int64_t leaf);
std::vector<Instruction*> LeafValues(Builder& builder, Instruction* x);
// Puts leaves together as a value of `shape`.
Instruction* FromLeaves(Builder& builder, const Shape* shape, std::span<Instruction* const> leaves);

// A leaf of a parameter.
struct ParameterLeaf {
  int64_t parameter = 0;
  int64_t leaf = 0;
  bool operator==(const ParameterLeaf&) const = default;
};
// Which leaf of a parameter x is, being the parameter or read from it by get-tuple-element only.
std::optional<ParameterLeaf> ParameterLeafOf(const Instruction* x);

// Is every element of x the same constant? Looks through broadcasts, converts, reshapes.
std::optional<double> ConstantValue(const Instruction* x);

}  // namespace gshard

#endif  // GSHARD_CORE_AUTODIFF_LEAVES_H_
