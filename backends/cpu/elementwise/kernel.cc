// Default ways of running many instances or a range: one whole instance after another.
#include "backends/cpu/elementwise/kernel.h"

#include <vector>

namespace gshard::cpu {

void Kernel::RunRange(int64_t first, int64_t count, ConstBuffers operands, Buffers results,
                      Scratch& scratch) const {
  (void)count;
  CheckInternal(first == 0, "RunRange of a kernel that runs whole instances only");
  Run(operands, results, scratch);
}

void Kernel::RunShare(int64_t share, ConstBuffers operands, Buffers results,
                      Scratch& scratch) const {
  CheckInternal(share == 0, "RunShare of a kernel that has one share only");
  Run(operands, results, scratch);
}

void Kernel::RunSteps(const PieceRunner& run, ConstBuffers operands, Buffers results,
                      Scratch& scratch) const {
  (void)run;
  Run(operands, results, scratch);
}

void Kernel::RunBatch(int64_t count, std::span<const BatchOperand> operands,
                      std::span<const BatchResult> results, Scratch& scratch) const {
  constexpr size_t kInline = 16;
  const std::byte* operand_storage[kInline];
  std::byte* result_storage[kInline];
  std::vector<const std::byte*> operand_vector;
  std::vector<std::byte*> result_vector;
  const std::byte** operand_items = operand_storage;
  std::byte** result_items = result_storage;
  if (operands.size() > kInline) {
    operand_vector.resize(operands.size());
    operand_items = operand_vector.data();
  }
  if (results.size() > kInline) {
    result_vector.resize(results.size());
    result_items = result_vector.data();
  }
  const Scratch::Mark mark = scratch.Position();
  for (int64_t i = 0; i < count; ++i) {
    scratch.Rewind(mark);
    for (size_t k = 0; k < operands.size(); ++k) operand_items[k] = operands[k].items[i];
    for (size_t k = 0; k < results.size(); ++k) {
      result_items[k] = results[k].data + i * results[k].stride;
    }
    Run({operand_items, operands.size()}, {result_items, results.size()}, scratch);
  }
}

void Kernel::RunSum(int64_t, std::span<const BatchOperand>, bool, std::byte*, Scratch&) const {
  throw InternalError("RunSum of a kernel that does not sum");
}

}  // namespace gshard::cpu
