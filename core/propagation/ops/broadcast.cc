// Broadcast: new dims are never tiled by the operand, and what tiles them says nothing about it.
#include "core/propagation/rules.h"
#include "ir/sharding_algebra.h"

namespace gshard {
namespace {

std::vector<int64_t> NewDims(const Instruction& broadcast) {
  std::vector<bool> mapped(static_cast<size_t>(broadcast.shape()->rank()), false);
  for (int64_t d : broadcast.attributes<DimensionsAttributes>().dimensions) {
    mapped[static_cast<size_t>(d)] = true;
  }
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < broadcast.shape()->rank(); ++d) {
    if (!mapped[static_cast<size_t>(d)]) dims.push_back(d);
  }
  return dims;
}

}  // namespace

void BroadcastForward(const RuleContext& c, const Instruction& x, Offers& offers) {
  const Instruction* operand = x.operand(0);
  const Sharding* s = c.Partitioned(operand);
  if (s == nullptr || s->IsReplicated()) return;
  // Operand dim i becomes result dim dimensions[i]; the order of dims may change.
  if (s->IsTiled()) {
    s = MapDims(c.context(), s, x.attributes<DimensionsAttributes>().dimensions,
                x.shape()->rank());
  }
  offers.Add(s, operand, true);
}

const Sharding* BroadcastBackward(const RuleContext& c, const Instruction& user, const Sharding* s,
                                  const Instruction& x) {
  if (!s->IsTiled()) return s;
  Context& ctx = c.context();
  std::vector<int64_t> new_dims = NewDims(user);
  const Sharding* kept = ReplicateOnDims(ctx, s, new_dims);
  if (!kept->IsTiled()) return kept;
  Dims dimensions = user.attributes<DimensionsAttributes>().dimensions;
  std::vector<int64_t> to_operand(static_cast<size_t>(user.shape()->rank()), -1);
  for (size_t i = 0; i < dimensions.size(); ++i) {
    to_operand[static_cast<size_t>(dimensions[i])] = static_cast<int64_t>(i);
  }
  return MapDims(ctx, kept, to_operand, x.shape()->rank());
}

}  // namespace gshard
