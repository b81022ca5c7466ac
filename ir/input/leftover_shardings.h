// Shardings that XLA's partitioner leaves on a program that it has partitioned.
#ifndef GSHARD_IR_INPUT_LEFTOVER_SHARDINGS_H_
#define GSHARD_IR_INPUT_LEFTOVER_SHARDINGS_H_

#include "ir/module.h"

namespace gshard {

// In a dump between XLA's partitioner and the clean-up after it, instructions carry shardings that
// the partitioner worked with, of groups of devices too: `sharding={devices=[4,1]<=[4]}` in a
// program for eight. They say nothing of the program. Takes those away that do not fit the number
// of devices, if the entry's name is one that XLA's partitioner gives (`.._spmd`).
void DropLeftoverShardings(Module& module);

}  // namespace gshard

#endif  // GSHARD_IR_INPUT_LEFTOVER_SHARDINGS_H_
