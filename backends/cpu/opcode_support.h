// Who runs an opcode on the emulated mesh (ops/kernels.def), without the libraries behind the
// kernels: gshard-opt prints it (list-ops).
#ifndef GSHARD_BACKENDS_CPU_OPCODE_SUPPORT_H_
#define GSHARD_BACKENDS_CPU_OPCODE_SUPPORT_H_

#include "ir/opcode.h"

namespace gshard::cpu {

enum class OpcodeSupport : uint8_t {
  kNone,
  kKernel,      // a kernel in ops/
  kPlan,        // resolved when planning: values that are there already, tuples, control flow
  kCollective,  // between devices
  kHost,        // files in the place of a host
};

constexpr OpcodeSupport SupportOf(Opcode opcode) {
  switch (opcode) {
#define GSHARD_KERNEL(opcode, Factory) \
  case Opcode::opcode:                 \
    return OpcodeSupport::kKernel;
#define GSHARD_NO_KERNEL(opcode, support) \
  case Opcode::opcode:                    \
    return OpcodeSupport::support;
#include "backends/cpu/ops/kernels.def"
  }
  return OpcodeSupport::kNone;
}

constexpr const char* TextOf(OpcodeSupport support) {
  switch (support) {
    case OpcodeSupport::kNone:
      return "";
    case OpcodeSupport::kKernel:
      return "kernel";
    case OpcodeSupport::kPlan:
      return "plan";
    case OpcodeSupport::kCollective:
      return "collective";
    case OpcodeSupport::kHost:
      return "host";
  }
  return "";
}

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_OPCODE_SUPPORT_H_
