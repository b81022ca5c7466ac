// Attribute text of the reduce_window family (see ir/attribute_table.h).
#include <cstddef>

#include "ir/attribute_table.h"

namespace gshard {
namespace {

using enum AttributeKind;

constexpr AttributeRow kWindowRow =
    Attribute("window", kWindow, offsetof(WindowAttributes, window)).Optional();

constexpr AttributeRow kReduceWindow[] = {
    kWindowRow,
    Calls("to_apply"),
};
constexpr AttributeRow kSelectAndScatter[] = {
    kWindowRow,
    Calls("select", 0),
    Calls("scatter", 1),
};

}  // namespace

std::span<const OpcodeAttributes> ReduceWindowRows() {
  static constexpr OpcodeAttributes kTable[] = {
      {Opcode::kReduceWindow, kReduceWindow},
      {Opcode::kSelectAndScatter, kSelectAndScatter},
  };
  return kTable;
}

}  // namespace gshard
