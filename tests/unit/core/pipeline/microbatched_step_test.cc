// A step as its micro-batches compute it.
#include "core/pipeline/microbatched_step.h"

#include <catch2/catch.hpp>

#include "ir/parser.h"
#include "ir/verify/verifier.h"

namespace gshard::pipeline {
namespace {

TEST_CASE("how the batch was split is read from the header", "[pipeline]") {
  const BatchSplit split = ReadBatchSplit(
      "stages=2 microbatches=8 schedule=1f1b cuts=a,b batch=3:0:4,5:1:1 microbatch_sums=2");
  CHECK(split.microbatches == 8);
  CHECK(split.microbatch_sums == 2);
  REQUIRE(split.examples.size() == 2);
  CHECK(split.examples[0].parameter == 3);
  CHECK(split.examples[0].dimension == 0);
  CHECK(split.examples[0].shards == 4);
  CHECK(split.examples[1].dimension == 1);
}

TEST_CASE("of a damaged header what can be read is", "[pipeline]") {
  for (const char* text : {"", "microbatches=", "microbatches=0", "microbatches=-3",
                           "microbatches=99999999999999999999", "batch=::,1:,x:0:1,1:0:0",
                           "microbatch_sums=x =", "===,,,::: batch"}) {
    const BatchSplit split = ReadBatchSplit(text);
    CHECK(split.microbatches == 1);
    CHECK(split.microbatch_sums == -1);
    CHECK(split.examples.empty());
  }
}

std::unique_ptr<Module> Step() {
  auto module = ParseModule(SourceText::FromString("step.hlo", R"(HloModule step, num_partitions=4
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY e {
  w = f32[4,4] parameter(0)
  x = f32[16,4] parameter(1), sharding={devices=[4,1]<=[4]}
  zero = f32[] constant(0)
  h = f32[16,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  total = f32[4] reduce(h, zero), dimensions={0}, to_apply=sum
  means = f32[16,4] broadcast(total), dimensions={1}
  c = f32[16,4] subtract(h, means)
  y = f32[16,4] dot(c, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  loss = f32[] reduce(y, zero), dimensions={0,1}, to_apply=sum
  moment = f32[4,4] dot(x, h), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  new = f32[4,4] subtract(w, moment)
  ROOT r = (f32[], f32[4,4]) tuple(loss, new)
})"));
  REQUIRE(module);
  return std::move(*module);
}

TEST_CASE("sums that return to the examples, and what follows from them", "[pipeline]") {
  const auto step = Step();
  BatchSplit split;
  split.microbatches = 4;
  split.examples = {{1, 0, 4}};
  const auto made = MakeMicrobatchedStep(*step, split);
  REQUIRE(made);
  REQUIRE(made->sums.size() == 1);
  CHECK(made->sums[0].name == "total");
  CHECK(made->follows_sum == std::vector<bool>{true, false});
  CHECK(step->entry()->parameter(1)->shape()->dim(0) == 16);
  CHECK(step->DeviceCount() == 1);
  CHECK(VerifyModule(*step));
}

TEST_CASE("a split that the step does not allow is an error", "[pipeline]") {
  for (const BatchSplit::Examples& of : {BatchSplit::Examples{7, 0, 1}, {1, 5, 1}, {0, 0, 1}}) {
    const auto step = Step();
    BatchSplit split;
    split.microbatches = 8;
    split.examples = {of};
    CHECK_FALSE(MakeMicrobatchedStep(*step, split));
  }
  const auto step = Step();
  BatchSplit split;
  split.microbatches = 16;
  split.examples = {{1, 0, int64_t{1} << 62}};  // more shards than rows: none
  CHECK(MakeMicrobatchedStep(*step, split));
}

}  // namespace
}  // namespace gshard::pipeline
