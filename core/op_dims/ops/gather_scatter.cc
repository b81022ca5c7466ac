// Gathers and scatters, with their dims of three kinds: of windows, of batches that operand and
// indices share, and those that the indices address.
#include <algorithm>

#include "core/analysis/combiner.h"
#include "core/op_dims/relation_rules.h"

namespace gshard::op_dims {
// Batch dims of the indices are batch dims of the result; its offset dims are the window, with the
// operand's dims in order but the collapsed and batching ones. An indexed dim of which one element
// is taken is a sum of gathers over parts, with what is not there as zero.
void Gather(RelationBuilder& b) {
  const auto& gather = b.attributes<GatherAttributes>();
  const Shape* operand = b.operand(0);
  const Shape* indices = b.operand(1);
  const Shape* result = b.result(0);
  std::vector<int> operand_batching(At(operand->rank()), -1);
  int64_t index_dim = 0;
  for (int64_t d = 0; d < result->rank(); ++d) {
    if (Contains(gather.offset_dims, d)) continue;
    if (index_dim == gather.index_vector_dim) ++index_dim;
    const int factor = b.Add(result->dim(d));
    b.ToResult(0, d, factor);
    b.ToOperand(1, index_dim, factor);
    const auto batching = std::ranges::find(gather.start_indices_batching_dims, index_dim);
    if (batching != gather.start_indices_batching_dims.end()) {
      b.ToOperand(0,
                  gather.operand_batching_dims[At(batching -
                                                  gather.start_indices_batching_dims.begin())],
                  factor);
    }
    ++index_dim;
  }
  size_t offset = 0;
  for (int64_t d = 0; d < operand->rank(); ++d) {
    if (Contains(gather.operand_batching_dims, d)) continue;
    const int64_t size = operand->dim(d), taken = gather.slice_sizes[At(d)];
    const bool collapsed = Contains(gather.collapsed_slice_dims, d);
    const int64_t offset_dim = collapsed ? -1 : gather.offset_dims[offset++];
    if (taken == size && !collapsed) {
      const int factor = b.Add(size);
      b.ToOperand(0, d, factor);
      b.ToResult(0, offset_dim, factor);
    } else if (taken == 1) {
      b.ToOperand(0, d, b.Add(size, FactorKind::kReduction));
    } else {
      const int factor = b.Add(size, FactorKind::kNeedReplication, /*blocked=*/true);
      b.ToOperand(0, d, factor);
      b.ToResult(0, offset_dim, factor);
    }
  }
  if (gather.index_vector_dim < indices->rank()) {
    b.ToOperand(1, gather.index_vector_dim,
                b.Add(indices->dim(gather.index_vector_dim), FactorKind::kNeedReplication));
  }
}

// Operands are n inputs, the indices and n updates, as a gather from the inputs would give them.
// Where the updates of one element are combined by a reduction, the batch dims of indices and
// updates are summed over; where the last one stays, all are needed everywhere.
void Scatter(RelationBuilder& b) {
  const auto& scatter = b.attributes<ScatterAttributes>();
  const int64_t inputs = (b.operand_count() - 1) / 2;
  const Shape* operand = b.operand(0);
  const Shape* indices = b.operand(inputs);
  const Shape* updates = b.operand(inputs + 1);
  const auto to_updates = [&](int64_t dim, int factor) {
    for (int64_t i = inputs + 1; i < b.operand_count(); ++i) b.ToOperand(i, dim, factor);
  };
  const bool reduces = CombinerOf(b.instruction().called(0)).has_value();
  int64_t index_dim = 0;
  for (int64_t d = 0; d < updates->rank(); ++d) {
    if (Contains(scatter.update_window_dims, d)) continue;
    if (index_dim == scatter.index_vector_dim) ++index_dim;
    const auto batching = std::ranges::find(scatter.scatter_indices_batching_dims, index_dim);
    const bool is_batching = batching != scatter.scatter_indices_batching_dims.end();
    const int factor =
        b.Add(updates->dim(d), is_batching ? FactorKind::kPassThrough
                               : reduces   ? FactorKind::kReduction
                                           : FactorKind::kNeedReplication);
    to_updates(d, factor);
    b.ToOperand(inputs, index_dim, factor);
    if (is_batching) {
      b.Alike(inputs,
              scatter.input_batching_dims[At(batching -
                                             scatter.scatter_indices_batching_dims.begin())],
              factor);
    }
    ++index_dim;
  }
  size_t window = 0;
  for (int64_t d = 0; d < operand->rank(); ++d) {
    if (Contains(scatter.input_batching_dims, d)) continue;
    const bool inserted = Contains(scatter.inserted_window_dims, d);
    const int64_t window_dim = inserted ? -1 : scatter.update_window_dims[window++];
    const int factor = b.Add(operand->dim(d));
    b.Alike(inputs, d, factor);
    if (!inserted && updates->dim(window_dim) == operand->dim(d)) to_updates(window_dim, factor);
  }
  if (scatter.index_vector_dim < indices->rank()) {
    b.ToOperand(inputs, scatter.index_vector_dim,
                b.Add(indices->dim(scatter.index_vector_dim), FactorKind::kNeedReplication));
  }
}

}  // namespace gshard::op_dims
