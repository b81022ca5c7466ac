// Runs a plan on the emulated mesh: holds the arena and the threads.
#ifndef GSHARD_BACKENDS_CPU_RUN_EXECUTOR_H_
#define GSHARD_BACKENDS_CPU_RUN_EXECUTOR_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/cpu/memory/memory.h"
#include "backends/cpu/plan/plan.h"
#include "backends/cpu/run/active_set.h"
#include "backends/cpu/run/chain_runner.h"
#include "backends/cpu/run/device_tally.h"
#include "backends/cpu/run/rank_runner.h"
#include "backends/cpu/run/trace.h"
#include "backends/cpu/run/workers.h"

namespace gshard::cpu {

struct RunOptions {
  bool check_nan = false;
  Trace* trace = nullptr;
  ProbeObserver* observer = nullptr;  // of the program's probes
  // Set by a signal handler: the run stops before the next operation or step.
  const std::atomic<bool>* stop = nullptr;
  // Called with the share done (by an estimate of the work) after steps, from the running thread.
  std::function<void(double)> progress;
};

struct CollectiveTotals {
  int64_t count = 0;
  int64_t bytes_per_device = 0;
};

// What the last run did.
struct RunCounts {
  int64_t flops = 0;                                    // by the emulator
  std::vector<DeviceWork> devices;                      // by device of the mesh
  int64_t partial_sum_bytes = 0;                        // folded by reductions, of all devices
  std::map<std::string, CollectiveTotals> collectives;  // by opcode text
};

class Executor {
 public:
  // Allocates the arena and writes the known values into it. `ranks`: of a plan that several
  // processes run; outlives this.
  explicit Executor(const Plan& plan, mpi::Ranks* ranks = nullptr);

  // Instance c of entry parameter leaf `leaf`, to be filled before Run; kept from run to run.
  std::byte* Parameter(size_t leaf, uint32_t c);
  // A result's or kept value's instance on a device, after Run.
  const std::byte* Result(ValueId value, uint32_t device) const;

  // Errors: E-RUN-DEADLOCK, E-RUN-NAN, E-RUN-STOPPED.
  Expected<void> Run(const RunOptions& options);

  // Null: all devices run here.
  RankRunner* ranks() { return ranks_.get(); }
  const RankRunner* ranks() const { return ranks_.get(); }

  const RunCounts& counts() const { return counts_; }
  const Plan& plan() const { return plan_; }
  // Bytes of all the emulator's buffers.
  int64_t memory_bytes() const;

 private:
  Expected<void> RunBlock(uint32_t block, ActiveSet* active);
  Expected<void> RunStep(const ChainStep& step, ActiveSet* active);
  Expected<void> RunStep(const CollectiveStep& step, ActiveSet* active);
  Expected<void> RunStep(const WhileStep& step, ActiveSet* active);
  Expected<void> RunStep(const ConditionalStep& step, ActiveSet* active);
  Expected<void> RunStep(const RngStateStep& step, ActiveSet* active);
  std::optional<BadValue> FindBadValue(const CollectiveStep& step, ActiveSet* active);
  tl::unexpected<Diagnostic> NanError(const Instruction& x, const Shape* shape, int64_t element,
                                      uint32_t device) const;
  // With check_nan, before and after the steps.
  Expected<void> CheckParameters();
  Expected<void> CheckResults();
  tl::unexpected<Diagnostic> NotFiniteError(const BadValue& bad) const;
  // What each class with an active device decides.
  template <typename Read>
  std::vector<int64_t> ReadSelectors(const BufferRef& ref, const DeviceClasses* classes,
                                     ActiveSet* active, const Op* op, Read read);
  std::unique_ptr<ActiveSet> MakeActiveSet(std::vector<uint8_t> devices) const;
  void RunCopies(std::span<const Copy> copies, ActiveSet* active);
  // Bytes touched and arithmetic, in a common measure; loops by their trip counts where those are
  // known.
  static double WorkOf(const ChainStep& step);
  static double WorkOf(const CollectiveStep& step);
  double WorkOfBlock(uint32_t block) const;
  void Progress(double work);
  bool IsStopped() const {
    return options_.stop != nullptr && options_.stop->load(std::memory_order_relaxed);
  }

  const Plan& plan_;
  MappedRegion arena_;
  Workers workers_;
  ChainRunner chains_;
  std::unique_ptr<RankRunner> ranks_;
  RunOptions options_;
  RunCounts counts_;
  DeviceTally tally_;
  double total_work_ = 0, done_work_ = 0, reported_work_ = 0;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_RUN_EXECUTOR_H_
