// Attribute text of the sort family (see ir/attribute_table.h).
#include <cstddef>

#include "ir/attribute_table.h"

namespace gshard {
namespace {

using enum AttributeKind;

constexpr AttributeRow kSortRows[] = {
    Attribute("dimensions", kDim, offsetof(SortAttributes, dimension)),
    Attribute("is_stable", kBool, offsetof(SortAttributes, is_stable)).Optional(),
    Calls("to_apply"),
};
constexpr AttributeRow kTopK[] = {
    Attribute("k", kInt, offsetof(TopKAttributes, k)),
    Attribute("largest", kBool, offsetof(TopKAttributes, largest)).AlwaysPrinted(),
    Attribute("is_stable", kBool, offsetof(TopKAttributes, is_stable)).Optional(),
};

}  // namespace

std::span<const OpcodeAttributes> SortRows() {
  static constexpr OpcodeAttributes kTable[] = {
      {Opcode::kSort, kSortRows},
      {Opcode::kTopK, kTopK},
  };
  return kTable;
}

}  // namespace gshard
