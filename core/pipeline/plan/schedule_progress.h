// When each pass of a schedule is done, and so when those that need it may begin.
#ifndef GSHARD_CORE_PIPELINE_PLAN_SCHEDULE_PROGRESS_H_
#define GSHARD_CORE_PIPELINE_PLAN_SCHEDULE_PROGRESS_H_

#include <algorithm>
#include <vector>

#include "core/pipeline/plan/schedule.h"

namespace gshard::pipeline {

// Progress of every (pass, virtual stage, micro-batch).
class Progress {
 public:
  explicit Progress(const Schedule& s)
      : s_(s),
        done_(kPassKinds * static_cast<size_t>(s.virtual_stages() * s.microbatches), kNever) {}

  static constexpr double kNever = 1e300;
  double& At(Pass pass, int64_t v, int64_t i) {
    size_t kind = static_cast<size_t>(pass) - 1;
    return done_[(kind * static_cast<size_t>(s_.virtual_stages()) + static_cast<size_t>(v)) *
                     static_cast<size_t>(s_.microbatches) +
                 static_cast<size_t>(i)];
  }
  // When the stage's input is there.
  double ArrivalOf(const ScheduledPass& p, double on_the_way = 0) {
    return p.stage == 0 ? 0 : At(Pass::kForward, p.stage - 1, p.microbatch) + on_the_way;
  }
  // When all that a pass needs is done; kNever: not yet known. `held`, `on_the_way`: how much later
  // cotangents and all that neighbours hand on are there.
  double Ready(const ScheduledPass& p, double held = 0, double on_the_way = 0) {
    const int64_t last = s_.virtual_stages() - 1;
    switch (p.pass) {
      case Pass::kForward:
        return ArrivalOf(p, on_the_way);
      case Pass::kBackward: {
        double ready = 0;
        if (p.stage < last) {
          ready = At(Pass::kBackward, p.stage + 1, p.microbatch) + held + on_the_way;
        }
        if (s_.has_recompute) return std::max(ready, At(Pass::kRecompute, p.stage, p.microbatch));
        if (p.stage < last || s_.has_forward_of_last) {
          return std::max(ready, At(Pass::kForward, p.stage, p.microbatch));
        }
        return ArrivalOf(p, on_the_way);
      }
      case Pass::kRecompute:
        return p.stage < last ? At(Pass::kForward, p.stage, p.microbatch)
                              : ArrivalOf(p, on_the_way);
      case Pass::kWeights:
        return At(Pass::kBackward, p.stage, p.microbatch);
      case Pass::kNone:
        break;
    }
    return 0;
  }

 private:
  const Schedule& s_;
  std::vector<double> done_;
};

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PLAN_SCHEDULE_PROGRESS_H_
