// Slice, pad, concatenate, reverse, dynamic-slice and dynamic-update-slice: ranks stay, sizes
// change. Static slices and pads keep the tiling whatever the sizes; dynamic ones keep whole dims.
#include "core/propagation/rules.h"

namespace gshard {
namespace {

std::vector<int64_t> DifferingDims(const Shape* a, const Shape* b) {
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < a->rank(); ++d) {
    if (a->dim(d) != b->dim(d)) dims.push_back(d);
  }
  return dims;
}

bool IsReshapedBlock(const Instruction* x) {
  if (x->opcode() != Opcode::kReshape) return false;
  Opcode source = x->operand(0)->opcode();
  return source == Opcode::kParameter || source == Opcode::kGetTupleElement;
}

}  // namespace

void ConcatenateForward(const PropagationContext& c, const Instruction& x, Offers& offers) {
  if (c.level() == 0) {
    // Only blocks of parameters that all leave the joined dim whole: stacking them moves nothing.
    int64_t dimension = x.attributes<DimensionsAttributes>().dimensions[0];
    for (const Instruction* operand : x.operands()) {
      const Sharding* s = c.of(operand);
      if (!IsReshapedBlock(operand) || s == nullptr || s->TileCount() <= 1 ||
          s->TileCount(dimension) > 1) {
        return;
      }
    }
  }
  MostSpecificForward(c, x, offers);
}

const Sharding* ConcatenateBackward(const PropagationContext& c, const Instruction&,
                                    const Sharding* s, const Instruction&) {
  return c.level() >= 1 ? s : nullptr;
}

const Sharding* SliceBackward(const PropagationContext&, const Instruction&, const Sharding* s,
                              const Instruction&) {
  return s;
}

const Sharding* PadBackward(const PropagationContext&, const Instruction& user, const Sharding* s,
                            const Instruction& x) {
  return user.operand(0) == &x ? s : nullptr;
}

void ReverseForward(const PropagationContext& c, const Instruction& x, Offers& offers) {
  const Sharding* s = c.NotMaximal(x.operand(0));
  if (s == nullptr) return;
  offers.Add(c.derive().Reverse(s, x.attributes<DimensionsAttributes>().dimensions), x.operand(0),
             true);
}

const Sharding* ReverseBackward(const PropagationContext& c, const Instruction& user,
                                const Sharding* s, const Instruction&) {
  return c.derive().Reverse(s, user.attributes<DimensionsAttributes>().dimensions);
}

void DynamicSliceForward(const PropagationContext& c, const Instruction& x, Offers& offers) {
  const Instruction* operand = x.operand(0);
  const Sharding* s = c.NotMaximal(operand);
  if (s == nullptr) return;
  offers.Add(c.derive().ReplicateOnDims(s, DifferingDims(operand->shape(), x.shape())), operand,
             true);
}

const Sharding* DynamicSliceBackward(const PropagationContext& c, const Instruction& user,
                                     const Sharding* s, const Instruction& x) {
  if (c.level() < 1) return nullptr;
  if (s->IsReplicated()) return s;
  if (user.operand(0) != &x) return nullptr;
  return c.derive().ReplicateOnDims(s, DifferingDims(x.shape(), user.shape()));
}

void DynamicUpdateSliceForward(const PropagationContext& c, const Instruction& x, Offers& offers) {
  const Instruction* operand = x.operand(0);
  const Instruction* update = x.operand(1);
  if (const Sharding* s = c.NotMaximal(update)) {
    offers.Add(c.derive().ReplicateOnDims(s, DifferingDims(update->shape(), x.shape())), update,
               true);
  }
  offers.Add(c.NotMaximal(operand), operand, false);
}

const Sharding* DynamicUpdateSliceBackward(const PropagationContext& c, const Instruction& user,
                                           const Sharding* s, const Instruction& x) {
  if (c.level() < 1) return nullptr;
  if (s->IsReplicated() || user.operand(0) == &x) return s;
  if (user.operand(1) != &x) return nullptr;
  return c.derive().ReplicateOnDims(s, DifferingDims(x.shape(), user.shape()));
}

}  // namespace gshard
