#include "core/pipeline/emit/manual_borders.h"

#include <algorithm>
#include <vector>

#include "ir/custom_call.h"
#include "ir/dims.h"
#include "ir/sharding_algebra.h"

namespace gshard::pipeline {
namespace {

// Of operations between a constant and its use; beyond, it counts as any other value.
constexpr int kDeepestConstant = 8;

bool IsMadeOfNothing(const Instruction* x, int depth) {
  if (x->opcode() == Opcode::kConstant || x->opcode() == Opcode::kIota) return true;
  if (depth == 0 || x->operand_count() == 0) return false;
  return std::ranges::all_of(x->operands(), [depth](const Instruction* operand) {
    return IsMadeOfNothing(operand, depth - 1);
  });
}

}  // namespace

const Sharding* ManualBorders::Here(const Shape* shape, const Sharding* s) const {
  Context& context = shardings_->context();
  if (shape->IsTuple()) {
    const std::vector<const Shape*> shapes = LeafShapes(shape);
    const std::vector<const Sharding*> given = LeafShardings(shape, s);
    std::vector<const Sharding*> leaves;
    for (size_t i = 0; i < shapes.size(); ++i) leaves.push_back(Here(shapes[i], given[i]));
    return context.TupleOf(leaves);
  }
  const int64_t rank = shape->IsArray() ? shape->rank() : 0;
  return where_ == Where::kStage ? shardings_->Inside(rank, s) : shardings_->Outside(rank, s, -1);
}

Instruction* ManualBorders::Marker(Builder& b, std::string_view target, Instruction* x,
                                   const Shape* shape, const Sharding* s) const {
  CustomCallAttributes attributes;
  attributes.target = target;
  Instruction* const operands[] = {x};
  Instruction* border = b.Add(Opcode::kCustomCall, operands, attributes, shape);
  border->set_sharding(Here(shape, s));
  return border;
}

Instruction* ManualBorders::OperandOf(Builder& b, const Instruction* x, const Instruction* of,
                                      Instruction* made) const {
  const bool is_border =
      regions_->Enters(x) || (regions_->Leaves(x) && regions_->OperandSharding(x) != nullptr);
  const bool comes_in = regions_->IsInside(x) && !regions_->IsInside(of) &&
                        made->shape()->IsArray() && !IsMadeOfNothing(made, kDeepestConstant);
  if (!is_border && !comes_in) return made;
  if (const std::string_view open = regions_->OpenDimsOfOperand(x); !open.empty()) {
    Instruction* call =
        Marker(b, kShardingTarget, made, made->shape(), regions_->OperandSharding(x));
    call->set_backend_config(open);
    return call;
  }
  Instruction* copy = b.Add(Opcode::kCopy, {made}, made->shape());
  copy->set_sharding(Here(made->shape(), is_border ? regions_->OperandSharding(x) : nullptr));
  if (is_border) return copy;
  return Marker(b, kEnterManualTarget, copy, made->shape(),
                regions_->InsideSharding(shardings_->context(), x, made->shape()->rank()));
}

const Shape* ManualBorders::HandedOn(const Instruction* x) const {
  return regions_->IsInside(x) ? regions_->WholeShape(shardings_->context(), x) : x->shape();
}

Instruction* ManualBorders::HandOn(Builder& b, const Instruction* x, Instruction* local) const {
  if (!regions_->IsInside(x)) return local;
  const int64_t one[] = {1};
  if (x->shape()->rank() == 0) local = b.Reshape(local, one);
  return Marker(b, kLeaveManualTarget, local, HandedOn(x),
                regions_->WholeSharding(shardings_->context(), x));
}

Instruction* ManualBorders::Take(Builder& b, const Instruction* x, Instruction* handed_on) const {
  if (!regions_->IsInside(x)) return handed_on;
  Context& context = shardings_->context();
  Instruction* copy = b.Add(Opcode::kCopy, {handed_on}, handed_on->shape());
  copy->set_sharding(Here(copy->shape(), regions_->WholeSharding(context, x)));
  const int64_t one[] = {1};
  const bool is_scalar = x->shape()->rank() == 0;
  const Shape* shape = is_scalar ? context.Array(x->shape()->dtype(), one) : x->shape()->bare();
  Instruction* local = Marker(b, kEnterManualTarget, copy, shape,
                              regions_->InsideSharding(context, x, shape->rank()));
  return is_scalar ? b.Reshape(local, {}) : local;
}

}  // namespace gshard::pipeline
