// Sizes of every dim that counts examples, and what has no other size.
#include "core/resize/resize_batch.h"

#include <catch2/catch.hpp>
#include <string>

#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

// Of a program whose parameter 0 has examples in dim 0: the shape of `name` at a batch of `to`, or
// the error's code.
std::string ShapeAt(int64_t from, int64_t to, const std::string& text, const std::string& name) {
  auto module = Parsed("HloModule m\n" + text);
  auto done = ResizeBatch(*module, {.dimension = {{0, 0}}, .from = from, .to = to});
  if (!done) {
    CHECK((done.error().line > 0));
    return done.error().code;
  }
  return ToString(Named(*module, name)->shape(), false);
}

std::string Entry(const std::string& lines) { return "ENTRY e {\n" + lines + "}\n"; }

TEST_CASE("Merged with another dim, examples are the same part of it", "[resize]") {
  const std::string lines =
      "  x = f32[4,6] parameter(0)\n  flat = f32[24] reshape(x)\n"
      "  one = f32[] constant(1)\n  ones = f32[24] broadcast(one), dimensions={}\n"
      "  sum = f32[24] add(flat, ones)\n  back = f32[8,3] reshape(sum)\n";
  const std::string transpose = "t = f32[3,8] transpose(back), dimensions={1,0}\n";
  const std::string text = Entry(lines + "  ROOT " + transpose);
  CHECK(ShapeAt(4, 8, text, "ones") == "f32[48]");
  CHECK(ShapeAt(4, 6, text, "back") == "f32[12,3]");
  CHECK(ShapeAt(4, 6, text, "t") == "f32[3,12]");
  // Four examples of two halves each, behind three: [3, 4, 2] as [6, 4] cuts them.
  const std::string cut = Entry(lines + "  " + transpose + "  ROOT r = f32[6,4] reshape(t)\n");
  CHECK(ShapeAt(4, 8, cut, "r") == "E-BATCH-002");
}

TEST_CASE("Loops, branches and calls hand examples on", "[resize]") {
  const std::string text =
      "more {\n  p = (s32[], f32[4]) parameter(0)\n"
      "  i = s32[] get-tuple-element(p), index=0\n  n = s32[] constant(3)\n"
      "  ROOT less = pred[] compare(i, n), direction=LT\n}\n"
      "f {\n  a = f32[4] parameter(0)\n  ROOT b = f32[4] sine(a)\n}\n"
      "body {\n  q = (s32[], f32[4]) parameter(0)\n"
      "  j = s32[] get-tuple-element(q), index=0\n  v = f32[4] get-tuple-element(q), index=1\n"
      "  w = f32[4] call(v), to_apply=f\n  k = s32[] constant(1)\n  next = s32[] add(j, k)\n"
      "  ROOT s = (s32[], f32[4]) tuple(next, w)\n}\n" +
      Entry(
          "  x = f32[4] parameter(0)\n  zero = s32[] constant(0)\n"
          "  init = (s32[], f32[4]) tuple(zero, x)\n"
          "  run = (s32[], f32[4]) while(init), condition=more, body=body\n"
          "  ROOT y = f32[4] get-tuple-element(run), index=1\n");
  CHECK(ShapeAt(4, 5, text, "b") == "f32[5]");
  CHECK(ShapeAt(4, 5, text, "p") == "(s32[], f32[5])");
  CHECK(ShapeAt(4, 5, text, "y") == "f32[5]");
}

TEST_CASE("A constant that others share makes no examples of them", "[resize]") {
  const auto text = [](const char* shared) {
    return Entry(
        "  x = f32[4] parameter(0)\n  w = f32[4] parameter(1)\n  zero = f32[] constant(0)\n"
        "  zeros = f32[4] broadcast(zero), dimensions={}\n"
        "  others = f32[4] broadcast(zero), dimensions={}\n"
        "  a = f32[4] add(x, zeros)\n  v = f32[4] add(w, " +
        std::string(shared) + ")\n  ROOT y = (f32[4], f32[4]) tuple(a, v)\n");
  };
  CHECK(ShapeAt(4, 8, text("others"), "y") == "(f32[8], f32[4])");
  CHECK(ShapeAt(4, 8, text("zeros"), "y") == "E-BATCH-002");
}

TEST_CASE("Joined batches grow together", "[resize]") {
  const std::string text = Entry(
      "  x = f32[4,8] parameter(0)\n  both = f32[8,8] concatenate(x, x), dimensions={0}\n"
      "  s = f32[8,8] sine(both)\n  ROOT first = f32[8,4] slice(s), slice={[0:8], [4:8]}\n");
  CHECK(ShapeAt(4, 6, text, "first") == "f32[12,4]");
  CHECK(ShapeAt(4, 6,
                Entry("  x = f32[4] parameter(0)\n  one = f32[1] constant({1})\n"
                      "  ROOT y = f32[5] concatenate(x, one), dimensions={0}\n"),
                "y") == "E-BATCH-002");
}

