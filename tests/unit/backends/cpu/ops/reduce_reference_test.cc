// Reductions, windows and scans against the reference evaluator.
#include <catch2/catch.hpp>

#include "tests/unit/backends/cpu/ops/random_case.h"

namespace gshard::cpu::testing {

TEST_CASE("random scan", "[kernels][reference]") {
  RunCases(8, [](Dice& dice) {
    const Index dims = dice.Sizes(2, 1, 7);
    const size_t dim = static_cast<size_t>(dice.Roll(0, 1));
    const std::string slice = ShapeText("s32", {dims[1 - dim]});
    Case test;
    test.parameters = {ShapeText("s32", dims), slice};
    test.computations = fmt::format(
        "f {{ e = {0} parameter(0) c = {0} parameter(1) t = s32[] constant(3) b = {0} "
        "broadcast(t), dimensions={{}} m = {0} multiply(c, b) s = {0} add(m, e) o = {0} "
        "reverse(s), "
        "dimensions={{0}} ROOT r = ({0}, {0}) tuple(o, s) }}\n",
        slice);
    test.body = fmt::format(
        "  ROOT r = ({}, {}) scan(p0, p1), dimensions={{{}}}, num_carries=1, is_reverse={}, "
        "to_apply=f",
        ShapeText("s32", dims), slice, dim, dice.Flip());
    return test;
  });
}

TEST_CASE("random reduce", "[kernels][reference]") {
  const auto run = [](const std::string& type, const std::string& opcode, double ulps) {
    RunCases(6, [&](Dice& dice) {
      const int64_t rank = dice.Roll(1, 4);
      const Index dims = dice.Sizes(rank, 1, dice.Flip() ? 4 : 11), reduced = dice.Subset(rank);
      Index kept;
      for (int64_t d = 0; d < rank; ++d) {
        if (std::find(reduced.begin(), reduced.end(), d) == reduced.end()) {
          kept.push_back(dims[static_cast<size_t>(d)]);
        }
      }
      Case test;
      test.parameters = {ShapeText(type, dims), type + "[]"};
      test.computations = Fold("f", type, opcode);
      test.body = fmt::format("  ROOT r = {} reduce(p0, p1), dimensions={{{}}}, to_apply=f",
                              ShapeText(type, kept), List(reduced));
      test.ulps = ulps;
      test.relative_to_largest = true;
      return test;
    });
  };
  for (const std::string type : {"f32", "f64", "s32", "u8", "s64", "c64"}) run(type, "add", 64);
  for (const std::string& type : Joined({kFloats, kTinyFloats, kIntegers})) {
    run(type, "maximum", 0);
    run(type, "minimum", 0);
  }
  for (const std::string& type : kIntegers) {
    for (const std::string opcode : {"add", "multiply", "and", "or", "xor"}) run(type, opcode, 0);
  }
  run("pred", "or", 0);
  run("pred", "and", 0);
  run("pred", "xor", 0);
  RunCases(6, [](Dice& dice) {  // the place of the largest
    const Index dims = dice.Sizes(2, 1, 40);
    const int64_t dim = dice.Roll(0, 1);
    const int64_t kept = dims[static_cast<size_t>(1 - dim)];
    Case test;
    test.parameters = {ShapeText("f32", dims), "f32[]", "s32[]"};
    test.computations =
        "f { a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] "
        "parameter(3) p = pred[] compare(a, b), direction=GE v = f32[] select(p, a, b) k = s32[] "
        "select(p, i, j) ROOT t = (f32[], s32[]) tuple(v, k) }\n";
    test.body = fmt::format(
        "  n = {0} iota(), iota_dimension={1}\n  ROOT r = (f32[{2}], s32[{2}]) reduce(p0, n, p1, "
        "p2), dimensions={{{1}}}, to_apply=f",
        ShapeText("s32", dims), dim, kept);
    return test;
  });
}

TEST_CASE("random arg-max", "[kernels][reference]") {
  for (const std::string type : {"f32", "f64", "bf16"}) {
    for (const std::string direction : {"GT", "LT"}) {
      for (const bool has_nans : {false, true}) {
        RunCases(6, [&](Dice& dice) {
          // Whole numbers up to 63 or 1023: there are ties, and there are rows with one NaN.
          const Index dims = {dice.Roll(1, 5), dice.Flip() ? dice.Roll(1, 40) : dice.Roll(60, 400)};
          const int64_t dim = dice.Roll(0, 3) == 0 ? 0 : 1;
          const int64_t kept = dims[static_cast<size_t>(1 - dim)];
          const std::string index = type == "f64" ? "s64" : "s32";
          Case test;
          test.parameters = {ShapeText("u32", dims)};
          test.computations = fmt::format(
              "f {{ a = {0}[] parameter(0) i = {1}[] parameter(1) b = {0}[] parameter(2) j = {1}[] "
              "parameter(3) g = pred[] compare(a, b), direction={2} n = pred[] compare(a, a), "
              "direction=NE o = pred[] or(g, n) v = {0}[] select(o, a, b) e = pred[] compare(a, "
              "b), direction=EQ l = pred[] compare(i, j), direction=LT t = pred[] and(e, l) q = "
              "pred[] or(o, t) k = {1}[] select(q, i, j) ROOT r = ({0}[], {1}[]) tuple(v, k) }}\n",
              type, index, direction);
          const std::string whole = ShapeText("u32", dims), values = ShapeText(type, dims),
                            pred = ShapeText("pred", dims);
          test.body = fmt::format(
              "  c = u32[] constant({7})\n  m = {0} broadcast(c), dimensions={{}}\n  w = {0} "
              "and(p0, m)\n  x = {1} convert(w)\n  z = u32[] "
              "constant({8})\n  y = {0} broadcast(z), dimensions={{}}\n  h = {2} compare(w, y), "
              "direction=EQ\n  u = {1} subtract(x, x)\n  q = {1} divide(u, u)\n  s = {1} "
              "select(h, q, x)\n  n = {3} iota(), iota_dimension={4}\n  v = {5}[] "
              "constant({9})\n  i = {6}[] constant(0)\n  ROOT r = ({5}[{10}], {6}[{10}]) "
              "reduce(s, n, v, i), dimensions={{{4}}}, to_apply=f",
              whole, values, pred, ShapeText(index, dims), dim, type, index,
              dice.Flip() ? 63 : 1023, has_nans ? 5 : 2000, direction == "GT" ? "-inf" : "inf",
              kept);
          return test;
        });
      }
    }
  }
}

TEST_CASE("random windows", "[kernels][reference]") {
  for (const std::string type : {"f32", "s32", "bf16"}) {
    for (const std::string opcode : {"add", "maximum", "minimum", "multiply"}) {
      if (type == "bf16" && opcode == "add") continue;  // rounds after every step or once
      RunCases(8, [&](Dice& dice) {
        const int64_t rank = dice.Roll(1, 3);
        Index dims = dice.Sizes(rank, 1, 7);
        if (dice.Roll(0, 3) == 0) dims.back() = dice.Roll(1100, 2300);  // more than a tile
        Index out;
        std::string size, stride, pad, base, dilation;
        for (int64_t d = 0; d < rank; ++d) {
          const bool channels = d > 0 && d + 1 == rank && dice.Flip();  // without a window
          const int64_t k = channels ? 1 : dice.Roll(1, 3), step = channels ? 1 : dice.Roll(1, 3),
                        b = channels ? 1 : dice.Roll(1, 2), w = dice.Roll(1, 2),
                        low = channels ? 0 : dice.Roll(-1, 2),
                        high = channels ? 0 : dice.Roll(-1, 2);
          const int64_t whole =
              (dims[static_cast<size_t>(d)] - 1) * b + 1 + low + high - ((k - 1) * w + 1);
          out.push_back(whole < 0 ? 0 : whole / step + 1);
          const std::string x = d > 0 ? "x" : "";
          size += x + std::to_string(k);
          stride += x + std::to_string(step);
          pad += fmt::format("{}{}_{}", x, low, high);
          base += x + std::to_string(b);
          dilation += x + std::to_string(w);
        }
        Case test;
        test.parameters = {ShapeText(type, dims)};
        test.computations = Fold("f", type, opcode);
        const std::string identity = opcode == "add"        ? "0"
                                     : opcode == "multiply" ? "1"
                                     : type == "s32"
                                         ? (opcode == "maximum" ? "-2147483648" : "2147483647")
                                         : (opcode == "maximum" ? "-inf" : "inf");
        test.body = fmt::format(
            "  i = {}[] constant({})\n  ROOT r = {} reduce-window(p0, i), window={{size={} "
            "stride={} pad={} lhs_dilate={} rhs_dilate={}}}, to_apply=f",
            type, identity, ShapeText(type, out), size, stride, pad, base, dilation);
        test.ulps = 32;
        test.relative_to_largest = true;
        return test;
      });
    }
  }
  for (const std::string select : {"GE", "GT"}) {
    RunCases(8, [&](Dice& dice) {
      const Index dims = dice.Sizes(2, 2, 8);
      Index out;
      std::string size, stride, pad;
      for (size_t d = 0; d < 2; ++d) {
        const int64_t k = dice.Roll(1, std::min<int64_t>(3, dims[d])), step = dice.Roll(1, 3);
        const int64_t low = dice.Roll(0, k - 1);
        out.push_back((dims[d] + low - k) / step + 1);
        const std::string x = d > 0 ? "x" : "";
        size += x + std::to_string(k);
        stride += x + std::to_string(step);
        pad += fmt::format("{}{}_0", x, low);
      }
      Case test;
      test.parameters = {ShapeText("f32", dims), ShapeText("f32", out), "f32[]"};
      test.computations =
          "s { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] "
          "compare(a, b), direction=" +
          select + " }\n" + Fold("f", "f32", "add");
      test.body = fmt::format(
          "  ROOT r = {} select-and-scatter(p0, p1, p2), window={{size={} stride={} pad={}}}, "
          "select=s, scatter=f",
          ShapeText("f32", dims), size, stride, pad);
      test.ulps = 16;
      test.relative_to_largest = true;
      return test;
    });
  }
}

}  // namespace gshard::cpu::testing
