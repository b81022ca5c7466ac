// Between the axes of a tensor's dims and those of an operation's factors.
#ifndef GSHARD_CORE_PROPAGATION_SHARDY_PROJECTION_H_
#define GSHARD_CORE_PROPAGATION_SHARDY_PROJECTION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "core/propagation/shardy/relations.h"
#include "core/propagation/shardy/tensor.h"

namespace gshard::shardy {

// The axes of an operation's tensors, by slot of its relation.
struct Projection {
  std::vector<Axes> axes;
  std::vector<uint8_t> changed;  // a visit has given the slot more axes
  // Axes that cut a tensor but belong to none of its factors.
  struct Leftover {
    size_t tensor;
    AxisRef axis;
  };
  std::vector<Leftover> leftovers;
};

// Reads the axes of each dim into its factors, from the major one: a factor takes whole axes as
// long as they divide what is left of it, then the major part of the next; the minor-most factor
// takes all that is left. Dims of a priority beyond `priority` give nothing. `views`: of `tensors`,
// as many as the relation has. Reuses the memory of `projection`.
void ProjectToFactors(const IndexedRelation& relation, std::span<const View> views,
                      std::span<const Tensor> tensors, int64_t priority, AxisTable& table,
                      Projection& projection);

// Writes changed factors of the relation's tensor `index` back into its dims, as far as the factors
// before them are full. True if a dim has got more axes; no dim ever loses one.
bool WriteBack(const IndexedRelation& relation, size_t index, const Projection& projection,
               const View& view, AxisTable& table, Tensor& tensor);

}  // namespace gshard::shardy

#endif  // GSHARD_CORE_PROPAGATION_SHARDY_PROJECTION_H_
