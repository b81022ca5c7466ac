// A model of what plans cost in which each cost depends on three groups at most, so that its least
// plan can be found by elimination (elimination.h). It is a source of seeds and nothing else: it
// misjudges its own plans by several times (docs/auto.md, "Elimination"), and every plan that
// comes of it is propagated, partitioned and priced as any other.
//
// Costs, in seconds of one device, layers of a loop as often as it runs:
//
// - of a product: the time of its multiplications and of its memory traffic, whichever is longer,
//   and what brings its operands to where it is computed and its result to where it is kept, for
//   the best way of computing it: along each mesh axis one of its factors is cut (core/op_dims), or
//   none is;
// - of what else has several operands: what brings those to the layout of the first; of sums over
//   a dim that is cut, the sum over devices; of carried values, what brings them back;
// - of updated weights, their memory traffic.
//
// A value between products lies as the group's tensors that most of its dims come from. Nothing
// overlaps, padding costs nothing, and values that a plan leaves to propagation do not occur.
#ifndef GSHARD_CORE_AUTOSHARD_PLAN_MODEL_H_
#define GSHARD_CORE_AUTOSHARD_PLAN_MODEL_H_

#include <memory>
#include <optional>
#include <vector>

#include "core/autoshard/elimination.h"
#include "core/autoshard/plan_space.h"
#include "core/cost/chip.h"
#include "core/cost/network.h"

namespace gshard::autoshard {

// The options of each group that a sum is made for, as indices into Group::options: never 0.
using OptionsOfGroups = std::vector<std::vector<int>>;

struct ModelledPlan {
  Plan plan;           // has a cut for every group that has any
  double seconds = 0;  // by the model
  double bytes = 0;    // of parameters, inputs and, in a step that updates weights, products
};

// Immutable after it is made; may be read by many threads. The space must outlive it.
class PlanModel {
 public:
  PlanModel(const Module& module, const PlanSpace& space, const Chip& chip, const Network& network);
  ~PlanModel();
  PlanModel(PlanModel&&) noexcept;

  // Returns all options but 0 of each group.
  const OptionsOfGroups& AllOptions() const;
  // The model's costs as a sum over the groups: its values are positions in `options`. A byte of
  // memory costs `seconds_per_byte`.
  SumOfCosts Sum(const OptionsOfGroups& options, double seconds_per_byte) const;

  // The plan of the least seconds + seconds_per_byte * bytes, exactly if it is small enough, else
  // axis by axis, the others as they are. Nothing where even that takes too much.
  std::optional<ModelledPlan> LeastPlan(double seconds_per_byte) const;

 private:
  struct Parts;
  bool ChooseByAxis(double seconds_per_byte, Plan& plan) const;
  std::unique_ptr<Parts> parts_;
};

// Returns plans of little modelled time: of the fastest the smallest, then plans of less and less
// memory. Different ones; empty where LeastPlan has none.
std::vector<ModelledPlan> LeastPlans(const PlanModel& model);

}  // namespace gshard::autoshard

#endif  // GSHARD_CORE_AUTOSHARD_PLAN_MODEL_H_
