// Attribute text of the transpose family (see ir/attribute_table.h).
#include <cstddef>

#include "ir/attribute_table.h"

namespace gshard {
namespace {

using enum AttributeKind;

constexpr AttributeRow kTranspose[] = {
    Attribute("dimensions", kDims, offsetof(DimensionsAttributes, dimensions)),
};

}  // namespace

std::span<const OpcodeAttributes> TransposeRows() {
  static constexpr OpcodeAttributes kTable[] = {
      {Opcode::kTranspose, kTranspose},
  };
  return kTable;
}

}  // namespace gshard
