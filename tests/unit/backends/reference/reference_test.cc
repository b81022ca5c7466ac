// Vectors of docs/semantics.md pin the reference evaluator itself.
#include "tests/reference/reference.h"

#include <catch2/catch.hpp>

#include "tests/unit/backends/cpu/ops/kernel_runner.h"

namespace gshard::cpu::testing {

TEST_CASE("the reference itself: vectors of docs/semantics.md", "[kernels][reference]") {
  const auto check = [](const std::string& body, const std::string& computations = "") {
    const auto module = Parse("HloModule m\n" + computations + "ENTRY e {\n" + body + "\n}\n");
    const ReferenceValue root = EvaluateReference(*module->entry(), {});
    for (size_t k = 0; k < root.elements.size() / 2; ++k) {
      const std::vector<std::byte> actual = ToBytes(root.elements[k]);
      INFO(body << "\nresult " << k);
      CHECK(actual == ToBytes(root.elements[root.elements.size() / 2 + k]));
    }
  };
  check(R"(
    a = s32[8] constant({-7,7,5,-2147483648,-8,1,0,3})
    b = s32[8] constant({2,0,0,-1,33,32,-1,-1})
    d = s32[8] divide(a, b)
    m = s32[8] remainder(a, b)
    s = s32[8] shift-right-arithmetic(a, b)
    p = s32[8] power(a, b)
    ed = s32[8] constant({-3,-1,-1,-2147483648,0,0,0,-3})
    em = s32[8] constant({-1,7,5,0,-8,1,0,0})
    es = s32[8] constant({-2,7,5,-1,-1,0,0,0})
    ep = s32[8] constant({49,1,1,0,0,1,0,0})
    ROOT r = tuple(d, m, s, p, ed, em, es, ep))");
  check(R"(
    x = f32[6] constant({inf,-1e10,-0.9,127.5,-129,255.9})
    a = s32[6] convert(x)
    b = s8[6] convert(x)
    c = u8[6] convert(x)
    ea = s32[6] constant({2147483647,-2147483648,0,127,-129,255})
    eb = s8[6] constant({127,-128,0,127,-128,127})
    ec = u8[6] constant({255,0,0,127,0,255})
    ROOT r = tuple(a, b, c, ea, eb, ec))");
  check(R"(
    x = s32[5] constant({1,2,3,4,5})
    v = s32[] constant(9)
    a = s32[6] pad(x, v), padding=-1_2
    b = s32[8] pad(x, v), padding=2_-3_1
    ea = s32[6] constant({2,3,4,5,9,9})
    eb = s32[8] constant({9,9,1,9,2,9,3,9})
    ROOT r = tuple(a, b, ea, eb))");
  const std::string region =
      "f { a = s32[] parameter(0) b = s32[] parameter(1) t = s32[] constant(10) c = s32[] "
      "multiply(a, t) ROOT r = s32[] add(c, b) }\ng { a = s32[] parameter(0) b = s32[] "
      "parameter(1) ROOT r = s32[] add(a, b) }\nge { a = s32[] parameter(0) b = s32[] parameter(1) "
      "ROOT r = pred[] compare(a, b), direction=GE }\ngt { a = s32[] parameter(0) b = s32[] "
      "parameter(1) ROOT r = pred[] compare(a, b), direction=GT }\n";
  check(R"(
    x = s32[2,2] constant({{1,2},{3,4}})
    z = s32[] constant(0)
    h = s32[] constant(100)
    a = s32[] reduce(x, z), dimensions={1,0}, to_apply=f
    w = s32[6] constant({1,2,3,4,5,6})
    b = s32[6] reduce-window(w, h), window={size=3 pad=1_1}, to_apply=g
    y = s32[6] constant({1,3,3,1,2,2})
    s = s32[3] constant({10,20,30})
    c = s32[6] select-and-scatter(y, s, z), window={size=2 stride=2}, select=ge, scatter=g
    d = s32[6] select-and-scatter(y, s, z), window={size=2 stride=2}, select=gt, scatter=g
    o = s32[4] constant({1,1,1,1})
    i = s32[4,1] constant({{2},{2},{0},{2}})
    u = s32[4] constant({3,4,5,6})
    e = s32[4] scatter(o, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f
    ea = s32[] constant(1234)
    eb = s32[6] constant({103,106,109,112,115,111})
    ec = s32[6] constant({0,10,20,0,30,0})
    ed = s32[6] constant({0,10,20,0,0,30})
    ee = s32[4] constant({15,1,1346,1})
    ROOT r = tuple(a, b, c, d, e, ea, eb, ec, ed, ee))",
        region);
}

}  // namespace gshard::cpu::testing
