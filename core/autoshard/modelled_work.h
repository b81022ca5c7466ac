// What a program costs under a plan, as a model counts it that looks at few groups at a time
// (plan_model.h): its products, the values that go from one group's tensors to another's, and sums
// over dims that may be cut.
#ifndef GSHARD_CORE_AUTOSHARD_MODELLED_WORK_H_
#define GSHARD_CORE_AUTOSHARD_MODELLED_WORK_H_

#include <array>
#include <vector>

#include "core/autoshard/plan_space.h"
#include "core/cost/chip.h"
#include "core/op_dims/dim_relation.h"

namespace gshard::autoshard {

constexpr int kNone = -1;  // no group, no dim, no factor

// Where a value lies: as the tensors of a group. By dim of the value: the group's dim that it comes
// from, or kNone.
struct Source {
  int group = kNone;
  std::vector<int> dims;
  bool operator==(const Source&) const = default;
};

// A value that is brought from one layout to another.
struct Reshard {
  Source from, to;
  double bytes = 0, times = 0;
};

// A sum over dims of a group's tensor; `result` is how the sum lies.
struct Reduction {
  int group = kNone;
  std::vector<int> summed;  // dims of the group
  Source result;
  double bytes = 0, times = 0;
};

// A product, or another operation whose result is of a group: with one operand the second has no
// group and no bytes, and no operand behind the second is looked at.
struct Product {
  std::array<Source, 2> operands;
  int group = kNone;                           // of the result
  std::vector<Factor> factors;                 // core/op_dims
  std::array<std::vector<int>, 3> factors_of;  // by dim of the operands and the result
  std::array<double, 3> bytes = {};            // whole
  double seconds = 0;  // of the multiplications on one device; of other operations 0
  double times = 0;

  bool IsAlike(const Product& other) const;  // but for `times`
};

struct ModelledWork {
  std::vector<Reshard> reshards;  // different ones, each as often as it happens in a step
  std::vector<Product> products;  // the same
  std::vector<Reduction> reductions;
  std::vector<double> product_bytes;  // by group: of all results of products, whole
};

// `module` is the one that `space` is of. Layers in a loop count as often as it runs, once if that
// is not known.
ModelledWork ModelledWorkOf(const Module& module, const PlanSpace& space, const Chip& chip);

}  // namespace gshard::autoshard

#endif  // GSHARD_CORE_AUTOSHARD_MODELLED_WORK_H_
