// Rows of the batch that are mixed: mixup's `x[::-1]`, `x[perm]`, `jnp.roll(x, 1, 0)`; ranks and
// deviations of what the model says of each example.
//
// A micro-batch cannot compute such an operation from its own rows. Two kinds need not be:
//
//   1. Of examples, integers and random keys alone. It is computed on the whole batch, before the
//      micro-batches, and each of them takes its rows of what comes out:
//        mixed = reverse(x), dimensions={0}                                     cut like x
//        mixed = copy(whole(reverse(whole(x))))       the copy is cut, the others are not
//   2. Of what weights have met, where nothing that follows meets weights again, as of metrics that
//      a step returns. Rows of all examples are put together behind the micro-batches. No more of
//      an example is put together so than its parameters have.
//
// `whole` is a custom call that is its operand, and that partitioning does not look into.
#ifndef GSHARD_CORE_PIPELINE_ROWS_MIXED_ROWS_H_
#define GSHARD_CORE_PIPELINE_ROWS_MIXED_ROWS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "ir/diagnostic.h"
#include "ir/module.h"
#include "ir/traversal.h"

namespace gshard::pipeline {

bool IsWholeMark(const Instruction& x);
// Takes the custom calls out.
void DropWholeMarks(Module& module);

// E-PIPELINE-003 at `x`, which takes rows by their numbers: these are others where shards of the
// batch have micro-batches of their own.
Diagnostic RowsOfShards(const Module& module, const Instruction& x);
// E-PIPELINE-003 at `x`, rows of some examples that all others need.
Diagnostic PartOfRows(const Module& module, const Instruction& x);
// Says in `error` what to do about `x`, which mixes rows, `is_learned`: that weights have met.
void AddMixingHint(const Module& module, const Instruction& x, bool is_learned, Diagnostic& error);

class MixedRows {
 public:
  // `module`: calls inlined, without shardings. `dimension`: parameter of the entry -> its dim that
  // counts examples, in `parts` parts. `sums`: names of reductions over the batch that are to be
  // known behind the micro-batches if they are of the second kind.
  MixedRows(const Module& module, const std::map<int64_t, int64_t>& dimension, int64_t parts,
            const std::set<std::string>& sums = {});

  // Is there something of these kinds? Not of parts of the batch that do not come together to the
  // whole of it again, or to numbers, before weights meet them, such as a batch that is joined with
  // another one.
  bool CanBeWhole() const { return any_ && !meets_weights_; }
  // The first operation that mixes rows and is of neither kind; null: there is none.
  const Instruction* other() const {
    return others_.empty() ? (meets_weights_ ? part_ : nullptr) : others_[0];
  }
  bool IsLearned(const Instruction* x) const { return Of(x).is_learned; }
  // The first of them whose name is one of `sums`: of its rows each micro-batch has a part.
  const Instruction* OtherOf(const std::set<std::string>& sums) const;

  // The calls, copies and shardings above, in the module that was looked at, or a copy of it, to be
  // cut into `microbatches`. Propagation gives the other values theirs.
  void MakeWhole(Module& module, int64_t microbatches) const;

 private:
  struct Rows {
    int64_t dimension = -1;  // that counts examples; -1: none is known to
    int64_t size = 0;        // of the dim, if it has the whole batch
    bool is_learned = false, is_whole = false;
    bool IsPart(const Shape* shape) const {
      return dimension >= 0 && shape->IsArray() && shape->dim(dimension) != size;
    }
  };
  const Rows& Of(const Instruction* x) const { return rows_[x->id()]; }
  void FollowRows(const Instruction* x);
  void FollowMixed(const Instruction* x, Rows& own) const;
  void FollowRelated(const Instruction* x, Rows& own) const;
  bool MixesOperand(const Instruction* x, int64_t i) const;
  bool Mixes(const Instruction* x) const;
  bool CutsGroups(const Instruction* x) const;
  bool FindBehind(const Instruction* seed, const Users& users, int64_t most_bytes);
  void FindWhole(const Instruction* x);

  int64_t parts_;
  std::vector<Rows> rows_;                         // by id
  std::unordered_set<const Instruction*> behind_;  // of the second kind, and what follows
  bool any_ = false, meets_weights_ = false;
  std::vector<const Instruction*> others_;  // that weights have met
  const Instruction* part_ = nullptr;       // the first of examples alone
};

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_ROWS_MIXED_ROWS_H_
