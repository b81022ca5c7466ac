// What the fusion model does with an instruction, by its opcode. Pure; may be called from any
// thread.
#ifndef GSHARD_CORE_ANALYSIS_KERNELS_ROLES_H_
#define GSHARD_CORE_ANALYSIS_KERNELS_ROLES_H_

#include <cstdint>

#include "ir/module.h"

namespace gshard {

enum class KernelRole : uint8_t {
  kFree,         // parameters, tuples, reshapes: no kernel of their own
  kBoundary,     // collectives, control flow: what they use and make is in memory
  kCheap,        // broadcast, iota: computed wherever they are used
  kElementwise,  // one result element from one element of each operand
  kMovement,     // slices, gathers, transposes, ..: computed in their consumer
  kReduce,       // takes producers in, is written
  kUpdate,       // in-place update: takes producers in, is written
  kDot,          // dot, convolution
  kOpaque,       // a kernel of its own
};

KernelRole KernelRoleOf(const Instruction* x);

// An instruction's role, and whether it is its operand under another name.
struct KernelKind {
  KernelRole role = KernelRole::kOpaque;
  bool is_alias = false;
};

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_KERNELS_ROLES_H_
