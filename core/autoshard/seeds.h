// Plans that a search starts from: what experts write, and every way to cut the program by names.
#ifndef GSHARD_CORE_AUTOSHARD_SEEDS_H_
#define GSHARD_CORE_AUTOSHARD_SEEDS_H_

#include <string>
#include <vector>

#include "core/autoshard/plan_space.h"

namespace gshard::autoshard {

// Up to two names of dims (dim_names.h) for each mesh axis, which cuts the dims of these names. A
// tensor that has both is cut in the earlier dim.
using NameChoice = std::vector<std::vector<int>>;

// What a plan by names annotates.
enum class NamedTensors : uint8_t {
  kParameters,                 // parameters, inputs and results that propagation does not reach
  kAll,                        // products as well
  kProducts,                   // products alone
  kProductsOfWholeTensors,     // products, and copies of every parameter and input on all devices
  kParametersOfWholeProducts,  // parameters and inputs, and copies of every product on all devices
};
constexpr NamedTensors kNamedTensors[] = {
    NamedTensors::kAll, NamedTensors::kParameters, NamedTensors::kProducts,
    NamedTensors::kProductsOfWholeTensors, NamedTensors::kParametersOfWholeProducts};

// Returns the plan by names: along each axis it cuts each tensor that is annotated in the first dim
// that has a name of that axis and that the axis divides. Tensors that nothing cuts are left to
// propagation.
Plan PlanByNames(const PlanSpace& space, const NameChoice& names, NamedTensors tensors);

// Returns every choice of at most `most` (1 or 2) names per axis out of the first `heaviest`
// cuttable ones (PlanSpace::cuttable_names).
std::vector<NameChoice> NameChoices(const PlanSpace& space, int most, size_t heaviest);
// Returns the number of these choices.
double CountNameChoices(const PlanSpace& space, int most, size_t heaviest);

// A plan of a known style of parallelism.
struct NamedPlan {
  std::string name;  // of the style: "FSDP over data"
  Plan plan;
  bool is_tensor_parallel = false;
  bool is_fsdp = false;  // over all axes, and no tensor parallelism
};

// Returns the plans of known styles: no annotation at all; the user's own (if `has_written`); data
// parallelism, FSDP, ZeRO (if `zero`: weight updates may be cut) and the largest dim of every
// parameter and input, along each axis and along all; tensor parallelism along each axis (Megatron,
// arXiv 1909.08053, and the two-dimensional shardings of GSPMD, arXiv 2105.04663 section 5.1) and,
// where there are experts, expert parallelism (GShard, arXiv 2006.16668), the others being for
// data.
std::vector<NamedPlan> StylePlans(const PlanSpace& space, bool has_written, bool zero);

}  // namespace gshard::autoshard

#endif  // GSHARD_CORE_AUTOSHARD_SEEDS_H_
