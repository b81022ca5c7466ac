// Attribute text of the reshape family (see ir/attribute_table.h).
#include <cstddef>

#include "ir/attribute_table.h"

namespace gshard {
namespace {

using enum AttributeKind;

constexpr AttributeRow kReshape[] = {
    Attribute("inferred_dimension", kInt, offsetof(ReshapeAttributes, inferred_dimension))
        .OmittedIf(-1),
};

}  // namespace

std::span<const OpcodeAttributes> ReshapeRows() {
  static constexpr OpcodeAttributes kTable[] = {
      {Opcode::kReshape, kReshape},
  };
  return kTable;
}

}  // namespace gshard
