// What the plan compiles an instruction to, and the table opcode -> factory.
//
// All buffers are dense, row-major, StorageBytes(dtype) an element (sub-byte types one a byte), 64-byte
// aligned; layouts of the text are ignored. A kernel is immutable after construction: any number of
// threads run it at once on different buffers. Results never alias operands unless the plan chose an
// in-place operand that the kernel allows.
#ifndef GSHARD_BACKENDS_CPU_KERNEL_H_
#define GSHARD_BACKENDS_CPU_KERNEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "ir/diagnostic.h"
#include "ir/instruction.h"

namespace gshard::cpu {

// Per-thread bump memory for temporaries of one Run call; freed when it returns.
class Scratch {
 public:
  virtual ~Scratch() = default;
  virtual std::byte* Allocate(size_t bytes) = 0;  // 64-byte aligned, uninitialised
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  // One pointer per operand / per result leaf (tuple-shaped results: leaves in order).
  virtual void Run(std::span<const std::byte* const> operands, std::span<std::byte* const> results,
                   Scratch& scratch) const = 0;
  // Operand whose buffer may serve as result 0 (same bytes, read before or while written); -1: none.
  virtual int InPlaceOperand() const { return -1; }
  // Floating-point operations of one Run, for reports.
  virtual int64_t Flops() const { return 0; }
};

// Builds the kernel of one non-collective, non-control-flow, non-tuple instruction. Operand and result
// shapes come from the instruction. Errors: what this instruction asks that no CPU can do (E-RUN-*).
using KernelFactory = Expected<std::unique_ptr<Kernel>> (*)(const Instruction& instruction);

// Null for opcodes that the executor itself handles (control flow, tuples, collectives, parameters).
KernelFactory KernelFactoryOf(Opcode opcode);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_KERNEL_H_
