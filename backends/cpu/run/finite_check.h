// Finds NaN and infinities in buffers (--check-nan).
#ifndef GSHARD_BACKENDS_CPU_RUN_FINITE_CHECK_H_
#define GSHARD_BACKENDS_CPU_RUN_FINITE_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ir/shape.h"

namespace gshard::cpu {

struct NotFinite {
  int64_t element = 0;
  bool is_nan = false;  // else infinite
};

// The first NaN of an array, else its first infinity; complex numbers count part by part. Nothing
// for other types.
std::optional<NotFinite> FindNotFinite(const Shape* shape, const std::byte* data);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_RUN_FINITE_CHECK_H_
