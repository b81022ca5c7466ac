// Gather and scatter: tiles pass along batching dims, along the batch dims of the indices, along
// dims proven parallel and along whole window dims.
#include "core/propagation/rules.h"
#include "ir/sharding_algebra.h"

namespace gshard {
namespace {

// Canonical `along` (docs/sharding.md, "Derived operations"); null source or empty list: null.
const Sharding* Along(const PropagationContext& c, const Sharding* s,
                      const std::vector<int64_t>& from, const std::vector<int64_t>& to,
                      int64_t rank) {
  if (s == nullptr || from.empty()) return nullptr;
  return c.derive().AlongDims(s, from, to, rank);
}

// Along the batch dims of the indices. Indices of one slice have none, and then it is replication.
const Sharding* AlongBatch(const PropagationContext& c, const Sharding* s,
                           const std::vector<int64_t>& from, const std::vector<int64_t>& to,
                           int64_t rank) {
  return s == nullptr ? nullptr : c.derive().AlongDims(s, from, to, rank);
}

// A source's sharding without its implicit parallel dims, along the whole window dims; null if no
// tile is left.
const Sharding* PassThrough(const PropagationContext& c, const Sharding* s,
                            const std::vector<int64_t>& parallel, const std::vector<int64_t>& from,
                            const std::vector<int64_t>& to, int64_t rank) {
  if (s == nullptr || !s->IsTiled()) return nullptr;
  const Sharding* kept = parallel.empty() ? s : c.derive().ReplicateOnDims(s, parallel);
  const Sharding* r = Along(c, kept, from, to, rank);
  return r != nullptr && r->TileCount() > 1 ? r : nullptr;
}

std::vector<int64_t> Joined(std::vector<int64_t> a, const std::vector<int64_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Backward: tiles along either part; what is replicated asks for replication.
const Sharding* CombineParallelAndPass(const PropagationContext& c, const Sharding* parallel,
                                       const Sharding* pass) {
  if (parallel == nullptr) return pass;
  if (pass == nullptr) return parallel;
  if (const Sharding* merged = c.derive().Merge(parallel, pass)) return merged;
  if (const Sharding* merged = c.derive().Merge(pass, parallel)) return merged;
  return parallel;
}

}  // namespace

void GatherForward(const PropagationContext& c, const Instruction& x, Offers& offers) {
  const GatherDims& d = c.parallel_dims().Of(x, c.computations());
  const Instruction* operand = x.operand(0);
  const Instruction* indices = x.operand(1);
  const Sharding* o = c.NotMaximal(operand);
  const Sharding* s = c.NotMaximal(indices);
  int64_t rank = x.shape()->rank();
  offers.Add(Along(c, o, d.Operand(false), d.Result(false), rank), operand, false);
  offers.Add(Along(c, s, d.Indices(false), d.Result(false), rank), indices, false);
  offers.Add(AlongBatch(c, s, d.indices_batch, d.result_batch, rank), indices, false);
  offers.Add(Along(c, o, d.Operand(true), d.Result(true), rank), operand, false);
  offers.Add(Along(c, s, d.Indices(true), d.Result(true), rank), indices, false);
  offers.Add(PassThrough(c, o, d.Operand(true), d.operand_pass, d.result_pass, rank), operand,
             false);
}

const Sharding* GatherBackward(const PropagationContext& c, const Instruction& user,
                               const Sharding* s, const Instruction& x) {
  const GatherDims& d = c.parallel_dims().Of(user, c.computations());
  int64_t rank = x.shape()->rank();
  if (OperandIndex(user, x) == 1) return AlongBatch(c, s, d.result_batch, d.indices_batch, rank);
  if (!s->IsTiled()) return s;
  const Sharding* parallel = Along(c, s, Joined(d.Result(false), d.Result(true)),
                                   Joined(d.Operand(false), d.Operand(true)), rank);
  const Sharding* pass = PassThrough(c, s, {}, d.result_pass, d.operand_pass, rank);
  return CombineParallelAndPass(c, parallel, pass);
}

void ScatterForward(const PropagationContext& c, const Instruction& x, Offers& offers) {
  const GatherDims& d = c.parallel_dims().Of(x, c.computations());
  int64_t n = x.operand_count() / 2;  // and one operand more, the indices
  const Instruction* indices = x.operand(n);
  const Sharding* s = c.NotMaximal(indices);
  bool updates_partitioned = s != nullptr;
  for (int64_t i = 0; i < n; ++i) {
    updates_partitioned = updates_partitioned || c.NotMaximal(x.operand(n + 1 + i)) != nullptr;
  }
  for (int64_t i = 0; i < n; ++i) {
    int64_t leaf = x.shape()->IsTuple() ? i : -1;
    const Instruction* operand = x.operand(i);
    const Instruction* update = x.operand(n + 1 + i);
    const Sharding* o = c.NotMaximal(operand);
    const Sharding* w = c.NotMaximal(update);
    int64_t rank = operand->shape()->rank();
    auto add_parallel = [&](bool implicit) {
      std::vector<int64_t> to = d.Operand(implicit);
      offers.Add(Along(c, o, to, to, rank), operand, false, leaf);
      offers.Add(Along(c, s, d.Indices(implicit), to, rank), indices, false, leaf);
      offers.Add(Along(c, w, d.Result(implicit), to, rank), update, false, leaf);
    };
    add_parallel(false);
    offers.Add(o, operand, false, leaf);
    if (!updates_partitioned) continue;
    add_parallel(true);
    const Sharding* pass = w != nullptr && w->IsReplicated()
                               ? w
                               : PassThrough(c, w, {}, d.result_pass, d.operand_pass, rank);
    offers.Add(pass, update, false, leaf);
  }
}

const Sharding* ScatterBackward(const PropagationContext& c, const Instruction& user,
                                const Sharding* s, const Instruction& x) {
  const GatherDims& d = c.parallel_dims().Of(user, c.computations());
  int64_t n = user.operand_count() / 2;  // and one operand more, the indices
  int64_t k = OperandIndex(user, x);
  int64_t rank = x.shape()->rank();
  if (k < n) return ResultElement(user, s, k);
  if (k == n) {
    std::vector<const Sharding*> wanted;
    for (int64_t i = 0; i < n; ++i) {
      const Sharding* w = c.NotMaximal(user.operand(n + 1 + i));
      if (const Sharding* r = AlongBatch(c, w, d.result_batch, d.indices_batch, rank)) {
        wanted.push_back(r);
      }
    }
    return wanted.empty() ? nullptr : CommonSharding(c.context(), wanted);
  }
  s = ResultElement(user, s, k - n - 1);
  const Sharding* parallel = Along(c, s, Joined(d.Operand(false), d.Operand(true)),
                                   Joined(d.Result(false), d.Result(true)), rank);
  const Sharding* pass = PassThrough(c, s, {}, d.operand_pass, d.result_pass, rank);
  const Sharding* wanted = CombineParallelAndPass(c, parallel, pass);
  const Sharding* by_indices =
      Along(c, c.NotMaximal(user.operand(n)), d.indices_batch, d.result_batch, rank);
  if (wanted != nullptr && by_indices != nullptr) {
    if (const Sharding* merged = c.derive().Merge(by_indices, wanted)) wanted = merged;
  }
  if (wanted != nullptr && wanted->IsTiled()) return wanted;
  return by_indices != nullptr && by_indices->IsTiled() ? by_indices : nullptr;
}

}  // namespace gshard
