// What changed from one program to another: time, memory, traffic by axes, collectives by cause,
// tensors at the memory peak, opcodes. `gshard-cost diff`.
#ifndef GSHARD_CORE_REPORT_COST_DIFF_H_
#define GSHARD_CORE_REPORT_COST_DIFF_H_

#include <span>
#include <string>
#include <vector>

#include "core/report/cost_figures.h"
#include "core/report/failed_check.h"

namespace gshard {

struct BeforeAfter {
  double before = 0, after = 0;
  double Change() const { return after - before; }
};

struct CostDiff {
  struct Total {
    std::string key;    // of gshard.cost/1: "step_time_s"; "peak_bytes" is that of its memory
    std::string label;  // "step time"
    BeforeAfter value;
  };
  struct Traffic {
    std::string axes;
    BeforeAfter bytes_per_device;
  };
  struct Collectives {
    std::string kind, axes, cause;
    BeforeAfter count, bytes_per_device, time_s;
  };
  struct Tensor {
    std::string name, source;
    BeforeAfter bytes;
  };
  struct Work {
    std::string opcode;
    BeforeAfter count, flops, bytes, time_s;
  };

  std::string before_name, after_name;  // files
  CostFigures before, after;
  std::vector<Total> totals;     // all, changed or not
  std::vector<Traffic> traffic;  // all axes
  // Only what changed, the largest change (of bytes; of time, then FLOPs, for opcodes) first.
  std::vector<Collectives> collectives;
  std::vector<Tensor> tensors;
  std::vector<Work> opcodes;
};

CostDiff DiffCosts(std::string before_name, CostFigures before, std::string after_name,
                   CostFigures after);

// At most `top` rows a list.
std::string CostDiffAsText(const CostDiff& diff, size_t top = 12);
// For a pull request's comment.
std::string CostDiffAsMarkdown(const CostDiff& diff, size_t top = 12);
// gshard.diff/1; all rows, and the conditions of `--check` that do not hold.
std::string CostDiffAsJson(const CostDiff& diff, std::span<const FailedCheck> failed = {});

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_COST_DIFF_H_
