#include "ir/leaves.h"

#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "ir/module.h"

namespace gshard {
namespace {

TEST_CASE("a tuple is taken apart and put together by leaves", "[ir][leaves]") {
  const auto ctx = std::make_shared<Context>();
  Module module("m", ctx);
  Builder b(module, module.AddComputation("e"));
  const Shape* scalar = ctx->Scalar(DType::kF32);
  const Shape* vector = ctx->Array(DType::kF32, std::vector<int64_t>{4});
  const std::vector<const Shape*> pair = {scalar, vector};
  const std::vector<const Shape*> elements = {vector, ctx->Tuple({}), ctx->Tuple(pair)};
  Instruction* x = b.Parameter(0, ctx->Tuple(elements), "x");

  const std::vector<Instruction*> leaves = LeafValues(b, x);
  REQUIRE(leaves.size() == 3);
  CHECK(leaves[0]->shape() == vector);
  CHECK(leaves[1]->shape() == scalar);
  CHECK(leaves[2]->shape() == vector);
  CHECK(FirstLeafRead(*leaves[0]) == 0);
  CHECK(FirstLeafRead(*leaves[2]) == 1);              // of the pair
  CHECK(FirstLeafRead(*leaves[2]->operand(0)) == 1);  // of x, behind the empty tuple
  CHECK(LeafValue(b, x, 2)->shape() == vector);
  CHECK(LeafValues(b, leaves[1]) == std::vector<Instruction*>{leaves[1]});

  Instruction* whole = FromLeaves(b, x->shape(), leaves);
  CHECK(whole->shape() == x->shape());
  for (int64_t i = 0; i < 3; ++i) CHECK(LeafValue(b, whole, i) == leaves[static_cast<size_t>(i)]);
}

}  // namespace
}  // namespace gshard
