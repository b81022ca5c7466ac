// Which dims of an array a gather, a scatter, a dynamic slice or update is indexed along.
#ifndef GSHARD_CORE_ANALYSIS_INDEXED_DIMS_H_
#define GSHARD_CORE_ANALYSIS_INDEXED_DIMS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/instruction.h"

namespace gshard {

// Of an instruction whose operand 0 is indexed.
struct IndexedDims {
  // Component c of an index vector is the start along dims[c], of sizes[c] elements.
  std::vector<int64_t> dims, sizes;
  int64_t first_operand = 0;  // with indices
  // Operand first_operand + c is the scalar component c; else operand first_operand has vectors.
  bool are_scalars = false;
  // Of operand first_operand, where the components of a vector lie; its rank: one component each.
  int64_t vector_dim = 0;
};

// Nothing of other opcodes.
std::optional<IndexedDims> IndexedDimsOf(const Instruction& x);

// Returns the number of slices that a gather or scatter moves; 0 of other instructions.
double IndexedSlices(const Instruction& x);

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_INDEXED_DIMS_H_
