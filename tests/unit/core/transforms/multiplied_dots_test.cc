#include "core/transforms/expand/multiplied_dots.h"

#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

TEST_CASE("a dot that sums over nothing is a multiplication", "[multiplied_dots]") {
  auto module = Parsed(R"(HloModule m
ENTRY e {
  a = bf16[8,4,16] parameter(0)
  b = bf16[4,32,8] parameter(1)
  ROOT y = f32[8,4,16,32] dot(a, b), lhs_batch_dims={0,1}, rhs_batch_dims={2,0}
})");
  CHECK(MultiplyDots(*module));
  const std::string text = PrintModule(*module);
  CHECK(text.find("f32[8,4,32] transpose(") != std::string::npos);
  CHECK(text.find("f32[8,4,16,32] broadcast(%transpose), dimensions={0,1,3}") != std::string::npos);
  CHECK(text.find("ROOT %y = f32[8,4,16,32] multiply(") != std::string::npos);
  CHECK_FALSE(MultiplyDots(*module));
}

TEST_CASE("a dot of vectors is a sum of products", "[multiplied_dots]") {
  auto module = Parsed(R"(HloModule m
ENTRY e {
  a = bf16[8,4,6] parameter(0)
  b = bf16[4,6,8] parameter(1)
  ROOT y = bf16[8,4] dot(a, b), lhs_batch_dims={0,1}, rhs_batch_dims={2,0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
})");
  CHECK(MultiplyDots(*module));
  const std::string text = PrintModule(*module);
  CHECK(text.find("f32[8,4,6] multiply(") != std::string::npos);
  CHECK(text.find("f32[8,4] reduce(") != std::string::npos);
  CHECK(text.find("ROOT %y = bf16[8,4] convert(") != std::string::npos);
}

TEST_CASE("dots of matrices stay", "[multiplied_dots]") {
  auto module = Parsed(R"(HloModule m
ENTRY e {
  a = f32[8,4] parameter(0)
  b = f32[4,8] parameter(1)
  ROOT y = f32[8,8] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})");
  CHECK_FALSE(MultiplyDots(*module));
}

}  // namespace
}  // namespace gshard
