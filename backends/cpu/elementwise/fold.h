// The reduction of an all-reduce or reduce-scatter: many buffers folded into one, by a tree that
// follows from each member's position alone, so that the result is the same whoever computes which
// part of it.
//
//   members   m0 m1 .. m31 | m32 .. m63 | m64 .. m95     blocks of kMembersPerBlock
//   blocks        b0       |     b1     |     b2         each folded from left to right
//   tree               (b0 b1)               b2          neighbours, pair by pair; a last one waits
//                            ((b0 b1) b2)
//
// Known art: binary-tree summation with fixed shape (Stelz et al., "Core-count independent
// reproducible reduction", ReproRed); blocks also keep rounding errors of sums small.
#ifndef GSHARD_BACKENDS_CPU_ELEMENTWISE_FOLD_H_
#define GSHARD_BACKENDS_CPU_ELEMENTWISE_FOLD_H_

#include <cstdint>
#include <memory>
#include <span>

#include "backends/cpu/elementwise/kernel.h"

namespace gshard::cpu {

inline constexpr uint32_t kMembersPerBlock = 32;

// f is the computation. bf16 and 8-bit floats are accumulated in f32 and rounded once, at the end.
class Fold {
 public:
  virtual ~Fold() = default;
  // The tree over all members, at least one; `block` of them to a block. `result` may be members[0]
  // and aliases no other.
  virtual void Run(int64_t count, std::span<const std::byte* const> members, uint32_t block,
                   std::byte* result, Scratch& scratch) const = 0;
  // result[i] = f(.. f(members[0][i], members[1][i]) .., members.back()[i]); where
  // AccumulatesInPlace, also in several calls, the result so far first. Aliases as in Run.
  void RunInOrder(int64_t count, std::span<const std::byte* const> members, std::byte* result,
                  Scratch& scratch) const {
    Run(count, members, UINT32_MAX, result, scratch);
  }

  // --- the same in parts. A partial result has elements of this size.
  virtual int64_t partial_bytes() const = 0;
  // A block, or the rest of one that was begun elsewhere: `begun` (null: nothing) goes first. May
  // be `partial`.
  virtual void RunPart(int64_t count, const std::byte* begun,
                       std::span<const std::byte* const> members, std::byte* partial,
                       Scratch& scratch) const = 0;
  // left = f(left, right)
  virtual void Merge(int64_t count, std::byte* left, const std::byte* right,
                     Scratch& scratch) const = 0;
  virtual void Finish(int64_t count, const std::byte* partial, std::byte* result) const = 0;
};

// True if folding in several calls, each continuing with the result of the one before, gives what
// one call gives.
bool AccumulatesInPlace(DType dtype);

// `to_apply` takes (accumulated, next) and gives the new accumulated value, all scalars of `dtype`.
Expected<std::unique_ptr<Fold>> MakeFold(const Computation& to_apply, DType dtype);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_ELEMENTWISE_FOLD_H_
