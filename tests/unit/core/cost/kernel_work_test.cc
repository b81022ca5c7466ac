// What a fusion of compiled text reads and writes.

#include "core/cost/kernel_work.h"

#include <catch2/catch.hpp>

#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

// One layer of stacked weights, taken by a fusion within the fusion that multiplies by it.
constexpr std::string_view kNested = R"(HloModule m
slice_of_layer {
  w = f32[8,64,32] parameter(0)
  i = s32[] parameter(1)
  zero = s32[] constant(0)
  layer = f32[1,64,32] dynamic-slice(w, i, zero, zero), dynamic_slice_sizes={1,64,32}
  ROOT r = f32[64,32] bitcast(layer)
}
product {
  w = f32[8,64,32] parameter(0)
  i = s32[] parameter(1)
  x = f32[16,64] parameter(2)
  layer = f32[64,32] fusion(w, i), kind=kLoop, calls=slice_of_layer
  ROOT r = f32[16,32] dot(x, layer), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
ENTRY e {
  w = f32[8,64,32] parameter(0)
  i = s32[] parameter(1)
  x = f32[16,64] parameter(2)
  ROOT r = f32[16,32] fusion(w, i, x), kind=kOutput, calls=product
}
)";

// One layer is written by a fusion within, in place.
constexpr std::string_view kNestedUpdate = R"(HloModule m
update {
  w = f32[8,64,32] parameter(0)
  x = f32[1,64,32] parameter(1)
  i = s32[] parameter(2)
  zero = s32[] constant(0)
  ROOT r = f32[8,64,32] dynamic-update-slice(w, x, i, zero, zero)
}
doubled {
  w = f32[8,64,32] parameter(0)
  x = f32[1,64,32] parameter(1)
  i = s32[] parameter(2)
  twice = f32[1,64,32] add(x, x)
  ROOT r = f32[8,64,32] fusion(w, twice, i), kind=kLoop, calls=update
}
ENTRY e {
  w = f32[8,64,32] parameter(0)
  x = f32[1,64,32] parameter(1)
  i = s32[] parameter(2)
  ROOT r = f32[8,64,32] fusion(w, x, i), kind=kLoop, calls=doubled
}
)";

KernelWork WorkOfRoot(std::string_view text) {
  auto module = Parsed(std::string(text));
  return WorkOfFusion(*module->entry()->root());
}

TEST_CASE("A slice within nested fusions is read, not the whole array", "[cost]") {
  const double index = 4, layer = 4 * 64 * 32, x = 4 * 16 * 64, result = 4 * 16 * 32;
  CHECK(WorkOfRoot(kNested).bytes == index + layer + x + result);
}

TEST_CASE("An update within nested fusions writes its part", "[cost]") {
  const double index = 4, part = 4 * 64 * 32;
  CHECK(WorkOfRoot(kNestedUpdate).bytes == index + 2 * part);
}

}  // namespace
}  // namespace gshard
