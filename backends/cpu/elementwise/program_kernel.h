// Kernels that run an elementwise program: single elementwise instructions, broadcasts, iotas, and
// groups of them fused by the plan.
#ifndef GSHARD_BACKENDS_CPU_ELEMENTWISE_PROGRAM_KERNEL_H_
#define GSHARD_BACKENDS_CPU_ELEMENTWISE_PROGRAM_KERNEL_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/cpu/elementwise/elementwise_program.h"
#include "backends/cpu/elementwise/kernel.h"

namespace gshard::cpu {

class ProgramKernel : public Kernel {
 public:
  // `program` is built. sources[k]: the kernel operand that program input k reads.
  ProgramKernel(ElementwiseProgram program, std::vector<int32_t> sources, int64_t element_count,
                std::vector<int64_t> operand_bytes, std::vector<int64_t> result_bytes);

  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override;
  bool InPlace(int64_t operand) const override;
  int64_t RangeGranule() const override { return 1; }
  bool IsElementwiseIn(int64_t operand) const override;
  void RunRange(int64_t first, int64_t count, ConstBuffers operands, Buffers results,
                Scratch& scratch) const override;
  void RunBatch(int64_t count, std::span<const BatchOperand> operands,
                std::span<const BatchResult> results, Scratch& scratch) const override;
  int64_t Flops() const override { return count_ * program_.FlopsPerElement(); }

 private:
  ElementwiseProgram program_;
  std::vector<int32_t> sources_;
  int64_t count_;
  std::vector<uint8_t> moves_;          // per operand
  std::vector<uint8_t> in_place_;       // per operand
  std::vector<int64_t> operand_bytes_;  // an element of each operand
  std::vector<int64_t> result_bytes_;   // an element of each result
  bool position_matters_ = false;       // iotas and views: instances cannot be run as one
};

// One instruction of a fused group and where its operands come from: operand k is the result of
// member operands[k], or, if that is negative, external value -1 - operands[k].
struct FusedMember {
  const Instruction* instruction = nullptr;  // null: a value that is known
  std::vector<int32_t> operands;
  DType dtype = DType::kPred;  // of the known value, and each of its elements
  std::span<const std::byte> element;
};

// One kernel for a group of instructions. `members` are in definition order and all of
// `element_count` elements (or scalars, which become uniform). Kernel operands: the externals in
// order, of which only the shapes matter here; results: the members numbered in `outputs`, in
// order.
Expected<std::unique_ptr<Kernel>> MakeFusedElementwise(std::span<const FusedMember> members,
                                                       std::span<const Shape* const> externals,
                                                       std::span<const int32_t> outputs,
                                                       int64_t element_count);

// The kernel of one instruction that CanFuseElementwise.
Expected<std::unique_ptr<Kernel>> MakeSingleElementwise(const Instruction& instruction);

// May `instruction` be a member of such a group? Elementwise operations, maps over one computation,
// iotas, scalar or splat constants; reshapes and bitcasts that keep the type; broadcasts, whose
// operand must then be an external or a scalar member.
bool CanFuseElementwise(const Instruction& instruction);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_ELEMENTWISE_PROGRAM_KERNEL_H_
