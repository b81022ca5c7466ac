#include "core/analysis/index_inputs.h"

#include <fmt/format.h>

#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

// "leaf k: 0..7+ 0..3 / reader, reader": + has beyond, components one after another.
std::string Text(const IndexInput& input) {
  std::string text = fmt::format("leaf {}:", input.leaf);
  for (const IndexRange& range : input.ranges) {
    text += fmt::format(" {}..{}{}", range.low, range.high, range.has_beyond ? "+" : "");
  }
  if (input.component_dim >= 0) text += fmt::format(" along {}", input.component_dim);
  if (input.is_distinct) text += " distinct";
  if (input.is_sorted) text += " sorted";
  if (input.ends_loop) text += " small";
  std::string names;
  for (const std::string& reader : input.readers) names += (names.empty() ? "" : ", ") + reader;
  return text + " / " + names;
}

std::vector<std::string> Found(const std::string& text, int64_t devices = 1) {
  auto module = Parsed("HloModule m\n" + text);
  std::vector<std::string> texts;
  for (const IndexInput& input : FindIndexInputs(*module, devices)) texts.push_back(Text(input));
  return texts;
}

std::vector<std::string> OfEntry(const std::string& body, int64_t devices = 1) {
  return Found("ENTRY e {\n" + body + "\n}", devices);
}

using Texts = std::vector<std::string>;

TEST_CASE("each component of an index vector has its own range", "[analysis]") {
  // Of a gather along the last dim, and along the first.
  CHECK(OfEntry(R"(  x = f32[64,16,4] parameter(0)
  i = s32[32,2] parameter(1)
  ROOT g = f32[32,2,4] gather(x, i), offset_dims={1,2}, collapsed_slice_dims={0},
    start_index_map={1,0}, index_vector_dim=1, slice_sizes={1,2,4})") ==
        Texts{"leaf 1: 0..14+ 0..63+ along 1 / g"});
  CHECK(OfEntry(R"(  x = f32[64,16] parameter(0)
  i = s32[2,32] parameter(1)
  ROOT g = f32[32] gather(x, i), offset_dims={}, collapsed_slice_dims={0,1},
    start_index_map={0,1}, index_vector_dim=0, slice_sizes={1,1})") ==
        Texts{"leaf 1: 0..63+ 0..15+ along 0 / g"});
  // Put together of two parameters, through reshapes; transposed.
  CHECK(OfEntry(R"(  x = f32[64,16] parameter(0)
  a = s32[32] parameter(1)
  b = s32[1,32] parameter(2)
  a1 = s32[32,1] reshape(a)
  b1 = s32[32,1] transpose(b), dimensions={1,0}
  i = s32[32,2] concatenate(a1, b1), dimensions={1}
  ROOT g = f32[32] gather(x, i), offset_dims={}, collapsed_slice_dims={0,1},
    start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1})") ==
        Texts{"leaf 1: 0..63+ / g", "leaf 2: 0..15+ along 0 / g"});
  // Rows of a leaf index other things.
  CHECK(OfEntry(R"(  x = f32[64] parameter(0)
  y = f32[8] parameter(1)
  i = s32[2,5] parameter(2)
  i0 = s32[1,5] slice(i), slice={[0:1],[0:5]}
  i1 = s32[1,5] slice(i), slice={[1:2],[0:5]}
  g0 = f32[1,5] gather(x, i0), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0},
    index_vector_dim=2, slice_sizes={1}
  g1 = f32[1,5] gather(y, i1), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0},
    index_vector_dim=2, slice_sizes={1}
  ROOT r = f32[1,5] add(g0, g1))") == Texts{"leaf 2: 0..63+ / g0, g1"});
}

