// Integer and pred scalars whose value follows from constants.
#ifndef GSHARD_CORE_ANALYSIS_INTEGER_VALUE_H_
#define GSHARD_CORE_ANALYSIS_INTEGER_VALUE_H_

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "ir/instruction.h"

namespace gshard {

// Remembers what it has evaluated. Finds nothing at the end of long chains of operations
// (kDeepest): who asks about operands before users has every value.
class IntegerValues {
 public:
  // Of an integer or pred of one element that follows from constants alone, through operations of
  // ir/integer_operation.h, copies, tuples and slices of constants; nothing where it does not.
  std::optional<int64_t> Evaluate(const Instruction* x) { return Evaluate(x, 0); }

 private:
  static constexpr int kDeepest = 256;
  std::optional<int64_t> Evaluate(const Instruction* x, int depth);
  std::optional<int64_t> Compute(const Instruction* x, int depth);
  std::unordered_map<const Instruction*, std::optional<int64_t>> known_;
};

// One question to a new IntegerValues.
std::optional<int64_t> ConstantScalar(const Instruction* instruction);

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_INTEGER_VALUE_H_
