// The figures of a gshard.cost/1 document: what two of them are compared by (core/report/
// cost_diff.h), be it written a moment ago or by last week's build.
#ifndef GSHARD_CORE_REPORT_COST_FIGURES_H_
#define GSHARD_CORE_REPORT_COST_FIGURES_H_

#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "ir/diagnostic.h"

namespace gshard {

struct CostFigures {
  struct Collectives {
    double count = 0;             // executions in one step
    double bytes_per_device = 0;  // sent
    double time_s = 0;
  };
  struct Tensor {
    double bytes = 0;
    std::string source;  // "file.py:12"
  };
  struct Work {
    double count = 0, flops = 0, bytes = 0, time_s = 0;
  };
  using CollectiveKey =
      std::tuple<std::string, std::string, std::string>;  // kind, "data+model", why

  std::string module, chip;
  double devices = 1;
  double step_time_s = 0, compute_time_s = 0, exposed_communication_s = 0;
  double flops_per_device = 0, hbm_bytes_per_device = 0, mfu = 0;
  double peak_bytes = 0, argument_bytes = 0, output_bytes = 0, temp_bytes = 0;
  // Sent by one device, by the axes of the collectives: "model", "data+model"; "-" for those that
  // follow no axes.
  std::map<std::string, double> bytes_by_axes;
  std::map<CollectiveKey, Collectives> collectives;
  // Alive at the memory peak, by op_name, else by name without its number; equal ones are summed.
  std::map<std::string, Tensor> tensors;
  std::map<std::string, Work> opcodes;
};

// Is this text a gshard.cost document rather than a program?
bool IsCostDocument(std::string_view text);

// `file` stands in errors (E-COST-020): no JSON, another schema, a report of a run that failed.
Expected<CostFigures> ReadCostFigures(std::string_view json, const std::string& file);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_COST_FIGURES_H_
