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

inline std::vector<int64_t> Prepended(int64_t first, std::span<const int64_t> list) {
  std::vector<int64_t> all = {first};
  all.insert(all.end(), list.begin(), list.end());
  return all;
}

// The numbers of the same dims behind a new first one.
inline std::vector<int64_t> OneLater(std::span<const int64_t> dims) {
  std::vector<int64_t> later(dims.begin(), dims.end());
  for (int64_t& d : later) ++d;
  return later;
}

// Is `row` [1, ..] of a stack [N, ..]?
inline bool IsRowOf(const Shape* row, const Shape* stack) {
  return row->rank() > 0 && row->rank() == stack->rank() && row->dim(0) == 1 &&
         std::ranges::equal(row->dims().subspan(1), stack->dims().subspan(1));
}

// Appends the non-tuple shapes in `shape`, in pre-order: leaf_count() of them.
inline void AppendLeafShapes(const Shape* shape, std::vector<const Shape*>& leaves) {
  if (shape->IsTuple()) {
    for (const Shape* element : shape->elements()) AppendLeafShapes(element, leaves);
  } else {
    leaves.push_back(shape);
  }
}

inline std::vector<const Shape*> LeafShapes(const Shape* shape) {
  std::vector<const Shape*> leaves;
  AppendLeafShapes(shape, leaves);
  return leaves;
}

// Do the elements lie in row-major order? Dims of size 1 may stand anywhere in the layout.
inline bool IsRowMajor(const Shape* shape) {
  if (shape->layout() == nullptr) return true;
  int64_t previous = INT64_MAX;
  for (int64_t dim : shape->layout()->minor_to_major) {
    if (shape->dim(dim) == 1) continue;
    if (dim > previous) return false;
    previous = dim;
  }
  return true;
}

// Of a product's operand with `rank` dims: those that are neither batch nor contracted, ascending;
// without `except`.
inline std::vector<int64_t> FreeDims(int64_t rank, Dims batch, Dims contracting,
                                     int64_t except = -1) {
  std::vector<int64_t> free;
  for (int64_t d = 0; d < rank; ++d) {
    if (d != except && !Contains(batch, d) && !Contains(contracting, d)) free.push_back(d);
  }
  return free;
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
