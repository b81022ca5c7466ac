// Dot and everything that contracts like one: batch and free dims pass, contracting dims do not.
#include "core/propagation/dot_dims.h"
#include "core/propagation/improvement.h"
#include "ir/sharding_algebra.h"

namespace gshard {
namespace {

bool Contains(Dims dims, int64_t d) {
  for (int64_t x : dims) {
    if (x == d) return true;
  }
  return false;
}

// Collects a partial map between two of {lhs, rhs, output}; dims that have no place in the target
// are replicated before mapping.
struct DimMap {
  std::vector<int64_t> to;
  std::vector<int64_t> drop;
  explicit DimMap(int64_t source_rank) : to(static_cast<size_t>(source_rank), -1) {}
  void Add(const std::vector<DotDims::Dim>& dims, int64_t DotDims::Dim::*from,
           int64_t DotDims::Dim::*target) {
    for (const DotDims::Dim& d : dims) {
      if (d.*from >= 0 && d.*target >= 0) to[static_cast<size_t>(d.*from)] = d.*target;
    }
  }
  const Sharding* Apply(Context& ctx, const Sharding* s, int64_t target_rank) {
    if (!s->IsTiled()) return s;
    for (size_t i = 0; i < to.size(); ++i) {
      if (to[i] < 0) drop.push_back(static_cast<int64_t>(i));
    }
    const Sharding* kept = drop.empty() ? s : ReplicateOnDims(ctx, s, drop);
    if (!kept->IsTiled()) return kept;
    return MapDims(ctx, kept, to, target_rank);
  }
};

const Sharding* OperandToOutput(Context& ctx, const Instruction& x, const DotDims& dims,
                                int64_t operand, const Sharding* s) {
  DimMap map(x.operand(operand)->shape()->rank());
  auto from = operand == 0 ? &DotDims::Dim::lhs : &DotDims::Dim::rhs;
  map.Add(dims.batch, from, &DotDims::Dim::output);
  map.Add(operand == 0 ? dims.lhs_free : dims.rhs_free, from, &DotDims::Dim::output);
  return map.Apply(ctx, s, x.shape()->rank());
}

// What the nearest sharded instruction down a chain of single users would ask of `x`; null if the
// chain forks or ends first.
const Sharding* LookAhead(const RuleContext& c, const Instruction& x) {
  std::vector<const Instruction*> chain = {&x};
  while (chain.size() == 1 || c.of(chain.back()) == nullptr) {
    std::span<Instruction* const> users = c.users(chain.back());
    if (users.size() != 1) return nullptr;
    chain.push_back(users[0]);
  }
  const Sharding* s = c.of(chain.back());
  for (size_t i = chain.size() - 1; i > 0 && s != nullptr; --i) {
    s = RuleOf(chain[i]->opcode()).backward(c, *chain[i], s, *chain[i - 1]);
    if (s != nullptr) s = s->canonical;
  }
  return s;
}

}  // namespace

DotDims DotDimsOf(const Instruction& dot) {
  const DotAttributes& a = dot.attributes<DotAttributes>();
  DotDims dims;
  int64_t output = 0;
  for (size_t i = 0; i < a.lhs_batch.size(); ++i) {
    dims.batch.push_back({a.lhs_batch[i], a.rhs_batch[i], output++});
  }
  for (size_t i = 0; i < a.lhs_contracting.size(); ++i) {
    dims.contracting.push_back({a.lhs_contracting[i], a.rhs_contracting[i], -1});
  }
  for (int64_t d = 0; d < dot.operand(0)->shape()->rank(); ++d) {
    if (!Contains(a.lhs_batch, d) && !Contains(a.lhs_contracting, d)) {
      dims.lhs_free.push_back({d, -1, output++});
    }
  }
  for (int64_t d = 0; d < dot.operand(1)->shape()->rank(); ++d) {
    if (!Contains(a.rhs_batch, d) && !Contains(a.rhs_contracting, d)) {
      dims.rhs_free.push_back({-1, d, output++});
    }
  }
  return dims;
}

void DotLikeForward(const RuleContext& c, const Instruction& x, const DotDims& dims,
                    Offers& offers) {
  Context& ctx = c.context();
  const Sharding* current = c.of(&x);
  const Sharding* candidate[2] = {nullptr, nullptr};
  for (int64_t k = 0; k < 2; ++k) {
    const Sharding* s = c.Partitioned(x.operand(k));
    if (s == nullptr) continue;
    const Sharding* mapped = OperandToOutput(ctx, x, dims, k, s);
    if (mapped == nullptr) continue;
    mapped = mapped->canonical;
    if (Improve(ctx, x.shape(), current, mapped, c.may_combine(), false) != nullptr) {
      candidate[k] = mapped;
    }
  }
  int first = 0;
  if (candidate[0] != nullptr && candidate[1] != nullptr) {
    first = x.operand(0)->shape()->byte_size() < x.operand(1)->shape()->byte_size() ? 1 : 0;
    if (const Sharding* ahead = LookAhead(c, x)) {
      bool refines[2];
      for (int k = 0; k < 2; ++k) refines[k] = IsSubTiling(ahead, candidate[k], x.shape());
      if (refines[0] != refines[1]) first = refines[0] ? 0 : 1;
    }
  }
  offers.Add(candidate[first], x.operand(first), false);
  offers.Add(candidate[1 - first], x.operand(1 - first), false);
}

const Sharding* DotLikeBackward(const RuleContext& c, const Instruction& user, const DotDims& dims,
                                const Sharding* s, const Instruction& x) {
  Context& ctx = c.context();
  int64_t k = OperandIndex(user, x);
  if (k > 1) return nullptr;
  auto mine = k == 0 ? &DotDims::Dim::lhs : &DotDims::Dim::rhs;
  auto theirs = k == 0 ? &DotDims::Dim::rhs : &DotDims::Dim::lhs;
  DimMap from_output(user.shape()->rank());
  from_output.Add(dims.batch, &DotDims::Dim::output, mine);
  from_output.Add(k == 0 ? dims.lhs_free : dims.rhs_free, &DotDims::Dim::output, mine);
  const Sharding* asked = from_output.Apply(ctx, s, x.shape()->rank());
  const Instruction* other = user.operand(1 - k);
  const Sharding* other_sharding = c.Partitioned(other);
  if (other_sharding == nullptr) return asked;
  DimMap from_other(other->shape()->rank());
  from_other.Add(dims.batch, theirs, mine);
  from_other.Add(dims.contracting, theirs, mine);
  const Sharding* matching = from_other.Apply(ctx, other_sharding, x.shape()->rank());
  if (matching == nullptr) return asked;
  if (asked == nullptr) return matching;
  const Sharding* merged =
      MergeIntoOffer(ctx, asked->canonical, matching->canonical, c.may_combine());
  return merged != nullptr ? merged : asked;
}

void DotForward(const RuleContext& c, const Instruction& x, Offers& offers) {
  DotLikeForward(c, x, DotDimsOf(x), offers);
}

const Sharding* DotBackward(const RuleContext& c, const Instruction& user, const Sharding* s,
                            const Instruction& x) {
  return DotLikeBackward(c, user, DotDimsOf(user), s, x);
}

}  // namespace gshard
