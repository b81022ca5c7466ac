#include "core/op_dims/dim_relation.h"

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/op_dims/rule_text.h"
#include "ir/parser.h"

namespace gshard {
namespace {

constexpr std::string_view kComputations = R"(
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
second { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] copy(b) }
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = pred[] compare(a, b), direction=LT }
greater { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = pred[] compare(a, b), direction=GE }
ENTRY e {
  zero = f32[] constant(0)
  i = s32[] constant(1)
)";

// The relation of the last instruction of a computation.
std::string RelationOfLast(std::string_view lines) {
  const std::string text = "HloModule m\n" + std::string(kComputations) + std::string(lines) + "}\n";
  auto module = ParseModule(SourceText::FromString("test.hlo", text));
  if (!module) FAIL(Render(module.error()));
  return ToString(RelationOf(*(*module)->entry()->root()));
}

// What each family of operations relates, as Shardy's own rules print it.
TEST_CASE("dims relate by factors", "[op_dims]") {
  constexpr std::pair<std::string_view, std::string_view> kCases[] = {
      {"x = f32[8,16] parameter(0)\n ROOT r = f32[8,16] add(x, x)\n",
       "([i, j], [i, j])->([i, j]) {i=8, j=16}"},
      {"p = pred[] parameter(0)\n x = f32[8] parameter(1)\n ROOT r = f32[8] select(p, x, x)\n",
       "([], [i], [i])->([i]) {i=8}"},
      {"x = f32[8] parameter(0)\n ROOT r = u8[8,4] bitcast-convert(x)\n",
       "([i])->([i, j]) {i=8, j=4} need_replication={j}"},
      {"x = f32[16] parameter(0)\n ROOT r = f32[8,16] broadcast(x), dimensions={1}\n",
       "([j])->([i, j]) {i=8, j=16}"},
      {"x = f32[8,16] parameter(0)\n ROOT r = f32[16,8] transpose(x), dimensions={1,0}\n",
       "([j, i])->([i, j]) {i=16, j=8}"},
      {"x = f32[8,16] parameter(0)\n ROOT r = f32[8,16] reverse(x), dimensions={1}\n",
       "([i, j])->([i, j]) {i=8, j=16} permutation={j}"},
      {"x = f32[8,16] parameter(0)\n ROOT r = f32[128] reshape(x)\n",
       "([i, j])->([ij]) {i=8, j=16}"},
      {"x = f32[4,15] parameter(0)\n ROOT r = f32[6,10] reshape(x)\n",
       "([ij, ln])->([ik, mn]) {i=2, j=2, k=3, l=3, m=2, n=5}"},
      {"x = f32[12,5] parameter(0)\n ROOT r = f32[5,12] reshape(x)\n",
       "([i, k])->([j, l]) {i=12, j=5, k=5, l=12}"},
      {"x = f32[8,16] parameter(0)\n ROOT r = f32[4,16] slice(x), slice={[0:4], [0:16]}\n",
       "([i, j])->([i, j]) {i=8, j=16} permutation={i}"},
      {"x = f32[8,16] parameter(0)\n ROOT r = f32[11,16] pad(x, zero), padding=1_2x0_0\n",
       "([i, j], [])->([i, j]) {i=8, j=16} permutation={i}"},
      {"x = f32[8,16] parameter(0)\n ROOT r = f32[16,16] concatenate(x, x), dimensions={0}\n",
       "([i, j], [i, j])->([i, j]) {i=16, j=16} need_replication={i}"},
      {"x = f32[8,16] parameter(0)\n ROOT r = f32[2,16] dynamic-slice(x, i, i), "
       "dynamic_slice_sizes={2,16}\n",
       "([i, j], [], [])->([i, j]) {i=8, j=16} need_replication={i} blocked_propagation={i}"},
      {"x = f32[8,16] parameter(0)\n u = f32[2,16] parameter(1)\n ROOT r = f32[8,16] "
       "dynamic-update-slice(x, u, i, i)\n",
       "([i, k], [j, k], [], [])->([i, k]) {i=8, j=2, k=16} need_replication={j}"},
      {"x = f32[4,8,16] parameter(0)\n y = f32[4,16,32] parameter(1)\n ROOT r = f32[4,8,32] dot(x, y), "
       "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}\n",
       "([i, j, l], [i, l, k])->([i, j, k]) {i=4, j=8, k=32, l=16} reduction={l}"},
      {"x = f32[8,16] parameter(0)\n y = f32[3,16,32] parameter(1)\n n = s32[3] parameter(2)\n ROOT r = "
       "f32[8,32] ragged-dot(x, y, n), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
       "lhs_ragged_dims={0}, rhs_group_dims={0}\n",
       "([i, k], [l, k, j], [l])->([i, j]) {i=8, j=32, k=16, l=3} reduction={k} "
       "need_replication={i, l}"},
      {"x = f32[2,16,8] parameter(0)\n k = f32[3,8,32] parameter(1)\n ROOT r = f32[2,16,32] "
       "convolution(x, k), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f\n",
       "([i, j, k], [m, k, l])->([i, j, l]) {i=2, j=16, k=8, l=32, m=3} reduction={k} permutation={j}"},
      {"x = f32[2,16,8] parameter(0)\n k = f32[2,8,32] parameter(1)\n ROOT r = f32[2,8,32] "
       "convolution(x, k), window={size=2 stride=2}, dim_labels=b0f_0io->b0f\n",
       "([i, jk, l], [k, l, m])->([i, j, m]) {i=2, j=8, k=2, l=8, m=32} reduction={k, l} "
       "permutation={j}"},
      // As the gradient of a kernel has it: the window is longer than the result.
      {"x = f32[2,16,8] parameter(0)\n k = f32[16,8,32] parameter(1)\n ROOT r = f32[2,3,32] "
       "convolution(x, k), window={size=16 pad=1_1}, dim_labels=b0f_0io->b0f\n",
       "([i, j, k], [j, k, l])->([i, m, l]) {i=2, j=16, k=8, l=32, m=3} reduction={j, k}"},
      {"x = f32[2,16,8] parameter(0)\n k = f32[8,8,32] parameter(1)\n ROOT r = f32[2,4,32] "
       "convolution(x, k), window={size=8 stride=4 pad=2_2}, dim_labels=b0f_0io->b0f\n",
       "([i, jk, l], [j, l, m])->([i, k, m]) {i=2, j=8, k=2, l=8, m=32} reduction={j, l} "
       "permutation={k}"},
      {"x = f32[2,16,8] parameter(0)\n k = f32[3,2,16] parameter(1)\n ROOT r = f32[2,16,16] "
       "convolution(x, k), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f, feature_group_count=4\n",
       "([i, j, kl], [n, l, km])->([i, j, km]) {i=2, j=16, k=4, l=2, m=4, n=3} reduction={l} "
       "permutation={j}"},
      {"x = f32[8,16] parameter(0)\n ROOT r = f32[8] reduce(x, zero), dimensions={1}, to_apply=add\n",
       "([i, j], [])->([i]) {i=8, j=16} reduction={j}"},
      {"x = f32[8,16] parameter(0)\n ROOT r = f32[8,8] reduce-window(x, zero), "
       "window={size=1x2 stride=1x2}, to_apply=add\n",
       "([i, j], [])->([i, j]) {i=8, j=8} permutation={j}"},
      {"x = f32[8,16] parameter(0)\n y = f32[8,8] parameter(1)\n ROOT r = f32[8,16] "
       "select-and-scatter(x, y, zero), window={size=1x2 stride=1x2}, select=greater, scatter=add\n",
       "([i, j], [i, k], [])->([i, j]) {i=8, j=16, k=8} need_replication={k} permutation={j}"},
      {"x = f32[8,16] parameter(0)\n n = s32[4,1] parameter(1)\n ROOT r = f32[4,16] gather(x, n), "
       "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
       "slice_sizes={1,16}\n",
       "([j, k], [i, l])->([i, k]) {i=4, j=8, k=16, l=1} reduction={j} need_replication={l}"},
      {"x = f32[8,16] parameter(0)\n n = s32[4,1] parameter(1)\n u = f32[4,16] parameter(2)\n ROOT r = "
       "f32[8,16] scatter(x, n, u), update_window_dims={1}, inserted_window_dims={0}, "
       "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add\n",
       "([j, k], [i, l], [i, k])->([j, k]) {i=4, j=8, k=16, l=1} reduction={i} need_replication={l}"},
      {"x = f32[8,16] parameter(0)\n n = s32[4,1] parameter(1)\n u = f32[4,16] parameter(2)\n ROOT r = "
       "f32[8,16] scatter(x, n, u), update_window_dims={1}, inserted_window_dims={0}, "
       "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=second\n",
       "([j, k], [i, l], [i, k])->([j, k]) {i=4, j=8, k=16, l=1} need_replication={i, l}"},
      {"x = f32[8,16] parameter(0)\n ROOT r = f32[8,16] sort(x), dimensions={1}, to_apply=less\n",
       "([i, j])->([i, j]) {i=8, j=16} need_replication={j}"},
      {"x = f32[8,16] parameter(0)\n ROOT r = c64[8,9] fft(x), fft_type=RFFT, fft_length={16}\n",
       "([i, j])->([i, j]) {i=8, j=16} need_replication={j} blocked_propagation={j}"},
      {"x = f32[4,8,8] parameter(0)\n ROOT r = f32[4,8,8] cholesky(x), lower=true\n",
       "([i, j, k])->([i, j, k]) {i=4, j=8, k=8} need_replication={j, k}"},
      {"x = f32[4,8,8] parameter(0)\n y = f32[4,8,6] parameter(1)\n ROOT r = f32[4,8,6] "
       "triangular-solve(x, y), left_side=true, lower=true, transpose_a=NO_TRANSPOSE\n",
       "([i, j, l], [i, j, k])->([i, l, k]) {i=4, j=8, k=6, l=8} need_replication={j, k, l}"},
      {"s = u64[2] parameter(0)\n ROOT r = (u64[2], u32[8]) rng-bit-generator(s), "
       "algorithm=rng_three_fry\n",
       "([i])->([i], [j]) {i=2, j=8} need_replication={i} blocked_propagation={i}"},
      {"ROOT r = f32[8] iota(), iota_dimension=0\n", "()->([i]) {i=8}"},
      {"x = f32[8,16] parameter(0)\n ROOT r = f32[8,4] custom-call(x), custom_call_target=\"mine\", "
       "frontend_attributes={xla.sdy.sharding_rule=\"#sdy.op_sharding_rule<([i, j])->([i, k]) "
       "{i=8, j=16, k=4} need_replication={j, k}, custom>\"}\n",
       "([i, j])->([i, k]) {i=8, j=16, k=4} need_replication={j, k}"},
  };
  for (const auto& [lines, expected] : kCases) {
    INFO(lines);
    CHECK(RelationOfLast(lines) == expected);
  }
}

TEST_CASE("rules in Shardy's text", "[op_dims]") {
  const auto rule = ReadRule("([i, jk], [])->([i]) {i=8, j=2, k=4} reduction={j, k}");
  REQUIRE(rule);
  CHECK(ToString(*rule) == "([i, jk], [])->([i]) {i=8, j=2, k=4} reduction={j, k}");
  // An optional operand that is not there is an array of no elements.
  const auto empty = ReadRule("([i, k], [z], [z_1])->([i]) {i=8, k=2, z=0, z_1=0}, custom");
  REQUIRE(empty);
  CHECK(empty->factors[2].size == 0);
  for (const char* text :
       {"", "(", "([i])", "([i])->([i])", "([i])->([i]) {i=-1}", "([i])->([i]) {j=1}",
        "([i])->([i]) {i=99999999999999999999}", "([i])->([i]) {i=1} reduction={k}",
        "([i])->([i]) {i=1} what={i}", "([i,,])->([i]) {i=1}"}) {
    INFO(text);
    CHECK_FALSE(ReadRule(text));
  }
}

}  // namespace
}  // namespace gshard
