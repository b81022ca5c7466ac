// What a program is tried with: shardings of a few instructions, and whether the update of weights
// is cut. The module is not read again for it, and no pattern is matched: a search tries hundreds.
#ifndef GSHARD_CORE_ESTIMATE_PLAN_H_
#define GSHARD_CORE_ESTIMATE_PLAN_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "core/estimate/device_program.h"

namespace gshard {

struct PlannedSharding {
  uint32_t instruction = 0;            // its id in the whole program
  const Sharding* sharding = nullptr;  // of the program's context; null: none, propagation decides
};

// A copy of `whole` with these shardings in the place of its own. What is planned twice has the
// last.
std::unique_ptr<Module> WithShardings(const Module& whole,
                                      const std::vector<PlannedSharding>& shardings);

struct PlanFigures {
  StepFigures step;
  // Results that take the place of arguments (input_output_alias) lie as those do: what a step
  // returns can be given to the next one as it is.
  bool returns_state_alike = true;
};

// One evaluation: copy, annotate, propagate, partition, clean, price. `whole` stays as it is, but
// its context learns shapes and shardings. Errors: those of MakeDeviceProgram and PriceProgram.
Expected<PlanFigures> PricePlan(const Module& whole, const std::vector<PlannedSharding>& shardings,
                                const Chip& chip, const DeviceProgramOptions& program,
                                const CostOptions& cost);

}  // namespace gshard

#endif  // GSHARD_CORE_ESTIMATE_PLAN_H_
