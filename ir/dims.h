// Lists of dims, and the parts of a shape.
#ifndef GSHARD_IR_DIMS_H_
#define GSHARD_IR_DIMS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ir/attributes.h"
#include "ir/shape.h"

namespace gshard {

// Dims are numbered by int64_t, as in XLA; containers are asked for the element At(dim).
inline size_t At(int64_t i) { return static_cast<size_t>(i); }

inline bool Contains(Dims dims, int64_t dim) { return std::ranges::find(dims, dim) != dims.end(); }

// Appends the non-tuple shapes in `shape`, in pre-order: leaf_count() of them.
inline void AppendLeafShapes(const Shape* shape, std::vector<const Shape*>& leaves) {
  if (shape->IsTuple()) {
    for (const Shape* element : shape->elements()) AppendLeafShapes(element, leaves);
  } else {
    leaves.push_back(shape);
  }
}

// The part of a tuple shape that an index path names; null if there is none.
inline const Shape* ShapePart(const Shape* shape, std::span<const int64_t> index) {
  for (int64_t i : index) {
    if (!shape->IsTuple() || i < 0 || i >= static_cast<int64_t>(shape->elements().size())) {
      return nullptr;
    }
    shape = shape->element(i);
  }
  return shape;
}

}  // namespace gshard

#endif  // GSHARD_IR_DIMS_H_
