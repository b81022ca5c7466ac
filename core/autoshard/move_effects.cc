// See move_effects.h.

#include "core/autoshard/move_effects.h"

#include <algorithm>
#include <cmath>

#include "ir/dims.h"

namespace gshard::autoshard {
namespace {

// A change that made every plan slower by so much is hopeless.
constexpr double kHopeless = 1.1;
// A change that left so many plans in a row as they were is without effect.
constexpr int kWithoutEffect = 2;

}  // namespace

MoveEffects::MoveEffects(const PlanSpace& space) {
  for (const Group& group : space.groups()) effects_.emplace_back(group.options.size());
}

void MoveEffects::Note(size_t group, int option, const PlanFigures& before,
                       const std::optional<PlanFigures>& after) {
  Effect& effect = effects_[group][At(option)];
  effect.last_slowdown = HUGE_VAL;
  effect.growth = 1;
  if (after) {
    effect.last_slowdown = after->step.step_time_s / before.step.step_time_s;
    effect.growth =
        static_cast<double>(after->step.peak_bytes) / static_cast<double>(before.step.peak_bytes);
  }
  effect.least_slowdown = std::min(effect.least_slowdown, effect.last_slowdown);
  const bool is_same = effect.last_slowdown == 1 && effect.growth == 1;
  effect.without_effect = is_same ? effect.without_effect + 1 : 0;
  effect.is_known = true;
}

bool MoveEffects::IsHopeless(size_t group, int option) const {
  const Effect& effect = effects_[group][At(option)];
  return effect.is_known && effect.least_slowdown >= kHopeless;
}

bool MoveEffects::IsWithoutEffect(size_t group, int option) const {
  return effects_[group][At(option)].without_effect >= kWithoutEffect;
}

std::optional<PlanFigures> MoveEffects::Expect(size_t group, int option,
                                               const PlanFigures& before) const {
  const Effect& effect = effects_[group][At(option)];
  if (!effect.is_known) return std::nullopt;
  PlanFigures expected = before;
  expected.step.step_time_s *= effect.last_slowdown;
  expected.step.peak_bytes =
      std::llround(static_cast<double>(before.step.peak_bytes) * effect.growth);
  return expected;
}

}  // namespace gshard::autoshard
