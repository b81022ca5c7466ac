// A program with the shardings of a few instructions replaced, and its price. The module is not
// read again for it, and no pattern is matched: a search tries hundreds. Whether the update of
// weights is cut (ZeRO) is DeviceProgramOptions::weight_update_sharding.
#ifndef GSHARD_CORE_ESTIMATE_PLAN_H_
#define GSHARD_CORE_ESTIMATE_PLAN_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "core/estimate/device_program.h"

namespace gshard {

// Threads that search together each parse the same text, so instruction ids are the same in all
// their copies; shardings are made in each copy's own Context.
struct PlannedSharding {
  uint32_t instruction = 0;            // its id in the whole program
  const Sharding* sharding = nullptr;  // of the program's context; null: none, propagation decides
};

// Returns a copy of `whole` in which these shardings replace its own. The last one counts if an
// instruction has several.
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
