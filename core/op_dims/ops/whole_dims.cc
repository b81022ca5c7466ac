// Operations that mix all elements of some dims, which they therefore need whole.
#include "core/op_dims/relation_rules.h"

namespace gshard::op_dims {
namespace {

// Dims that all operands and results have alike; from `first_whole` on they are needed whole.
void WholeFrom(RelationBuilder& b, int64_t first_whole, int64_t first_blocked) {
  for (int64_t d = 0; d < b.result(0)->rank(); ++d) {
    b.Alike(b.operand_count(), d,
            b.Add(b.operand(0)->dim(d),
                  d >= first_whole ? FactorKind::kNeedReplication : FactorKind::kPassThrough,
                  d >= first_blocked));
  }
}

}  // namespace

void Sort(RelationBuilder& b) {
  const int64_t along = b.attributes<SortAttributes>().dimension;
  // A cut of the sorted dim can move to another one, if there is one.
  const bool alone = b.operand(0)->element_count() == b.operand(0)->dim(along);
  for (int64_t d = 0; d < b.operand(0)->rank(); ++d) {
    const bool is_sorted = d == along;
    b.Alike(b.operand_count(), d,
            b.Add(b.operand(0)->dim(d),
                  is_sorted ? FactorKind::kNeedReplication : FactorKind::kPassThrough,
                  /*blocked=*/is_sorted && alone));
  }
}

void TopK(RelationBuilder& b) {
  const int64_t last = b.operand(0)->rank() - 1;
  WholeFrom(b, last, last);
}

// Real transforms have another number of elements in their last dim.
void Fft(RelationBuilder& b) {
  const auto& fft = b.attributes<FftAttributes>();
  const int64_t rank = b.operand(0)->rank();
  const bool is_real = fft.type == FftType::kRfft || fft.type == FftType::kIrfft;
  WholeFrom(b, rank - static_cast<int64_t>(fft.length.size()), is_real ? rank - 1 : rank);
}

void Cholesky(RelationBuilder& b) {
  const int64_t rank = b.result(0)->rank();
  WholeFrom(b, rank - 2, rank);
}

// a [.., j, l] x = b [.., j, k] gives x [.., l, k]; from the right, x [.., j, l] of a [.., l, k]
// and b [.., j, k].
void TriangularSolve(RelationBuilder& b) {
  const bool left = b.attributes<TriangularSolveAttributes>().left_side;
  const int64_t rank = b.result(0)->rank();
  for (int64_t d = 0; d < rank - 2; ++d) b.Alike(2, d, b.Add(b.result(0)->dim(d)));
  const auto whole = [&](int64_t size) { return b.Add(size, FactorKind::kNeedReplication); };
  const int row = whole(b.operand(1)->dim(rank - 2));
  const int column = whole(b.operand(1)->dim(rank - 1));
  const int unknown = whole(b.result(0)->dim(left ? rank - 2 : rank - 1));
  b.ToOperand(0, rank - 2, left ? row : unknown);
  b.ToOperand(0, rank - 1, left ? unknown : column);
  b.ToOperand(1, rank - 2, row);
  b.ToOperand(1, rank - 1, column);
  b.ToResult(0, rank - 2, left ? unknown : row);
  b.ToResult(0, rank - 1, left ? column : unknown);
}

// The state goes in and comes out whole; the bits have dims of their own.
void RngBitGenerator(RelationBuilder& b) {
  for (int64_t d = 0; d < b.operand(0)->rank(); ++d) {
    const int factor = b.Add(b.operand(0)->dim(d), FactorKind::kNeedReplication, /*blocked=*/true);
    b.ToOperand(0, d, factor);
    if (b.result_count() == 2) b.ToResult(0, d, factor);
  }
}

}  // namespace gshard::op_dims
