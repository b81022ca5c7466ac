// Attribute text of the gather_scatter family (see ir/attribute_table.h).
#include <cstddef>

#include "ir/attribute_table.h"

namespace gshard {
namespace {

using enum AttributeKind;

constexpr AttributeRow kGather[] = {
    Attribute("offset_dims", kDims, offsetof(GatherAttributes, offset_dims)),
    Attribute("collapsed_slice_dims", kDims, offsetof(GatherAttributes, collapsed_slice_dims)),
    Attribute("start_index_map", kDims, offsetof(GatherAttributes, start_index_map)),
    Attribute("operand_batching_dims", kDims, offsetof(GatherAttributes, operand_batching_dims))
        .Optional(),
    Attribute("start_indices_batching_dims", kDims,
              offsetof(GatherAttributes, start_indices_batching_dims))
        .Optional(),
    Attribute("index_vector_dim", kInt, offsetof(GatherAttributes, index_vector_dim)),
    Attribute("slice_sizes", kDims, offsetof(GatherAttributes, slice_sizes)),
    Attribute("indices_are_sorted", kBool, offsetof(GatherAttributes, indices_are_sorted))
        .Optional(),
};
constexpr AttributeRow kScatter[] = {
    Attribute("update_window_dims", kDims, offsetof(ScatterAttributes, update_window_dims)),
    Attribute("inserted_window_dims", kDims, offsetof(ScatterAttributes, inserted_window_dims)),
    Attribute("scatter_dims_to_operand_dims", kDims,
              offsetof(ScatterAttributes, scatter_dims_to_operand_dims)),
    Attribute("input_batching_dims", kDims, offsetof(ScatterAttributes, input_batching_dims))
        .Optional(),
    Attribute("scatter_indices_batching_dims", kDims,
              offsetof(ScatterAttributes, scatter_indices_batching_dims))
        .Optional(),
    Attribute("index_vector_dim", kInt, offsetof(ScatterAttributes, index_vector_dim)),
    Attribute("indices_are_sorted", kBool, offsetof(ScatterAttributes, indices_are_sorted))
        .Optional(),
    Attribute("unique_indices", kBool, offsetof(ScatterAttributes, unique_indices)).Optional(),
    Calls("to_apply"),
};

}  // namespace

std::span<const OpcodeAttributes> GatherScatterRows() {
  static constexpr OpcodeAttributes kTable[] = {
      {Opcode::kGather, kGather},
      {Opcode::kScatter, kScatter},
  };
  return kTable;
}

}  // namespace gshard
