// The reduction of an all-reduce or reduce-scatter: many buffers folded into one, member by member
// in the order given, so that the result is the same whoever computes it.
#ifndef GSHARD_BACKENDS_CPU_ELEMENTWISE_FOLD_H_
#define GSHARD_BACKENDS_CPU_ELEMENTWISE_FOLD_H_

#include <cstdint>
#include <memory>
#include <span>

#include "backends/cpu/elementwise/kernel.h"

namespace gshard::cpu {

class Fold {
 public:
  virtual ~Fold() = default;
  // result[i] = f(.. f(members[0][i], members[1][i]) .., members.back()[i]); at least one member;
  // `result` may be members[0] and aliases no other. bf16 is accumulated in f32 and rounded once.
  virtual void Run(int64_t count, std::span<const std::byte* const> members, std::byte* result,
                   Scratch& scratch) const = 0;
};

// True if folding in several calls, each continuing with the result of the one before, gives what
// one call gives.
bool AccumulatesInPlace(DType dtype);

// `to_apply` takes (accumulated, next) and gives the new accumulated value, all scalars of `dtype`.
Expected<std::unique_ptr<Fold>> MakeFold(const Computation& to_apply, DType dtype);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_ELEMENTWISE_FOLD_H_
