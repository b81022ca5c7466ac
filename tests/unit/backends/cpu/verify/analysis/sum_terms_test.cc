// Terms of sums, by how an operation adds them up.
#include "backends/cpu/verify/analysis/sum_terms.h"

#include <catch2/catch.hpp>

#include "ir/computation.h"
#include "ir/parser.h"

namespace gshard::cpu {
namespace {

TEST_CASE("the most numbers that one element of a result adds up", "[cpu]") {
  const auto module = ParseModule(SourceText::FromString("test.hlo", R"(HloModule m
add { a = bf16[] parameter(0) b = bf16[] parameter(1) ROOT s = bf16[] add(a, b) }
largest { a = bf16[] parameter(0) b = bf16[] parameter(1) ROOT s = bf16[] maximum(a, b) }
ENTRY e {
  x = bf16[6,4] parameter(0)
  at = s32[6,1] parameter(1)
  zero = bf16[] constant(0)
  zeros = bf16[8,4] broadcast(zero), dimensions={}
  rows = bf16[8,4] scatter(zeros, at, x), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
  total = bf16[] reduce(x, zero), dimensions={0,1}, to_apply=add
  most = bf16[4] reduce(x, zero), dimensions={0}, to_apply=largest
  running = bf16[6,4] reduce-window(x, zero), window={size=6x1 pad=5_0x0_0}, to_apply=add
  all = bf16[6,4] all-reduce(x), replica_groups={{0,1,2},{3,4,5}}, to_apply=add
  any = bf16[6,4] all-reduce(x), replica_groups={}, to_apply=add
  product = bf16[6,6] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  ROOT out = (bf16[8,4], bf16[], bf16[4], bf16[6,4], bf16[6,4], bf16[6,4], bf16[6,6])
    tuple(rows, total, most, running, all, any, product)
})"));
  REQUIRE(module);
  const auto terms_of = [&](std::string_view name) {
    for (const Instruction* x : (*module)->entry()->instructions()) {
      if (x->name() == name) return MostTermsOf(*x, 12);
    }
    return int64_t{-1};
  };
  CHECK(terms_of("rows") == 6);
  CHECK(terms_of("total") == 24);
  CHECK(terms_of("most") == 1);
  CHECK(terms_of("running") == 6);
  CHECK(terms_of("all") == 3);
  CHECK(terms_of("any") == 12);
  CHECK(terms_of("product") == 1);
}

}  // namespace
}  // namespace gshard::cpu
