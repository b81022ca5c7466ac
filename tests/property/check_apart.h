// Checks in processes of their own, several at a time, so that crashes and hangs are failures like
// others. The calling process must not have started threads.
#ifndef GSHARD_TESTS_PROPERTY_CHECK_APART_H_
#define GSHARD_TESTS_PROPERTY_CHECK_APART_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "tests/property/check.h"

namespace gshard::property {

// Sanitizers reserve more addresses than any machine has memory.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr uint64_t kMemoryGib = 0;
#else
inline constexpr uint64_t kMemoryGib = 4;
#endif

struct ApartOptions {
  int jobs = 1;
  unsigned seconds = 30;             // of processor time a case may take; longer is a "hang"
  size_t batch = 16;                 // cases that one process checks, one after another
  uint64_t memory_gib = kMemoryGib;  // addresses that a process may have; 0: any number
};

// check(number) for all numbers that `next` gives, until it gives none, in `jobs` processes.
// `report` is called in this process, in any order of numbers; false ends everything. A process
// that dies makes "crash: signal N" or "hang" of the case it was at.
void CheckApart(const ApartOptions& options, const std::function<std::optional<uint64_t>()>& next,
                const std::function<Verdict(uint64_t)>& check,
                const std::function<bool(uint64_t, const Verdict&)>& report);

}  // namespace gshard::property

#endif  // GSHARD_TESTS_PROPERTY_CHECK_APART_H_
