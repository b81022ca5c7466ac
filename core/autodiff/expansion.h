// Building blocks of rules that write an operation anew with simpler ones.
#ifndef GSHARD_CORE_AUTODIFF_EXPANSION_H_
#define GSHARD_CORE_AUTODIFF_EXPANSION_H_

#include <functional>
#include <vector>

#include "ir/builder.h"
#include "ir/diagnostic.h"

namespace gshard {

// The computation of scalars `scalar`, done on arrays element by element: the leaves of its root.
// `arguments` are arrays of one list of dims. E-GRAD-005 where it has operations that are not
// elementwise.
Expected<std::vector<Instruction*>> LiftComputation(Builder& builder, const Computation& scalar,
                                                    std::span<Instruction* const> arguments);

// while (i < trips) state = body(i, state): values after the last iteration. `i` is s32.
using LoopBody = std::function<Expected<std::vector<Instruction*>>(
    Builder& body, Instruction* i, std::span<Instruction* const> state)>;
Expected<std::vector<Instruction*>> BuildLoop(Builder& builder, int64_t trips,
                                              std::span<Instruction* const> init,
                                              const LoopBody& body);

}  // namespace gshard

#endif  // GSHARD_CORE_AUTODIFF_EXPANSION_H_
