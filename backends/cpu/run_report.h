// The figures of a run, as text and as JSON of schema gshard.run/1 (docs/json.md).
#ifndef GSHARD_BACKENDS_CPU_RUN_REPORT_H_
#define GSHARD_BACKENDS_CPU_RUN_REPORT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/machine/machine.h"
#include "backends/cpu/verify/index_coverage.h"
#include "backends/cpu/verify/verify.h"
#include "core/estimate/device_model.h"
#include "core/propagation/propagation.h"
#include "core/report/failed_check.h"

namespace gshard::cpu {

struct RunReport {
  Machine machine = ThisMachine();
  int64_t devices = 1;
  int threads = 1;
  PropagationMode propagated_as = PropagationMode::kByText;  // kByText: came partitioned
  double partition_time_s = 0;
  double plan_time_s = 0;
  std::vector<double> step_times_s;
  bool step_was_verified = false;  // as it ran, which took longer
  int64_t peak_memory_bytes = 0;
  int64_t flops = 0;
  int64_t partial_sum_bytes = 0;
  int64_t device_peak_bytes = 0;     // the emulator's schedule, nothing shared between devices
  std::optional<DeviceModel> model;  // gshard-cost's figures
  // Neighbouring devices that compute and hold the same, of the last step.
  struct DeviceGroup {
    int64_t first_device = 0, count = 0;
    int64_t flops = 0, peak_bytes = 0;
  };
  std::vector<DeviceGroup> device_groups;
  int64_t device_flops = 0;  // the most
  struct Collective {
    std::string kind;
    int64_t count = 0;
    int64_t bytes_per_device = 0;
  };
  std::vector<Collective> collectives;
  InputSummary inputs;
  std::optional<VerifyResult> verify;
  // With --verify, of random integers that index something: how often all was run, each time with
  // other ones, and how often it takes to reach every tile and both ends. The verdict, and
  // `inputs`, are of the draw that was worst, of equal ones the first.
  struct Draws {
    int64_t done = 1, wanted = 1;
    int64_t told = 0;
  };
  Draws draws;
  std::vector<NotExercised> not_exercised;  // with --verify, in all draws
  // Of several processes, each by its number.
  struct Rank {
    std::string host;
    int64_t memory_bytes = 0;
    double wait_s = 0;  // for other ranks, all steps together
    int64_t messages = 0, bytes = 0;
    int64_t shared_bytes = 0;  // of them, read in memory shared on the host

    std::string Pack() const;
    static Rank Unpack(const std::string& text);
  };
  std::vector<Rank> ranks;
  bool interrupted = false;  // by the user: the figures are what was measured until then

  double MedianStepTime() const;
  // What makes --verify fail; near ties only where they are to, and sums over micro-batches unless
  // they may.
  std::vector<FailedCheck> FailedChecks(bool fail_on_near_ties,
                                        bool allow_microbatch_sums = false) const;
};

// gshard.run/1 with the checks that failed. Of a program that was not run (`measured` is false) it
// has the same keys, and null where nothing was measured.
std::string ToJson(const RunReport& report, std::span<const FailedCheck> failed = {},
                   bool measured = true);
std::string ToText(const RunReport& report);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_RUN_REPORT_H_
