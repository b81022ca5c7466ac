// Probes: points of a program where a run shows a value to an observer.
//
// A probe is an operation without result that reads the value: it is shown once each time its
// computation runs, and nothing overwrites it before. A chain without fused accumulators over
// one class shows its probes one after another; other chains prepare all of theirs first, since
// blocks of classes run depth first.
#ifndef GSHARD_BACKENDS_CPU_PLAN_PROBE_H_
#define GSHARD_BACKENDS_CPU_PLAN_PROBE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "ir/instruction.h"

namespace gshard::cpu {

inline constexpr uint32_t kNoProbe = UINT32_MAX;

// Shows the array `shown` once `after`, the same instruction or a later one of its computation,
// has run.
struct ProbePoint {
  const Instruction* shown = nullptr;
  const Instruction* after = nullptr;
};

class ProbeObserver {
 public:
  virtual ~ProbeObserver() = default;
  // Before values of these probes are shown, from the running thread. False ends the run.
  virtual bool Prepare(std::span<const uint32_t> probes) = 0;
  // Prepared: is the value looked at at all? Others need not be brought here.
  virtual bool Wants(uint32_t /*probe*/) const { return true; }
  // Instance `c` of the probed value (a class of Program::probed's value): part `part` of `parts`,
  // which the observer may cut as it likes. From any thread, several at once.
  virtual void Show(uint32_t probe, uint32_t c, std::byte* data, int64_t part, int64_t parts) = 0;
  // All active instances have been shown. From the running thread. Where probes are shown one after
  // another the observer may write other values into the instance: what follows is computed from
  // them.
  virtual void Finish(std::span<const uint32_t> probes) = 0;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_PLAN_PROBE_H_
