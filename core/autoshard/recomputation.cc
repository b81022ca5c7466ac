// See recomputation.h.

#include "core/autoshard/recomputation.h"

#include <algorithm>
#include <utility>

#include "core/autoshard/told_plan.h"
#include "core/remat/fit_to_memory.h"
#include "ir/printer.h"

namespace gshard::autoshard {
namespace {

// A program that gains less of the time is no faster.
constexpr double kLeastGain = 1e-3;

bool IsBetter(const StepFigures& a, const StepFigures& b, int64_t limit_bytes) {
  const auto fits = [&](const StepFigures& x) {
    return limit_bytes == 0 || x.peak_bytes <= limit_bytes;
  };
  if (fits(a) != fits(b)) return fits(a);
  return fits(a) ? a.step_time_s < b.step_time_s * (1 - kLeastGain) : a.peak_bytes < b.peak_bytes;
}

// Nothing where no value can be computed again.
Expected<std::optional<RecomputedProgram>> FittedTo(const std::string& text, int64_t limit_bytes,
                                                    const RecomputationOptions& options) {
  auto module = ParsePlan(text);
  if (!module) return Fail(std::move(module.error()));
  PassContext context;
  FitOptions fit;
  fit.limit_bytes = limit_bytes;
  fit.memory = MemoryOptionsOf(options.chip, options.cost);
  fit.cleanup = CleanupOf(options.chip);
  auto done = FitToMemory(**module, context, fit);
  if (!done) return Fail(std::move(done.error()));
  if (done->values == 0) return std::nullopt;
  RecomputedProgram made{PrintModule(**module), limit_bytes, {}};
  auto figures = options.price(made.text);
  if (!figures) return Fail(std::move(figures.error()));
  made.figures = *figures;
  return made;
}

// The same for a limit that nobody asked for: where it is not reached, what is reached is the
// limit, so that the command that makes the program succeeds.
Expected<std::optional<RecomputedProgram>> FittedNear(const std::string& text, int64_t limit_bytes,
                                                      const RecomputationOptions& options) {
  auto made = FittedTo(text, limit_bytes, options);
  const auto is_over = [&] {
    return made && *made && (*made)->figures.peak_bytes > (*made)->limit_bytes;
  };
  if (is_over()) made = FittedTo(text, (*made)->figures.peak_bytes, options);
  if (is_over()) return std::nullopt;
  return made;
}

}  // namespace

Expected<std::optional<RecomputedProgram>> BestRecomputed(const std::string& text,
                                                          const StepFigures& plain,
                                                          const RecomputationOptions& options) {
  std::optional<RecomputedProgram> best;
  const bool fits = options.limit_bytes == 0 || plain.peak_bytes <= options.limit_bytes;
  int64_t limit_bytes = fits ? plain.peak_bytes / 2 : options.limit_bytes;
  while (limit_bytes > 0) {
    auto made = limit_bytes == options.limit_bytes ? FittedTo(text, limit_bytes, options)
                                                   : FittedNear(text, limit_bytes, options);
    if (!made) return Fail(std::move(made.error()));
    if (!*made) break;
    const StepFigures& before = best ? best->figures : plain;
    if (!IsBetter((*made)->figures, before, options.limit_bytes)) break;
    best = *std::move(*made);
    limit_bytes = std::min(limit_bytes, best->figures.peak_bytes) / 2;
  }
  return best;
}

}  // namespace gshard::autoshard
