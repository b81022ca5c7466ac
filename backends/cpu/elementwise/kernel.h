// What the plan compiles an instruction to.
//
// All buffers are dense, row-major, StorageBytes(dtype) an element (sub-byte types one a byte) and
// aligned to the element's own size only: operands may be views into larger buffers, so use
// unaligned loads. Layouts of the text are ignored. A kernel is immutable after construction: any
// number of threads run it at once on different buffers. Results never alias operands unless the
// plan chose an in-place operand that the kernel allows.
//
// The only method a kernel must have is Run. The others let the executor
//   RunRange  split one big instance between threads, and run chains of elementwise work tile by
//             tile while the temporaries are in cache (fusion without code generation);
//   RunShare  the same where ranges would do work twice;
//   RunSteps  the same where every part of the result needs all of the operand;
//   RunBatch  hand over many devices' instances in one call (flat elementwise loops over all of
//             them, stacked small dots).
// All ways of running must give the same bits.
#ifndef GSHARD_BACKENDS_CPU_ELEMENTWISE_KERNEL_H_
#define GSHARD_BACKENDS_CPU_ELEMENTWISE_KERNEL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "backends/cpu/memory/scratch.h"
#include "ir/diagnostic.h"
#include "ir/instruction.h"

namespace gshard::cpu {

using ConstBuffers = std::span<const std::byte* const>;
using Buffers = std::span<std::byte* const>;

// One operand or result over the instances of a batch.
struct BatchOperand {
  static constexpr int64_t kUneven = -1;
  const std::byte* const* items = nullptr;  // one pointer an instance
  int64_t stride = kUneven;                 // bytes from item to item: 0 if all are the same buffer
};
struct BatchResult {
  std::byte* data = nullptr;  // instance i is at data + i * stride
  int64_t stride = 0;         // at least the result's bytes; equal: the instances are dense
};

// Pieces of work: [begin, end) of some items.
struct Range {
  int64_t begin = 0, end = 0;
};
// (count, granule, body): cuts `count` items into pieces of whole granules and runs
// body(piece, scratch of its thread) for all of them at once; returns when they are done.
using PieceRunner = std::function<void(int64_t count, int64_t granule,
                                       const std::function<void(Range, Scratch&)>& body)>;

class Kernel {
 public:
  virtual ~Kernel() = default;
  // One pointer per operand / per result leaf (tuple-shaped results: leaves in order).
  virtual void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const = 0;

  // True if the buffer of `operand` may serve as result 0 (same bytes; read before or while
  // written). Run, RunRange and RunBatch then see equal pointers.
  virtual bool InPlace(int64_t operand) const {
    (void)operand;
    return false;
  }

  // --- ranges of the result's elements (row-major; all result leaves have the same count)
  // 0: only whole instances. Else RunRange takes any [first, first + count) whose ends are
  // multiples of the granule (or the end): 1 for elementwise work, a row of the result for a dot,
  // ..
  virtual int64_t RangeGranule() const { return 0; }
  // True if RunRange reads of `operand` just the elements with the same flat indices as the result
  // elements it writes (elementwise); its pointer then points at element `first`. Otherwise the
  // pointer is that of the whole operand. (Result pointers always point at element `first`.)
  virtual bool IsElementwiseIn(int64_t operand) const {
    (void)operand;
    return false;
  }
  virtual void RunRange(int64_t first, int64_t count, ConstBuffers operands, Buffers results,
                        Scratch& scratch) const;

  // --- parts of one instance that are no ranges (columns): more than one is preferred to ranges.
  // RunShare of every share, in any order and at once, is Run. Pointers are those of whole buffers.
  virtual int64_t ShareCount() const { return 1; }
  virtual void RunShare(int64_t share, ConstBuffers operands, Buffers results,
                        Scratch& scratch) const;

  // --- one instance in steps, one after the other, each of pieces that run at once: preferred to
  // ranges and shares. Pointers are those of whole buffers; `scratch` is the caller's.
  virtual bool RunsInSteps() const { return false; }
  virtual void RunSteps(const PieceRunner& run, ConstBuffers operands, Buffers results,
                        Scratch& scratch) const;

  // --- many instances at once. The default loops over Run.
  virtual void RunBatch(int64_t count, std::span<const BatchOperand> operands,
                        std::span<const BatchResult> results, Scratch& scratch) const;

  // --- result 0 of many instances added up without being stored (f32 and f64): partial sums
  virtual bool SumsBatch() const { return false; }
  // sum (+)= result 0 of every instance. Only where SumsBatch says so.
  virtual void RunSum(int64_t count, std::span<const BatchOperand> operands, bool accumulate,
                      std::byte* sum, Scratch& scratch) const;

  // Floating-point operations of one Run, for reports; and to judge what is worth splitting.
  virtual int64_t Flops() const { return 0; }
};

// True if operand 0 is the only use of its value: a kernel that writes it in place before it has
// read the others may then take it over.
inline bool FirstOperandIsUnique(const Instruction& instruction) {
  for (int64_t i = 1; i < instruction.operand_count(); ++i) {
    if (instruction.operand(i) == instruction.operand(0)) return false;
  }
  return true;
}

// Builds the kernel of one non-collective, non-control-flow, non-tuple instruction. Operand and
// result shapes come from the instruction, which must outlive the kernel. Errors: what this
// instruction asks that no CPU can do (E-RUN-*).
using KernelFactory = Expected<std::unique_ptr<Kernel>> (*)(const Instruction& instruction);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_ELEMENTWISE_KERNEL_H_
