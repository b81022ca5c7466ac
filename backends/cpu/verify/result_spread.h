// How the results of a per-device program form whole arrays, where its text does not say: XLA's
// compiled text has per-device shapes and no word on how its results are spread.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_RESULT_SPREAD_H_
#define GSHARD_BACKENDS_CPU_VERIFY_RESULT_SPREAD_H_

#include <functional>
#include <span>
#include <vector>

#include "backends/cpu/run/mesh_run.h"
#include "ir/module.h"

namespace gshard::cpu {

// The shardings over `partitions` devices that cut an array of dims `whole` into shards of dims
// `local`, fewest surprises first: `reference`, the sharding that the reference's result has (null:
// not known), be it unreduced; those of the module's parameters that do; then whole axes of the
// device number, major ones first. At most kMaxSpreads and `reference`, none if the shapes do not
// fit.
inline constexpr size_t kMaxSpreads = 256;
std::vector<const Sharding*> SpreadsThatFit(const Module& module, int64_t partitions,
                                            std::span<const int64_t> local,
                                            std::span<const int64_t> whole,
                                            const Sharding* reference = nullptr);

// After a run: gives each result that lies stacked, but is an array of `expected`'s dims, the
// sharding of those that fit under which it is nearest to it. `reference`: of the reference's
// results, by leaf. A note says which were taken.
void FindResultSpreads(MeshRun& run, const Module& module, const std::vector<OutputArray>& expected,
                       std::span<const Sharding* const> reference,
                       const std::function<void(const Diagnostic&)>& note);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_RESULT_SPREAD_H_
