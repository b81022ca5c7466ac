// Which collectives a program that runs call by call waits for.

#include "core/cost/blocking_collectives.h"

#include <catch2/catch.hpp>

#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

TEST_CASE("Sums between products block; gathers of weights and sums of gradients do not",
          "[blocking_collectives]") {
  auto module = Parsed(R"(HloModule m, num_partitions=2
add { l = f32[] parameter(0) r = f32[] parameter(1) ROOT c = f32[] add(l, r) }
ENTRY e {
  x = f32[8,16] parameter(0)
  w = bf16[8,32] parameter(1)
  v = f32[32,16] parameter(2)
  cast = f32[8,32] convert(w)
  weight = f32[16,32] all-gather(cast), dimensions={0}, replica_groups={{0,1}}
  partial = f32[8,32] dot(x, weight), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  activation = f32[8,32] all-reduce(partial), replica_groups={{0,1}}, to_apply=add
  result = f32[8,16] dot(activation, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  local = f32[32,16] dot(activation, result), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  gradient = f32[32,16] all-reduce(local), replica_groups={{0,1}}, to_apply=add
  ROOT updated = f32[32,16] subtract(v, gradient)
})");
  std::string names;
  const auto blocking = BlockingCollectives(*module->entry());
  for (const Instruction* x : module->entry()->instructions()) {
    if (blocking.contains(x)) names += std::string(x->name()) + " ";
  }
  CHECK(names == "activation ");
}

}  // namespace
}  // namespace gshard
