// Values that a program computes and uses alike, as those of layers that are written out are.
#ifndef GSHARD_CORE_AUTOSHARD_ALIKE_VALUES_H_
#define GSHARD_CORE_AUTOSHARD_ALIKE_VALUES_H_

#include <vector>

#include "ir/module.h"
#include "ir/traversal.h"

namespace gshard::autoshard {

// By round and instruction id: a number for each instruction. Two instructions have the same number
// in round R if the opcodes and shapes of all that lies within R steps of them, through operands
// and users, are the same (colour refinement). There are a few rounds only, so that most layers
// look like those beside them. Names play no part.
using KindsByRound = std::vector<std::vector<int>>;
KindsByRound KindsByUse(const Module& module, const Users& users);

// Disjoint sets of these values that are alike, of at least `least` values each, those of the last
// rounds first. What differs from all, such as the weights of the first and the last layer, is of
// the set that it is like in an earlier round, if that is one alone.
std::vector<std::vector<const Instruction*>> AlikeValues(
    const std::vector<const Instruction*>& values, const KindsByRound& kinds, size_t least);

// True if a product reads the value as it is, or its elements moved or converted.
bool FeedsProduct(const Instruction* x, const Users& users);

}  // namespace gshard::autoshard

#endif  // GSHARD_CORE_AUTOSHARD_ALIKE_VALUES_H_
