#include "ir/host_transfers.h"

#include <algorithm>

namespace gshard {
namespace {

bool HasSome(const Computation& computation) {
  const auto all = computation.instructions();
  return std::any_of(all.begin(), all.end(),
                     [](const Instruction* x) { return IsHostTransfer(*x); });
}

}  // namespace

bool IsHostTransfer(const Instruction& x) {
  switch (x.opcode()) {
    case Opcode::kInfeed:
    case Opcode::kOutfeed:
      return true;
    case Opcode::kSend:
    case Opcode::kSendDone:
    case Opcode::kRecv:
    case Opcode::kRecvDone:
      return x.attributes<ChannelAttributes>().is_host_transfer;
    default:  // no transfer
      return false;
  }
}

bool HoldsHostTransfer(const Computation& computation) {
  for (const Instruction* x : computation.instructions()) {
    if (IsHostTransfer(*x)) return true;
    for (const Computation* called : x->called()) {
      if (HoldsHostTransfer(*called)) return true;
    }
  }
  return false;
}

bool HasHostTransfers(const Module& module) {
  const auto all = module.computations();
  return std::any_of(all.begin(), all.end(), [](const Computation* c) { return HasSome(*c); });
}

bool HasNestedHostTransfers(const Module& module) {
  const auto all = module.computations();
  return std::any_of(all.begin(), all.end(),
                     [&](const Computation* c) { return c != module.entry() && HasSome(*c); });
}

}  // namespace gshard
