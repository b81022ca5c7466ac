// Independent pieces of work on several threads.
#ifndef GSHARD_CORE_ESTIMATE_PARALLEL_FOR_H_
#define GSHARD_CORE_ESTIMATE_PARALLEL_FOR_H_

#include <cstddef>
#include <functional>

namespace gshard {

// Returns `threads` if positive, else one per core.
int ThreadsOrCores(int threads);

// Calls work(index, thread) once for each index below `count`, thread < `threads`, several at a
// time; calls with the same thread never overlap. What one of them throws ends the rest and is
// thrown again here.
void ParallelFor(size_t count, int threads,
                 const std::function<void(size_t index, size_t thread)>& work);

}  // namespace gshard

#endif  // GSHARD_CORE_ESTIMATE_PARALLEL_FOR_H_
