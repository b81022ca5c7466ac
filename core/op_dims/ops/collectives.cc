// Collectives on values of a manual region, and custom calls: with a rule of their own, with batch
// dims, and those that hand their operand on.
#include <string>

#include "core/op_dims/relation_rules.h"
#include "ir/custom_call.h"
#include "ir/linalg_call.h"
#include "ir/metadata.h"

namespace gshard::op_dims {

// Operand i and result i correspond. Dims that a collective makes longer or shorter are needed
// whole on both sides.
void CollectiveByDim(RelationBuilder& b) {
  for (int64_t i = 0; i < b.operand_count() && i < b.result_count(); ++i) {
    const Shape* from = b.operand(i);
    const Shape* to = b.result(i);
    if (!from->IsArray() || !to->IsArray() || from->rank() != to->rank()) continue;
    for (int64_t d = 0; d < from->rank(); ++d) {
      if (from->dim(d) == to->dim(d)) {
        const int factor = b.Add(from->dim(d));
        b.ToOperand(i, d, factor);
        b.ToResult(i, d, factor);
      } else {
        b.ToOperand(i, d, b.Add(from->dim(d), FactorKind::kNeedReplication));
        b.ToResult(i, d, b.Add(to->dim(d), FactorKind::kNeedReplication));
      }
    }
  }
}

void CustomCall(RelationBuilder& b) {
  const Instruction& x = b.instruction();
  const std::string text = FrontendAttribute(x.frontend_attributes(), "xla.sdy.sharding_rule");
  if (!text.empty() && b.AddFromText(text)) return;
  if (IsIdentityCall(x) && !IsRegionMarker(x)) return b.Elementwise();
  const int64_t batch = BatchDimsOf(x);
  if (batch == 0) return b.Unrelated();
  for (int64_t d = 0; d < batch; ++d) {
    const int factor = b.Add(b.operand(0)->dim(d));
    for (int64_t i = 0; i < b.operand_count(); ++i) {
      if (b.operand(i)->IsArray() && b.operand(i)->rank() > d) b.ToOperand(i, d, factor);
    }
    for (int64_t i = 0; i < b.result_count(); ++i) {
      if (b.result(i)->IsArray() && b.result(i)->rank() > d) b.ToResult(i, d, factor);
    }
  }
}

}  // namespace gshard::op_dims
