#include "ir/attribute_table.h"

#include <array>

#include "ir/diagnostic.h"

namespace gshard {
namespace {

using Index = std::array<std::span<const AttributeRow>, kOpcodeCount>;

Index BuildIndex() {
  Index index;
  for (const auto rows :
       {ElementwiseRows(), BroadcastRows(), ReshapeRows(), TransposeRows(), SliceRows(), DotRows(),
        ConvolutionRows(), ReduceRows(), ReduceWindowRows(), GatherScatterRows(), SortRows(),
        IotaConstantRows(), RngRows(), LinalgRows(), FftRows(), ControlFlowRows(), TupleRows(),
        CollectivesRows(), CustomCallRows()}) {
    for (const OpcodeAttributes& entry : rows) {
      CheckInternal(entry.rows.size() <= 32, "more attributes than the parser's set holds");
      index[static_cast<size_t>(entry.opcode)] = entry.rows;
    }
  }
  return index;
}

}  // namespace

std::span<const AttributeRow> AttributesOf(Opcode opcode) {
  static const Index index = BuildIndex();
  return index[static_cast<size_t>(opcode)];
}

}  // namespace gshard
