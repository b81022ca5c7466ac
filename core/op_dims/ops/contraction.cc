// Products: what is summed over is a factor of the operands only.
#include <algorithm>

#include "core/op_dims/relation_rules.h"

namespace gshard::op_dims {
namespace {

// The ragged dim of the left operand, whose rows are in groups, and the dim of the right one that
// has a matrix for each group; -1: none.
struct Ragged {
  int64_t dim = -1, group = -1;
};

// Batch dims of all three, free dims of the left and of the right operand; then what is summed. A
// ragged dim is needed whole, since the sizes of its groups are known at run time only; that does
// not keep its rows from being where the result's are.
void AddDot(RelationBuilder& b, const DotAttributes& dot, const Ragged& ragged = {}) {
  // Where the ragged dim is summed over, the result has a dim of groups in front.
  const bool sums_ragged = ragged.dim >= 0 && Contains(dot.lhs_contracting, ragged.dim);
  int64_t result_dim = sums_ragged ? 1 : 0;
  const auto add = [&](int64_t side, int64_t dim, FactorKind kind) {
    const bool whole = side == 0 && dim == ragged.dim;
    return b.Add(b.operand(side)->dim(dim), whole ? FactorKind::kNeedReplication : kind);
  };
  for (size_t i = 0; i < dot.lhs_batch.size(); ++i) {
    const int factor = add(0, dot.lhs_batch[i], FactorKind::kPassThrough);
    b.ToOperand(0, dot.lhs_batch[i], factor);
    b.ToOperand(1, dot.rhs_batch[i], factor);
    b.ToResult(0, result_dim++, factor);
  }
  for (int64_t side = 0; side < 2; ++side) {
    const Dims batch = side == 0 ? dot.lhs_batch : dot.rhs_batch;
    const Dims contracting = side == 0 ? dot.lhs_contracting : dot.rhs_contracting;
    for (int64_t d = 0; d < b.operand(side)->rank(); ++d) {
      if (Contains(batch, d) || Contains(contracting, d)) continue;
      if (side == 1 && d == ragged.group) continue;
      const int factor = add(side, d, FactorKind::kPassThrough);
      b.ToOperand(side, d, factor);
      b.ToResult(0, result_dim++, factor);
    }
  }
  for (size_t i = 0; i < dot.lhs_contracting.size(); ++i) {
    const int factor = add(0, dot.lhs_contracting[i], FactorKind::kReduction);
    b.ToOperand(0, dot.lhs_contracting[i], factor);
    b.ToOperand(1, dot.rhs_contracting[i], factor);
  }
}

}  // namespace

void Dot(RelationBuilder& b) { AddDot(b, b.attributes<DotAttributes>()); }

// The scale of an operand has its dims; where it is shorter, an element of it serves a block of the
// operand's, and the dim keeps a factor of its own.
void ScaledDot(RelationBuilder& b) {
  AddDot(b, b.attributes<DotAttributes>());
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t d = 0; d < b.operand(i)->rank(); ++d) {
      if (b.operand(i + 2)->dim(d) != b.operand(i)->dim(d)) continue;
      for (const int factor : b.FactorsOfOperand(i, d)) b.ToOperand(i + 2, d, factor);
    }
  }
}

