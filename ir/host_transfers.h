// What exchanges data with the host: infeed, outfeed, send and recv with is_host_transfer.
#ifndef GSHARD_IR_HOST_TRANSFERS_H_
#define GSHARD_IR_HOST_TRANSFERS_H_

#include "ir/module.h"

namespace gshard {

bool IsHostTransfer(const Instruction& x);
// Also in what it calls.
bool HoldsHostTransfer(const Computation& computation);
bool HasHostTransfers(const Module& module);
// Are some elsewhere than in the entry?
bool HasNestedHostTransfers(const Module& module);

}  // namespace gshard

#endif  // GSHARD_IR_HOST_TRANSFERS_H_
