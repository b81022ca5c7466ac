// For analyses that evaluate elements of integer arrays (ir/integer_operation.h).
#ifndef GSHARD_CORE_ANALYSIS_INTEGER_ELEMENTS_H_
#define GSHARD_CORE_ANALYSIS_INTEGER_ELEMENTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "ir/instruction.h"

namespace gshard {

// An array of integers or preds whose values fit int64_t: u64 does not count.
bool IsIntegral(const Shape* shape);

// Row-major position of an index, and back.
int64_t RowMajor(std::span<const int64_t> dims, std::span<const int64_t> index);
std::vector<int64_t> IndexAt(std::span<const int64_t> dims, int64_t at);

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_INTEGER_ELEMENTS_H_
