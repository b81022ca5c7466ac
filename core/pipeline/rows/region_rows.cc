#include "core/pipeline/rows/region_rows.h"

#include "core/transforms/rewriter.h"
#include "ir/custom_call.h"
#include "ir/dims.h"

namespace gshard::pipeline {
namespace {

// The border of the slice `x` of single rows of a parameter that is not cut along dim 0; null: it
// is no such slice.
const Instruction* BorderOfRow(const Instruction* x, const std::unordered_set<int64_t>& data) {
  if (x->opcode() != Opcode::kSlice || !IsCustomCallTo(*x->operand(0), kEnterManualTarget)) {
    return nullptr;
  }
  const Instruction* border = x->operand(0);
  const Instruction* placed = border->operand(0);
  if (!IsCustomCallTo(*placed, kShardingTarget)) return nullptr;
  const Instruction* parameter = placed->operand(0);
  if (parameter->opcode() != Opcode::kParameter ||
      data.contains(parameter->attributes<ParameterAttributes>().number)) {
    return nullptr;
  }
  const Shape *row = x->shape(), *tile = border->shape();
  const bool is_row =
      row->rank() > 1 && IsRowOf(row, tile) && tile->dim(0) == parameter->shape()->dim(0);
  return is_row ? border : nullptr;
}

}  // namespace

void TakeRowsOutside(Module& module, const std::unordered_set<int64_t>& data) {
  RewriteModule(module, [&](Instruction* x, Rewriter& rewriter) -> Instruction* {
    const Instruction* border = x->parent() == module.entry() ? BorderOfRow(x, data) : nullptr;
    if (border == nullptr) return x;
    Builder& b = rewriter.builder();
    const Instruction* placed = border->operand(0);
    Instruction* parameter = rewriter.ValueOf(placed->operand(0));
    const int64_t first = x->attributes<SliceAttributes>().starts[0];
    Instruction* row = b.SliceDim(parameter, 0, first, first + 1);
    const Instruction* steps[] = {placed, border};
    for (const Instruction* step : steps) {
      Instruction* const operands[] = {row};
      const bool is_inside = step == border;
      row = b.CloneWith(step, operands, is_inside ? x->shape()->bare() : row->shape()->bare());
      row->set_sharding(step->sharding());
    }
    return row;
  });
}

}  // namespace gshard::pipeline
