// What changes of one group did to the plans they were tried on, and what they may do to another.
//
// docs/auto.md ("Moves", "Down to the limit"): quick passes leave out changes that had no effect
// and, near the end of a search, those that made every plan much slower; quick descents try those
// first that are expected to do most good. Not thread-safe.
#ifndef GSHARD_CORE_AUTOSHARD_MOVE_EFFECTS_H_
#define GSHARD_CORE_AUTOSHARD_MOVE_EFFECTS_H_

#include <cmath>
#include <optional>
#include <vector>

#include "core/autoshard/plan_space.h"
#include "core/estimate/plan.h"

namespace gshard::autoshard {

class MoveEffects {
 public:
  explicit MoveEffects(const PlanSpace& space);

  // Group `group` got its option `option` in the plan that had the figures `before`, and `after`
  // since; nothing: it could not be partitioned.
  void Note(size_t group, int option, const PlanFigures& before,
            const std::optional<PlanFigures>& after);

  // True if the change was tried and made every plan at least a tenth slower.
  bool IsHopeless(size_t group, int option) const;

  // True if the change left step time and peak as they were the last two times it was tried.
  bool IsWithoutEffect(size_t group, int option) const;

  // Step time and peak of a plan with the figures `before` after that change, if it does to them
  // what it did to the last plan it was tried on. Nothing if it was never tried.
  std::optional<PlanFigures> Expect(size_t group, int option, const PlanFigures& before) const;

 private:
  struct Effect {
    bool is_known = false;
    double least_slowdown = HUGE_VAL;      // what it ever multiplied a step time by
    double last_slowdown = 0, growth = 0;  // what it multiplied time and peak of the last plan by
    int without_effect = 0;                // how many of the last plans it left as they were
  };
  std::vector<std::vector<Effect>> effects_;  // by group and option
};

}  // namespace gshard::autoshard

#endif  // GSHARD_CORE_AUTOSHARD_MOVE_EFFECTS_H_
