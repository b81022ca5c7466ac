// Attribute text of the slice family (see ir/attribute_table.h).
#include <cstddef>

#include "ir/attribute_table.h"

namespace gshard {
namespace {

using enum AttributeKind;

constexpr AttributeRow kSliceRows[] = {
    Attribute("slice", kSlice),
};
constexpr AttributeRow kPad[] = {
    Attribute("padding", kPadding, offsetof(PadAttributes, padding)),
};
constexpr AttributeRow kDynamicSlice[] = {
    Attribute("dynamic_slice_sizes", kDims, offsetof(DynamicSliceAttributes, slice_sizes)),
};
// concatenate, reverse, get- and set-dimension-size
constexpr AttributeRow kDimensions[] = {
    Attribute("dimensions", kDims, offsetof(DimensionsAttributes, dimensions)),
};

}  // namespace

std::span<const OpcodeAttributes> SliceRows() {
  static constexpr OpcodeAttributes kTable[] = {
      {Opcode::kSlice, kSliceRows},
      {Opcode::kPad, kPad},
      {Opcode::kConcatenate, kDimensions},
      {Opcode::kReverse, kDimensions},
      {Opcode::kDynamicSlice, kDynamicSlice},
      {Opcode::kGetDimensionSize, kDimensions},
      {Opcode::kSetDimensionSize, kDimensions},
  };
  return kTable;
}

}  // namespace gshard
