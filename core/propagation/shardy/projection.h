// Between the axes of a tensor's dims and those of an operation's factors.
#ifndef GSHARD_CORE_PROPAGATION_SHARDY_PROJECTION_H_
#define GSHARD_CORE_PROPAGATION_SHARDY_PROJECTION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "core/op_dims/dim_relation.h"
#include "core/propagation/shardy/tensor.h"

namespace gshard::shardy {

// A tensor as an operation sees it: from inside a manual region its manual axes are not there.
struct View {
  int tensor = -1;
  bool inside = false;
};

// The axes of one tensor, by factor of the operation.
struct Projection {
  struct Entry {
    int factor = 0;
    int64_t dim = 0;
    AxisList axes;
    bool fixed = false;  // its dim is closed, or a later priority's: takes nothing
    bool changed = false;
  };
  std::vector<Entry> entries;  // in the order of dims, of factors within a dim
  // Axes that cut the tensor but belong to no factor, and those that may not cut it.
  AxisList taken;

  Entry* Find(int factor);
  const Entry* Find(int factor) const;
};

// Reads the axes of each dim into its factors, from the major one: a factor takes whole axes as long
// as they divide what is left of it, then the major part of the next; the minor-most factor takes
// all that is left. Dims of a priority beyond `priority` give nothing and take nothing.
Projection ProjectToFactors(const Tensor& tensor, const View& view, std::span<const FactorList> dims,
                            std::span<const Factor> factors, int64_t priority);

// Writes changed factors back into their dims, as far as the factors before them are full. True if
// a dim has got more axes; no dim ever loses one.
bool WriteBack(const Projection& projection, const View& view, std::span<const FactorList> dims,
               std::span<const Factor> factors, Tensor& tensor);

}  // namespace gshard::shardy

#endif  // GSHARD_CORE_PROPAGATION_SHARDY_PROJECTION_H_