TEST_CASE("Slices and pads of whole batches grow with them", "[resize]") {
  const std::string text = Entry(
      "  x = f32[4,3] parameter(0)\n  both = f32[8,3] concatenate(x, x), dimensions={0}\n"
      "  second = f32[4,3] slice(both), slice={[4:8], [0:3]}\n  zero = f32[] constant(0)\n"
      "  third = f32[16,3] pad(second, zero), padding=8_4x0_0\n"
      "  ROOT tail = f32[8,2] slice(third), slice={[8:16], [1:3]}\n");
  CHECK(ShapeAt(4, 6, text, "second") == "f32[6,3]");
  CHECK(ShapeAt(4, 6, text, "third") == "f32[24,3]");
  CHECK(ShapeAt(4, 6, text, "tail") == "f32[12,2]");
  for (const char* line : {"s = f32[4,3] slice(both), slice={[2:6], [0:3]}",
                           "s = f32[2,3] slice(both), slice={[0:8:4], [0:3]}"}) {
    INFO(line);
    const std::string part = text.substr(0, text.find("  second")) + "  ROOT " + line + "\n}\n";
    CHECK(ShapeAt(4, 6, part, "s") == "E-BATCH-002");
  }
}

TEST_CASE("A region has its share of the examples", "[resize]") {
  const std::string text = Entry(
      "  x = f32[8,4] parameter(0), sharding={devices=[2,1]<=[2]}\n"
      "  in = f32[4,4] custom-call(x), custom_call_target=\"SPMDFullToShardShape\", "
      "sharding={manual}\n  y = f32[4,4] sine(in), sharding={manual}\n"
      "  ROOT out = f32[8,4] custom-call(y), custom_call_target=\"SPMDShardToFullShape\", "
      "sharding={devices=[2,1]<=[2]}\n");
  CHECK(ShapeAt(8, 12, text, "y") == "f32[6,4]");
  CHECK(ShapeAt(8, 9, text, "y") == "E-BATCH-003");
}

TEST_CASE("Parts, groups and unknown kernels have no other batch", "[resize]") {
  const std::string x = "  x = f32[8,4] parameter(0)\n";
  for (const char* line : {
           "  ROOT y = f32[7,4] slice(x), slice={[1:8], [0:4]}\n",
           "  ROOT y = f32[2,4,4] reshape(x)\n",
           "  z = f32[] constant(0)\n  ROOT y = f32[9,4] pad(x, z), padding=1_0x0_0\n",
           "  ROOT y = f32[8,4] custom-call(x), custom_call_target=\"mine\"\n",
           "  i = s32[] constant(2)\n  o = s32[] constant(0)\n"
           "  ROOT y = f32[1,4] dynamic-slice(x, i, o), dynamic_slice_sizes={1,4}\n",
           "  c = f32[8] constant({1,2,3,4,5,6,7,8})\n"
           "  b = f32[8,4] broadcast(c), dimensions={0}\n  ROOT y = f32[8,4] add(x, b)\n",
       }) {
    INFO(line);
    CHECK(ShapeAt(8, 16, Entry(x + line), "y") == "E-BATCH-002");
  }
  CHECK(ShapeAt(1, 16, Entry("  ROOT x = f32[1] parameter(0)\n"), "x") == "E-BATCH-001");
}

TEST_CASE("Sizes in attributes and in the header follow", "[resize]") {
  auto module =
      Parsed("HloModule m, entry_computation_layout={(f32[4,8]{1,0}, s32[3]{0})->f32[4,3]{1,0}}\n" +
             Entry("  x = f32[4,8] parameter(0)\n  i = s32[3] parameter(1)\n"
                   "  ROOT y = f32[4,3] gather(x, i), offset_dims={0}, collapsed_slice_dims={1}, "
                   "start_index_map={1}, index_vector_dim=1, slice_sizes={4,1}\n"));
  REQUIRE(ResizeBatch(*module, {.dimension = {{0, 0}}, .from = 4, .to = 10}));
  CHECK(Named(*module, "y")->attributes<GatherAttributes>().slice_sizes[0] == 10);
  CHECK(module->header().entry_parameter_layouts[0]->dim(0) == 10);
  CHECK(module->header().entry_result_layout->dim(0) == 10);
}

}  // namespace
}  // namespace gshard
