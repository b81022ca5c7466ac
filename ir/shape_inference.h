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

}  // namespace gshard

#endif  // GSHARD_IR_SHAPE_INFERENCE_H_
