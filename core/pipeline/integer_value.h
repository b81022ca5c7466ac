// Integer and pred scalars whose value follows from constants.
#ifndef GSHARD_CORE_PIPELINE_INTEGER_VALUE_H_
#define GSHARD_CORE_PIPELINE_INTEGER_VALUE_H_

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "ir/instruction.h"

namespace gshard::pipeline {

// Remembers what it has evaluated: operands before users, so that each question is one step. Wider
// than ConstantScalar (core/analysis/trip_count.h) by comparisons, selects and logic.
class IntegerValues {
 public:
  std::optional<int64_t> Evaluate(const Instruction* x);

 private:
  std::optional<int64_t> Compute(const Instruction* x);
  std::optional<int64_t> Binary(const Instruction* x, int64_t a, int64_t b) const;
  std::unordered_map<const Instruction*, std::optional<int64_t>> known_;
};

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_INTEGER_VALUE_H_