// lhs [b, m, k], rhs [g, b, k, n] and sizes [b, g] make [b, m, n] if the ragged dim is one of the
// rows m, and [g, b, m, n] if it is summed over. Sizes may have fewer dims, but for the groups.
void RaggedDot(RelationBuilder& b) {
  const auto& dot = b.attributes<DotAttributes>();
  const int64_t ragged = dot.lhs_ragged[0];
  AddDot(b, dot, {.dim = ragged, .group = dot.rhs_group.empty() ? -1 : dot.rhs_group[0]});
  const Shape* sizes = b.operand(2);
  const int64_t last = sizes->rank() - 1;
  const int groups = b.Add(sizes->dim(last), FactorKind::kNeedReplication);
  b.ToOperand(2, last, groups);
  if (!dot.rhs_group.empty()) b.ToOperand(1, dot.rhs_group[0], groups);
  if (Contains(dot.lhs_contracting, ragged)) b.ToResult(0, 0, groups);
  const auto batch = static_cast<int64_t>(dot.lhs_batch.size());
  if (last < batch) return;
  for (int64_t d = 0; d < batch; ++d) {
    const int64_t of_lhs = dot.lhs_batch[static_cast<size_t>(d)];
    if (sizes->dim(d) != b.operand(0)->dim(of_lhs)) continue;
    for (const int factor : b.FactorsOfOperand(0, of_lhs)) b.ToOperand(2, d, factor);
  }
}

namespace {

// The input's elements are those of the result times those of the window, as far as that goes: in
// a row of 16 with a stride of 4 and a window of 4 the blocks are the result's elements, and those
// of a block belong to the window. The longer of both is major: a window of 16, as a kernel's
// gradient has it, is the whole row, and its elements are summed.
void AddSpatial(RelationBuilder& b, const ConvolutionAttributes& conv, size_t i) {
  const int64_t input = b.operand(0)->dim(conv.input_spatial[i]);
  const int64_t result = b.result(0)->dim(conv.output_spatial[i]);
  const int64_t window = b.operand(1)->dim(conv.kernel_spatial[i]);
  const auto add_positions = [&](int64_t size) {
    const int positions = b.Add(size, FactorKind::kPermutation);
    b.ToOperand(0, conv.input_spatial[i], positions);
    b.ToResult(0, conv.output_spatial[i], positions);
  };
  const auto add_window = [&](int64_t size) {
    const int summed = b.Add(size, FactorKind::kReduction);
    b.ToOperand(0, conv.input_spatial[i], summed);
    b.ToOperand(1, conv.kernel_spatial[i], summed);
  };
  const bool window_first = window > result;
  const int64_t major = std::min(input, std::max(window, result));
  const int64_t minor = std::min(std::min(window, result), major == 0 ? 0 : input / major);
  window_first ? add_window(major) : add_positions(major);
  if (minor > 1) window_first ? add_positions(minor) : add_window(minor);
}

}  // namespace

void Convolution(RelationBuilder& b) {
  const auto& conv = b.attributes<ConvolutionAttributes>();
  const Shape* result = b.result(0);
  const int64_t batch_groups = conv.batch_group_count, groups = conv.feature_group_count;
  int group = -1;
  if (batch_groups > 1) {
    group = b.Add(batch_groups);
    b.ToOperand(0, conv.input_batch, group);
  }
  const int batch = b.Add(result->dim(conv.output_batch));
  b.ToOperand(0, conv.input_batch, batch);
  b.ToResult(0, conv.output_batch, batch);
  for (size_t i = 0; i < conv.window.size(); ++i) AddSpatial(b, conv, i);

  const int64_t input_feature = b.operand(0)->dim(conv.input_feature);
  if (groups > 1) {
    group = b.Add(groups);
    b.ToOperand(0, conv.input_feature, group);
  }
  const int64_t summed_size = input_feature / groups;
  const int summed = b.Add(summed_size, FactorKind::kReduction);
  if (groups == 1 || summed_size > 1) b.ToOperand(0, conv.input_feature, summed);
  b.ToOperand(1, conv.kernel_input_feature, summed);

  const int64_t made = result->dim(conv.output_feature);
  const int64_t rest = group >= 0 ? made / b.SizeOf(group) : made;
  if (group >= 0) {
    b.ToOperand(1, conv.kernel_output_feature, group);
    b.ToResult(0, conv.output_feature, group);
    if (rest == 1) return;
  }
  const int feature = b.Add(rest);
  b.ToOperand(1, conv.kernel_output_feature, feature);
  b.ToResult(0, conv.output_feature, feature);
}

}  // namespace gshard::op_dims
