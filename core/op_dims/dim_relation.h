// How the dims of an operation's operands and results relate, as data.
//
// An operation is described by *factors*, as an einsum "ik,kj->ij" is by letters: each dim of each
// operand and result is a product of factors, major to minor, nearly always of one. Dims that share
// a factor can be cut alike; the factor's kind says what that costs. For example
//
//   dot       ([i, k], [k, j])->([i, j]) {i=8, j=32, k=16} reduction={k}
//   reshape   ([ij])->([i, j]) {i=2, j=4}
//   sort      ([i, j])->([i, j]) {i=4, j=9} need_replication={j}
//
// The factors, their kinds and their order are those of Shardy's sharding rules (its public
// documentation, "Propagation"; observed op by op, docs/propagation.md). Values of control flow
// (loops, branches, calls) relate by edges between values and have no factors.
//
// Users: Shardy's mode of propagation (core/propagation/shardy/), automatic sharding
// (core/autoshard/dim_names.h), the pipeliner (core/pipeline/plan/shard_rows.h) and the choice of
// arrays to compare (backends/cpu/verify/analysis/chain_ends.h). GSPMD's mode has rules and DotDims
// instead (core/propagation/rules.h, dot_dims.h), the partitioner Labels
// (core/partition/scope/strategy.h).
#ifndef GSHARD_CORE_OP_DIMS_DIM_RELATION_H_
#define GSHARD_CORE_OP_DIMS_DIM_RELATION_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "ir/instruction.h"

namespace gshard {

// What it takes to compute an operation whose dims are cut along a factor. The kind does not keep
// shardings from propagating along the factor, only Factor::blocked does; but Shardy's tiers 0 to 2
// use kPassThrough alone (core/propagation/shardy/engine.h).
enum class FactorKind : uint8_t {
  kPassThrough,      // nothing: each device computes its part
  kReduction,        // a sum (or another reduction) of the results over the devices
  kPermutation,      // elements of neighbours (halos), or of other devices in turn
  kNeedReplication,  // the whole dim on every device
};

struct Factor {
  int64_t size = 1;
  FactorKind kind = FactorKind::kPassThrough;
  bool blocked = false;  // shardings are not propagated along it
  bool operator==(const Factor&) const = default;
};

// The factors of one dim, as indices into DimRelation::factors, major to minor; never empty.
// Nearly all have one or two, which need no memory of their own.
class FactorList {
 public:
  FactorList() = default;
  FactorList(std::initializer_list<int> factors) {
    for (const int factor : factors) push_back(factor);
  }
  void push_back(int factor) {
    if (size_ < kOwn) {
      own_[size_] = factor;
    } else {
      if (size_ == kOwn) more_.assign(own_.begin(), own_.end());
      more_.push_back(factor);
    }
    ++size_;
  }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const int* begin() const { return size_ <= kOwn ? own_.data() : more_.data(); }
  const int* end() const { return begin() + size_; }
  int operator[](size_t i) const { return begin()[i]; }
  int front() const { return *begin(); }
  int back() const { return begin()[size_ - 1]; }
  bool operator==(const FactorList& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

 private:
  static constexpr size_t kOwn = 2;
  size_t size_ = 0;
  std::array<int, kOwn> own_{};
  std::vector<int> more_;  // all of them, if there are more than kOwn
};

struct DimRelation {
  std::vector<Factor> factors;
  // By operand (or leaf of the result's shape in pre-order) and dim. What is no array has no dims.
  std::vector<std::vector<FactorList>> operands, results;
  // False for operations whose dims do not relate at all: parameters, constants, unknown custom
  // calls, control flow. All dims then have factors of their own.
  bool relates = true;
};

// Returns the relation of any instruction. Pure; shapes and attributes must be verified. The
// product of a dim's factors is the dim's size except where sizes differ along one factor: a slice
// and what it is cut from share a factor of the larger size, a window and its base one of the
// result's.
DimRelation RelationOf(const Instruction& x);

// "([i, k], [k, j])->([i, j]) {i=8, j=32, k=16} reduction={k}", as Shardy prints its rules.
std::string ToString(const DimRelation& relation);
// Returns that text without sizes and kinds: "([i, k], [k, j])->([i, j])".
std::string DimsText(const DimRelation& relation);
// Returns the letter of a factor in these texts: i, j, .. z, i1, ..
std::string FactorName(int factor);

}  // namespace gshard

#endif  // GSHARD_CORE_OP_DIMS_DIM_RELATION_H_
