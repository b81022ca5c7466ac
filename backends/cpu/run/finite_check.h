// Finds NaN and infinities in buffers (--check-nan).
#ifndef GSHARD_BACKENDS_CPU_RUN_FINITE_CHECK_H_
#define GSHARD_BACKENDS_CPU_RUN_FINITE_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "ir/shape.h"

namespace gshard::cpu {

struct NotFinite {
  int64_t element = 0;
  bool is_nan = false;  // else infinite
};

// The first NaN of an array, else its first infinity; complex numbers count part by part. Nothing
// for other types.
std::optional<NotFinite> FindNotFinite(const Shape* shape, const std::byte* data);

// The first NaN of `result` at an element where none of `operands` has one, for an operation that
// makes each element of those at its place (`elementwise`: operands of other sizes are scalars),
// else of all of theirs.
struct CheckedArray {
  const Shape* shape = nullptr;
  const std::byte* data = nullptr;
};
std::optional<NotFinite> FindNewNan(const CheckedArray& result,
                                    std::span<const CheckedArray> operands, bool elementwise);

// "1,0,2" of a row-major place.
std::string IndexText(const Shape* shape, int64_t element);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_RUN_FINITE_CHECK_H_
