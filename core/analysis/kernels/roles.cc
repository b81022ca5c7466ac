// See roles.h.

#include "core/analysis/kernels/roles.h"

#include <array>

#include "ir/custom_call.h"
#include "ir/op_traits.h"

namespace gshard {
namespace {

// Of all but custom calls, which their targets tell.
KernelRole RoleOfOpcode(Opcode opcode) {
  switch (opcode) {
    case Opcode::kIota:
      return KernelRole::kCheap;
    case Opcode::kAfterAll:
    case Opcode::kGetDimensionSize:
    case Opcode::kSetDimensionSize:
      return KernelRole::kFree;
    case Opcode::kFusion:  // a kernel already
      return KernelRole::kOpaque;
    case Opcode::kAsyncUpdate:
    case Opcode::kAsyncDone:
    case Opcode::kCopyStart:  // beside kernels, by the copy engines
    case Opcode::kCopyDone:
      return KernelRole::kBoundary;
    case Opcode::kReduce:
    case Opcode::kReduceWindow:
      return KernelRole::kReduce;
    case Opcode::kScatter:
      return KernelRole::kUpdate;
    case Opcode::kDot:
    case Opcode::kConvolution:
      return KernelRole::kDot;
    default:  // by what it does with elements
      break;
  }
  if (IsElementwise(opcode)) return KernelRole::kElementwise;
  if (IsControlFlow(opcode) || InfoOf(opcode).family == "collectives") return KernelRole::kBoundary;
  switch (MotionOf(opcode)) {
    case Motion::kMakes:
    case Motion::kPacks:
    case Motion::kKeepsOrder:
      return KernelRole::kFree;
    case Motion::kRepeats:
      return KernelRole::kCheap;
    case Motion::kRearranges:
    case Motion::kTakes:
    case Motion::kGathers:
    case Motion::kJoins:
      return KernelRole::kMovement;
    case Motion::kUpdates:
      return KernelRole::kUpdate;
    case Motion::kComputes:
    case Motion::kChooses:
    case Motion::kExchanges:
      break;
  }
  return KernelRole::kOpaque;
}

}  // namespace

KernelRole KernelRoleOf(const Instruction* x) {
  static const std::array<KernelRole, kOpcodeCount> kRoles = [] {
    std::array<KernelRole, kOpcodeCount> roles;
    for (size_t i = 0; i < roles.size(); ++i) roles[i] = RoleOfOpcode(static_cast<Opcode>(i));
    return roles;
  }();
  if (x->opcode() != Opcode::kCustomCall) return kRoles[static_cast<size_t>(x->opcode())];
  const bool is_free = IsIdentityCall(*x) || IsCustomCallTo(*x, kAllocateBufferTarget) ||
                       IsCustomCallTo(*x, kConcatBitcastTarget);
  return is_free ? KernelRole::kFree : KernelRole::kOpaque;
}

}  // namespace gshard