TEST_CASE("starts of slices and updates, numbers of branches, updates of a scatter", "[analysis]") {
  CHECK(OfEntry(R"(  x = f32[64,16] parameter(0)
  u = f32[4,16] parameter(1)
  s = s32[] parameter(2)
  z = s32[] constant(0)
  d = f32[8,16] dynamic-slice(x, s, z), dynamic_slice_sizes={8,16}
  w = f32[64,16] dynamic-update-slice(x, u, s, z)
  ROOT t = (f32[8,16], f32[64,16]) tuple(d, w))") == Texts{"leaf 2: 0..60+ / d, w"});
  CHECK(Found(R"(b0 { ROOT x = f32[] parameter(0) }
b1 { y = f32[] parameter(0)
  ROOT n = f32[] negate(y) }
b2 { z = f32[] parameter(0)
  ROOT e = f32[] exponential(z) }
ENTRY e {
  i = s32[] parameter(0)
  p = pred[] parameter(1)
  x = f32[] parameter(2)
  c = f32[] conditional(i, x, x, x), branch_computations={b0, b1, b2}
  ROOT d = f32[] conditional(p, c, c), true_computation=b0, false_computation=b1
})") == Texts{"leaf 0: 0..2+ / c", "leaf 1: 0..1 / d"});
  CHECK(Found(R"(add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[16,4] parameter(0)
  i = s32[40] parameter(1)
  u = f32[40,2,4] parameter(2)
  ROOT s = f32[16,4] scatter(x, i, u), update_window_dims={1,2}, inserted_window_dims={},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, unique_indices=true, to_apply=add
})") == Texts{"leaf 1: 0..14+ distinct / s"});
}

TEST_CASE("arithmetic on the way is undone", "[analysis]") {
  const auto range = [](const std::string& arithmetic, int64_t devices = 1) {
    const Texts found = OfEntry(fmt::format(R"(  x = f32[64] parameter(0)
  p = s32[] parameter(1)
{}
  ROOT d = f32[4] dynamic-slice(x, i), dynamic_slice_sizes={{4}})",
                                            arithmetic),
                                devices);
    REQUIRE(found.size() == 1);
    return found[0].substr(0, found[0].find(" /"));
  };
  CHECK(range("  c = s32[] constant(10)\n  i = s32[] add(p, c)") == "leaf 1: -10..50+");
  CHECK(range("  c = s32[] constant(10)\n  i = s32[] subtract(p, c)") == "leaf 1: 10..70+");
  CHECK(range("  c = s32[] constant(63)\n  i = s32[] subtract(c, p)") == "leaf 1: 3..63+");
  CHECK(range("  c = s32[] constant(8)\n  i = s32[] multiply(c, p)") == "leaf 1: 0..7+");
  CHECK(range("  c = s32[] constant(2)\n  i = s32[] divide(p, c)") == "leaf 1: 0..121+");
  CHECK(range("  c = s32[] constant(0)\n  m = s32[] maximum(p, c)\n  n = s32[] constant(60)\n"
              "  i = s32[] minimum(m, n)") == "leaf 1: 0..60+");
  // JAX counts negative positions from the end.
  CHECK(range("  c = s32[] constant(0)\n  n = s32[] constant(64)\n"
              "  l = pred[] compare(p, c), direction=LT\n  a = s32[] add(p, n)\n"
              "  i = s32[] select(l, a, p)") == "leaf 1: -64..60+");
  // A device's offset: some device sees each position.
  CHECK(range("  k = u32[] partition-id()\n  kk = s32[] convert(k)\n  c = s32[] constant(64)\n"
              "  o = s32[] multiply(kk, c)\n  i = s32[] subtract(p, o)",
              8) == "leaf 1: 0..508+");
}

TEST_CASE("labels lie among the classes, lengths among what they count", "[analysis]") {
  CHECK(OfEntry(R"(  labels = s32[6] parameter(0)
  lengths = s32[4] parameter(1)
  a = s32[6,10] broadcast(labels), dimensions={0}
  i = s32[6,10] iota(), iota_dimension=1
  one_hot = pred[6,10] compare(a, i), direction=EQ
  b = s32[4,9] broadcast(lengths), dimensions={0}
  k = s32[9] iota(), iota_dimension=0
  kb = s32[4,9] broadcast(k), dimensions={1}
  mask = pred[4,9] compare(kb, b), direction=LT
  ROOT t = (pred[6,10], pred[4,9]) tuple(one_hot, mask))") ==
        Texts{"leaf 0: 0..9+ / one_hot", "leaf 1: 0..9+ / mask"});
}

TEST_CASE("what would be read out of range as NaN is drawn in range", "[analysis]") {
  const std::string lines = R"(  x = f32[64] parameter(0)
  i = s32[5,1] parameter(1)
  g = f32[5] gather(x, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0},
    index_vector_dim=1, slice_sizes={1}
  in = pred[5] parameter(2)
  n = f32[] constant(nan)
  nb = f32[5] broadcast(n), dimensions={}
)";
  // With explicit shardings, JAX constrains the NaN, too.
  CHECK(OfEntry(lines + R"(  placed = f32[5] custom-call(nb), custom_call_target="Sharding",
    sharding={replicated}
  ROOT r = f32[5] select(in, g, placed))") == Texts{"leaf 1: 0..63 along 1 / g"});
  CHECK(OfEntry(lines + "  ROOT r = f32[5] select(in, g, nb)") ==
        Texts{"leaf 1: 0..63 along 1 / g"});
}

TEST_CASE("integers are followed through tuples, calls, loops and branches", "[analysis]") {
  CHECK(Found(R"(f { x = f32[64] parameter(0)
  i = s32[] parameter(1)
  ROOT d = f32[4] dynamic-slice(x, i), dynamic_slice_sizes={4} }
cond { s = (s32[], s32[], s32[], f32[64]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  ROOT l = pred[] compare(k, n), direction=LT }
body { s = (s32[], s32[], s32[], f32[64]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  i = s32[] get-tuple-element(s), index=2
  x = f32[64] get-tuple-element(s), index=3
  one = s32[] constant(1)
  k1 = s32[] add(k, one)
  v = f32[4] call(x, i), to_apply=f
  y = f32[64] dynamic-update-slice(x, v, k)
  ROOT t = (s32[], s32[], s32[], f32[64]) tuple(k1, n, i, y) }
ENTRY e {
  x = f32[64] parameter(0)
  p = (s32[], s32[]) parameter(1)
  n = s32[] get-tuple-element(p), index=0
  i = s32[] get-tuple-element(p), index=1
  z = s32[] constant(0)
  t = (s32[], s32[], s32[], f32[64]) tuple(z, n, i, x)
  ROOT w = (s32[], s32[], s32[], f32[64]) while(t), condition=cond, body=body
})") == Texts{"leaf 2: 0..60+ / d"});
  // A position from which a loop counts, and what it indexes: small, or the loop runs for long.
  CHECK(Found(R"(cond { s = (s32[], f32[64]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  n = s32[] constant(40)
  ROOT l = pred[] compare(k, n), direction=LT }
body { s = (s32[], f32[64]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  x = f32[64] get-tuple-element(s), index=1
  one = s32[] constant(1)
  k1 = s32[] add(k, one)
  v = f32[1] dynamic-slice(x, k), dynamic_slice_sizes={1}
  y = f32[64] dynamic-update-slice(x, v, k1)
  ROOT t = (s32[], f32[64]) tuple(k1, y) }
ENTRY e {
  x = f32[64] parameter(0)
  n = s32[] parameter(1)
  t = (s32[], f32[64]) tuple(n, x)
  ROOT w = (s32[], f32[64]) while(t), condition=cond, body=body
})")
            .front()
            .find("leaf 1: -1..3 small") == 0);
  // An integer that is compared where a branch is chosen lies on either side.
  CHECK(Found(R"(b0 { ROOT x = f32[] parameter(0) }
b1 { y = f32[] parameter(0)
  ROOT n = f32[] negate(y) }
ENTRY e {
  i = s32[] parameter(0)
  x = f32[] parameter(1)
  c = s32[] constant(100)
  l = pred[] compare(i, c), direction=LT
  ROOT d = f32[] conditional(l, x, x), true_computation=b0, false_computation=b1
})") == Texts{"leaf 0: 99..101 / d"});
}

TEST_CASE("integers that index nothing are left out, pages are followed", "[analysis]") {
  CHECK(OfEntry("  x = s32[8] parameter(0)\n  ROOT y = s32[8] add(x, x)").empty());
  // A table of pages: its elements index, and so do those that index it.
  CHECK(OfEntry(R"(  cache = f32[32,16] parameter(0)
  pages = s32[8] parameter(1)
  p = s32[] parameter(2)
  page = s32[1] dynamic-slice(pages, p), dynamic_slice_sizes={1}
  i = s32[] reshape(page)
  z = s32[] constant(0)
  ROOT d = f32[1,16] dynamic-slice(cache, i, z), dynamic_slice_sizes={1,16})") ==
        Texts{"leaf 1: 0..31+ / d", "leaf 2: 0..7+ / page"});
}

}  // namespace
}  // namespace gshard
