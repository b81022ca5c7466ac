// A sum of all-reduces over the iterations of a loop is reduced once, after the loop.
#ifndef GSHARD_CORE_TRANSFORMS_COLLECTIVES_WHILE_LOOP_ALL_REDUCE_CODE_MOTION_H_
#define GSHARD_CORE_TRANSFORMS_COLLECTIVES_WHILE_LOOP_ALL_REDUCE_CODE_MOTION_H_

#include <cstdint>

#include "ir/module.h"

namespace gshard {

// Gradient accumulation is `total += all-reduce(g)`, turn by turn. As an all-reduce is linear, each
// device may add up its own g instead, its part, from zero, and the whole is reduced once behind
// the loop and added to the initial value: what is sent no longer grows with the number of turns.
// Sums are added in another order. That holds for every linear way from one turn's total to the
// next, if all devices of a group take the same one:
//
//   total - all-reduce(g)          0.9 * total + all-reduce(g)         total + all-reduce(g) / 8
//   total + f32(all-reduce(bf16))  rows of `total` updated by all-reduces
//   total + reduce(all-reduce(g), 0, add)
//   total + h, where a loop in the turn writes all-reduces into the rows of h
//   total + reduce-scatter(g)      total + all-gather(g): what is carried then is of g's shape
//
// What a reduce-scatter adds up takes the room of its operand meanwhile. All but the last line may
// stand in branches, as pipelines add up gradients (docs/pipelining.md). True if something changed.
// For each sum linear in the size of the body.
//
// Values of the body that are a device's part from now on keep their names with `PartNames::kOwn`;
// with kNew they get new ones, so that nobody takes them for what these names stand for in the
// program before: that is how `gshard-run --verify` finds what to compare.
enum class PartNames : uint8_t { kOwn, kNew };
bool MoveAllReducesOutOfLoops(Module& module, PartNames names = PartNames::kOwn);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_COLLECTIVES_WHILE_LOOP_ALL_REDUCE_CODE_MOTION_H_
