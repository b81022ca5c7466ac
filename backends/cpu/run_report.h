// The figures of a run, as text and as JSON of schema gshard.run/1 (docs/json.md).
#ifndef GSHARD_BACKENDS_CPU_RUN_REPORT_H_
#define GSHARD_BACKENDS_CPU_RUN_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/cpu/verify/verify.h"

namespace gshard::cpu {

struct RunReport {
  int64_t devices = 1;
  int threads = 1;
  double partition_time_s = 0;
  double plan_time_s = 0;
  std::vector<double> step_times_s;
  int64_t peak_memory_bytes = 0;
  int64_t flops = 0;
  int64_t partial_sum_bytes = 0;
  int64_t device_peak_bytes = 0;
  int64_t device_flops = 0;
  struct Collective {
    std::string kind;
    int64_t count = 0;
    int64_t bytes_per_device = 0;
  };
  std::vector<Collective> collectives;
  std::optional<VerifyResult> verify;
  bool interrupted = false;  // by the user: the figures are what was measured until then

  double MedianStepTime() const;
};

std::string ToJson(const RunReport& report);
std::string ToText(const RunReport& report);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_RUN_REPORT_H_
