// Plans in which values are computed again: less memory, and often less time, since what a loop or
// a layer saves for the backward pass is not written and read back.
#ifndef GSHARD_CORE_AUTOSHARD_RECOMPUTATION_H_
#define GSHARD_CORE_AUTOSHARD_RECOMPUTATION_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/cost/chip.h"
#include "core/cost/cost_report.h"
#include "core/estimate/device_program.h"

namespace gshard::autoshard {

struct RecomputedProgram {
  std::string text;         // HLO
  int64_t limit_bytes = 0;  // that `gshard-opt remat --limit` made it with
  StepFigures figures;
};

struct RecomputationOptions {
  int64_t limit_bytes = 0;  // of a device; 0: none
  Chip chip;
  CostOptions cost;  // those that `price` prices by
  // Prices HLO. Called on the thread that asks.
  std::function<Expected<StepFigures>(const std::string& text)> price;
};

// Returns the best program that rematerialization (core/remat) makes of the HLO `text`, or nothing
// if none is better than `text` itself, whose figures are `plain`. A program that fits is better
// than one that does not; of two that fit the faster one, of two that do not the smaller one. Where
// `text` does not fit, it is fitted to the limit first; from there, or from `text`, it is fitted to
// half the peak as long as that makes it better. Errors: those of FitToMemory and of `price`.
Expected<std::optional<RecomputedProgram>> BestRecomputed(const std::string& text,
                                                          const StepFigures& plain,
                                                          const RecomputationOptions& options);

}  // namespace gshard::autoshard

#endif  // GSHARD_CORE_AUTOSHARD_RECOMPUTATION_H_
