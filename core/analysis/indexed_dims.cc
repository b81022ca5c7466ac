#include "core/analysis/indexed_dims.h"

#include <algorithm>

#include "ir/dims.h"

namespace gshard {
namespace {

// How much of each dim of the operand one index vector of a scatter updates.
std::vector<int64_t> ScatterWindow(const Instruction& x) {
  const auto& attributes = x.attributes<ScatterAttributes>();
  const Shape* updates = x.operand((x.operand_count() - 1) / 2 + 1)->shape();
  std::vector<int64_t> window(At(x.operand(0)->shape()->rank()), 1);
  size_t next = 0;
  for (int64_t d = 0; d < x.operand(0)->shape()->rank(); ++d) {
    if (Contains(attributes.inserted_window_dims, d) ||
        Contains(attributes.input_batching_dims, d) ||
        next >= attributes.update_window_dims.size()) {
      continue;
    }
    window[At(d)] = updates->dim(attributes.update_window_dims[next++]);
  }
  return window;
}

}  // namespace

std::optional<IndexedDims> IndexedDimsOf(const Instruction& x) {
  IndexedDims result;
  switch (x.opcode()) {
    case Opcode::kGather: {
      const auto& attributes = x.attributes<GatherAttributes>();
      result.first_operand = 1;
      result.vector_dim = attributes.index_vector_dim;
      for (int64_t dim : attributes.start_index_map) {
        result.dims.push_back(dim);
        result.sizes.push_back(attributes.slice_sizes[At(dim)]);
      }
      return result;
    }
    case Opcode::kScatter: {
      const auto& attributes = x.attributes<ScatterAttributes>();
      result.first_operand = (x.operand_count() - 1) / 2;
      result.vector_dim = attributes.index_vector_dim;
      const std::vector<int64_t> window = ScatterWindow(x);
      for (int64_t dim : attributes.scatter_dims_to_operand_dims) {
        result.dims.push_back(dim);
        result.sizes.push_back(window[At(dim)]);
      }
      return result;
    }
    case Opcode::kDynamicSlice:
    case Opcode::kDynamicUpdateSlice: {
      const bool slices = x.opcode() == Opcode::kDynamicSlice;
      const Shape* part = slices ? x.shape() : x.operand(1)->shape();
      result.first_operand = slices ? 1 : 2;
      result.are_scalars = result.first_operand >= x.operand_count() ||
                           x.operand(result.first_operand)->shape()->rank() == 0;
      for (int64_t dim = 0; dim < part->rank(); ++dim) {
        result.dims.push_back(dim);
        result.sizes.push_back(part->dim(dim));
      }
      return result;
    }
    default:  // takes no indices
      return std::nullopt;
  }
}

double IndexedSlices(const Instruction& x) {
  if (x.opcode() != Opcode::kGather && x.opcode() != Opcode::kScatter) return 0;
  const std::optional<IndexedDims> indexed = IndexedDimsOf(x);
  const Shape* indices = x.operand(indexed->first_operand)->shape();
  const int64_t components =
      indexed->vector_dim < indices->rank() ? indices->dim(indexed->vector_dim) : 1;
  return static_cast<double>(indices->element_count()) /
         static_cast<double>(std::max<int64_t>(1, components));
}

}  // namespace gshard
