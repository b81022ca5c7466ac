// What compilers make of ragged-dots computes the same.
#include "core/transforms/dense_ragged_dots.h"

#include "ir/printer.h"
#include "tests/unit/backends/cpu/mesh_fixture.h"

namespace gshard::cpu {
namespace {

using Floats = std::vector<float>;

// Five rows: two of the first group, none of the second, two of the third, and one of no group.
TestInput Rows() { return F32({5, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}); }

struct Runs {
  Floats ragged, dense;
  std::string text;
};
Runs RunBoth(const std::string& text, const std::vector<TestInput>& inputs) {
  auto module = ParseModule(SourceText::FromString("test.hlo", text));
  INFO((module ? "" : Render(module.error())));
  REQUIRE(module);
  CHECK(MakeRaggedDotsDense(**module));
  CHECK_FALSE(MakeRaggedDotsDense(**module));
  REQUIRE(VerifyModule(**module));
  Runs runs;
  runs.text = PrintModule(**module);
  TestMesh ragged(text, inputs), dense(runs.text, inputs);
  ragged.Run();
  dense.Run();
  runs.ragged = ragged.Result<float>(0);
  runs.dense = dense.Result<float>(0);
  return runs;
}

TEST_CASE("a ragged-dot of rows is one product over all groups", "[dense_ragged_dots]") {
  const Runs runs = RunBoth(R"(HloModule m
ENTRY e {
  x = f32[5,2] parameter(0)
  w = f32[3,2,1] parameter(1)
  sizes = s32[3] parameter(2)
  ROOT y = f32[5,1] ragged-dot(x, w, sizes), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}
}
)",
                            {Rows(), F32({3, 2, 1}, {1, 10, 2, 20, 3, 30}), S32({3}, {2, 0, 2})});
  CHECK(runs.dense == Floats{21, 43, 195, 261, 0});
  CHECK(runs.dense == runs.ragged);
  CHECK(runs.text.find("lhs_contracting_dims={2,0}, rhs_contracting_dims={1,0}") !=
        std::string::npos);
  CHECK(runs.text.find("gshard.ragged_groups=\"3\"") != std::string::npos);
}

TEST_CASE("a ragged-dot over rows is a product for each group", "[dense_ragged_dots]") {
  const Runs runs = RunBoth(R"(HloModule m
ENTRY e {
  x = f32[5,2] parameter(0)
  y = f32[5,1] parameter(1)
  sizes = s32[3] parameter(2)
  ROOT d = f32[3,2,1] ragged-dot(x, y, sizes), lhs_contracting_dims={0}, rhs_contracting_dims={0}, lhs_ragged_dims={0}
}
)",
                            {Rows(), F32({5, 1}, {1, 2, 3, 4, 5}), S32({3}, {2, 0, 2})});
  CHECK(runs.dense == Floats{7, 10, 0, 0, 43, 50});
  CHECK(runs.dense == runs.ragged);
}

TEST_CASE("a ragged-dot with a batch keeps it in front", "[dense_ragged_dots]") {
  const Runs runs = RunBoth(R"(HloModule m
ENTRY e {
  x = f32[2,3,2] parameter(0)
  w = f32[2,2,2,1] parameter(1)
  sizes = s32[2] parameter(2)
  ROOT y = f32[2,3,1] ragged-dot(x, w, sizes), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}, lhs_ragged_dims={1}, rhs_group_dims={1}
}
)",
                            {F32({2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}),
                             F32({2, 2, 2, 1}, {1, 10, 2, 20, 3, 30, 4, 40}), S32({2}, {1, 2})});
  CHECK(runs.dense == runs.ragged);
  CHECK(runs.dense[0] == 21);
  CHECK(runs.dense[1] == 86);
}

}  // namespace
}  // namespace gshard::cpu
