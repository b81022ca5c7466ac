// The shape an operation must have, from its operands and attributes; rules in ir/ops/<family>.cc.
#ifndef GSHARD_IR_SHAPE_INFERENCE_H_
#define GSHARD_IR_SHAPE_INFERENCE_H_

#include <span>
#include <string>
#include <tl/expected.hpp>

#include "ir/module.h"

namespace gshard {

// What shape inference looks at. `attributes` points to the opcode's struct.
struct OpView {
  Opcode opcode;
  std::span<const Shape* const> operands;
  const void* attributes = nullptr;
  std::span<Computation* const> called;
  const Shape* declared = nullptr;  // shape written in the text; null if none
  template <typename T>
  const T& as() const {
    return *static_cast<const T*>(attributes);
  }
};

// The inferred shape (layouts: none), or one sentence on what is wrong ("dot contracts dim of size
// 4 with one of size 8"). Where the shape cannot follow from the operands (parameter, reshape,
// custom-call, ..) `declared` is checked and returned.
tl::expected<const Shape*, std::string> InferShape(Context& ctx, const OpView& op);

// Can the shape be omitted in text (docs/text-format.md)?
bool ShapeIsInferable(Opcode opcode);

// Elements along a dim of `size` seen through a window (docs/semantics.md, "Convolution"); an
// unbounded dim stays so. -1 if the arithmetic overflows.
int64_t WindowOutputSize(int64_t size, const WindowDim& window);
// Does each place of the window hold the element of the same place, and no other?
inline bool IsTrivial(const WindowDim& w) {
  return w.size == 1 && w.stride == 1 && w.pad_low == 0 && w.pad_high == 0 && w.base_dilation == 1;
}
// The size of a dim after padding; -1 if it would be negative or overflows.
int64_t PaddedSize(int64_t size, const PadDim& padding);
// Elements of [start:limit:stride], start <= limit.
inline int64_t SliceSize(int64_t start, int64_t limit, int64_t stride) {
  return (limit - start) / stride + ((limit - start) % stride != 0 ? 1 : 0);
}
// The same shape as far as a program is concerned: layouts and dynamic marks ("<=") ignored.
bool SameUpToDynamic(const Shape* a, const Shape* b);

}  // namespace gshard

#endif  // GSHARD_IR_SHAPE_INFERENCE_H_
