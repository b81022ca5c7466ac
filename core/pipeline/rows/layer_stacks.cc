#include "core/pipeline/rows/layer_stacks.h"

#include <algorithm>

#include "core/op_dims/dim_relation.h"
#include "ir/dims.h"

namespace gshard::pipeline {

const std::vector<const Instruction*>& LayerStacks::ParametersOf(const Instruction* x) {
  const auto [known, is_new] = parameters_.try_emplace(x);
  std::vector<const Instruction*>& found = known->second;
  if (!is_new || !x->shape()->IsArray() || x->shape()->rank() == 0) return found;
  if (x->opcode() == Opcode::kParameter) {
    found.push_back(x);
    return found;
  }
  const DimRelation relation = RelationOf(*x);
  const FactorList& rows = relation.results[0][0];
  if (!relation.relates || rows.size() != 1) return found;
  for (int64_t i = 0; i < x->operand_count(); ++i) {
    const Shape* shape = x->operand(i)->shape();
    const std::vector<FactorList>& dims = relation.operands[At(i)];
    if (dims.empty() || dims[0] != rows || shape->dim(0) != x->shape()->dim(0)) continue;
    for (const Instruction* parameter : ParametersOf(x->operand(i))) {
      if (std::ranges::find(found, parameter) == found.end()) found.push_back(parameter);
    }
  }
  return found;
}

}  // namespace gshard::pipeline
