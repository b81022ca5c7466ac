// Attribute text of the broadcast family (see ir/attribute_table.h).
#include <cstddef>

#include "ir/attribute_table.h"

namespace gshard {
namespace {

using enum AttributeKind;

// Omissible for scalars; the parser asks for it elsewhere.
constexpr AttributeRow kBroadcast[] = {
    Attribute("dimensions", kDims, offsetof(DimensionsAttributes, dimensions)).AlwaysPrinted(),
};

}  // namespace

std::span<const OpcodeAttributes> BroadcastRows() {
  static constexpr OpcodeAttributes kTable[] = {
      {Opcode::kBroadcast, kBroadcast},
  };
  return kTable;
}

}  // namespace gshard
