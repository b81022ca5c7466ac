// Dims of a gather or scatter along which operand and indices run in parallel.
//
// Explicit ones are batching dims; implicit ones are found where an index component is provably an
// iota along a dim of the indices (docs/propagation.md, "Implicit parallel dims").
#ifndef GSHARD_CORE_PROPAGATION_PARALLEL_DIMS_H_
#define GSHARD_CORE_PROPAGATION_PARALLEL_DIMS_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "core/propagation/computation_map.h"
#include "ir/instruction.h"

namespace gshard {

// Gather and scatter seen alike. `result` is the gather's result or a scatter's updates, `operand`
// what is read or written.
struct GatherDims {
  struct Parallel {
    int64_t operand = 0, indices = 0, result = 0;
  };
  std::vector<Parallel> explicit_dims, implicit_dims;
  // Dims of the indices without the index vector dim, and the dims of the result they make.
  std::vector<int64_t> indices_batch, result_batch;
  // Whole operand dims and where they are in the result.
  std::vector<int64_t> operand_pass, result_pass;

  std::vector<int64_t> Operand(bool implicit) const;
  std::vector<int64_t> Indices(bool implicit) const;
  std::vector<int64_t> Result(bool implicit) const;
};

// The graph decides these once and for all, so they are computed once per gather or scatter.
class ParallelDimsCache {
 public:
  const GatherDims& Of(const Instruction& gather_or_scatter, const ComputationMap& computations);

 private:
  std::unordered_map<const Instruction*, GatherDims> cache_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_PROPAGATION_PARALLEL_DIMS_H_
