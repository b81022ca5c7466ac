// Functions that make the relation of one opcode's dims, in the file of core/op_dims/ops/ that the
// comment above each block names. Each adds the factors that dims share; dims that it leaves out
// get factors of their own. Which opcode has which function: core/op_dims/relation_table.cc.
#ifndef GSHARD_CORE_OP_DIMS_RELATION_RULES_H_
#define GSHARD_CORE_OP_DIMS_RELATION_RULES_H_

#include "core/op_dims/relation_builder.h"

namespace gshard::op_dims {

using RelationRule = void (*)(RelationBuilder& b);

void Unrelated(RelationBuilder& b);
void Elementwise(RelationBuilder& b);

// movement.cc
void BitcastConvert(RelationBuilder& b);
void Broadcast(RelationBuilder& b);
void Reshape(RelationBuilder& b);
void Transpose(RelationBuilder& b);
void Reverse(RelationBuilder& b);
void Concatenate(RelationBuilder& b);
void Slice(RelationBuilder& b);
void Pad(RelationBuilder& b);
void DynamicSlice(RelationBuilder& b);
void DynamicUpdateSlice(RelationBuilder& b);

// contraction.cc
void Dot(RelationBuilder& b);
void RaggedDot(RelationBuilder& b);
void ScaledDot(RelationBuilder& b);
void Convolution(RelationBuilder& b);

// reduction.cc
void Reduce(RelationBuilder& b);
void Scan(RelationBuilder& b);
void BatchNorm(RelationBuilder& b);
void ReduceWindow(RelationBuilder& b);
void SelectAndScatter(RelationBuilder& b);

// gather_scatter.cc
void Gather(RelationBuilder& b);
void Scatter(RelationBuilder& b);

// whole_dims.cc: operations that need some dims whole
void Sort(RelationBuilder& b);
void TopK(RelationBuilder& b);
void Fft(RelationBuilder& b);
void Cholesky(RelationBuilder& b);
void TriangularSolve(RelationBuilder& b);
void RngBitGenerator(RelationBuilder& b);

// collectives.cc
void CollectiveByDim(RelationBuilder& b);
void CustomCall(RelationBuilder& b);

}  // namespace gshard::op_dims

#endif  // GSHARD_CORE_OP_DIMS_RELATION_RULES_H_
