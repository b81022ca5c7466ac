// Dots and convolutions against the reference evaluator.
#include <catch2/catch.hpp>

#include "tests/unit/backends/cpu/ops/random_case.h"

namespace gshard::cpu::testing {

TEST_CASE("random dot", "[kernels][reference]") {
  struct Types {
    std::string lhs, rhs, result;
  };
  const std::vector<Types> types = {
      {"f32", "f32", "f32"},        {"f64", "f64", "f64"},
      {"bf16", "bf16", "bf16"},     {"f16", "f16", "f32"},
      {"bf16", "bf16", "f32"},      {"s32", "s32", "s32"},
      {"s8", "s8", "s32"},          {"u8", "s8", "s32"},
      {"pred", "pred", "pred"},     {"c64", "c64", "c64"},
      {"c128", "c128", "c128"},     {"s8", "s8", "s8"},
      {"u64", "u64", "u64"},        {"f8e4m3fn", "f8e5m2", "f32"},
      {"f16", "f16", "f16"},        {"bf16", "f32", "f32"},
      {"f32", "f32", "bf16"},       {"f32", "f32", "f64"},
      {"s4", "s4", "s32"},          {"u4", "u4", "u4"},
      {"s64", "s64", "s64"},        {"u32", "u32", "u32"},
      {"f8e5m2", "f8e5m2", "bf16"}, {"f8e4m3b11fnuz", "f8e4m3fnuz", "f16"},
      {"f8e4m3", "f8e3m4", "f32"}};
  for (const Types& type : types) {
    RunCases(12, [&](Dice& dice) {
      const int64_t batch = dice.Roll(0, 2), contracted = dice.Roll(0, 2);
      const Index shared = dice.Sizes(batch + contracted, 1, dice.Flip() ? 4 : 9);
      Index result(shared.begin(), shared.begin() + batch);
      Index sides[2], batch_dims[2], contracting_dims[2];
      for (int side = 0; side < 2; ++side) {
        const int64_t free = dice.Roll(0, 2), rank = batch + contracted + free;
        const Index places = dice.Permutation(rank);
        Index& dims = sides[side];
        dims = dice.Sizes(rank, 1, dice.Flip() ? 5 : 20);
        for (int64_t k = 0; k < batch + contracted; ++k) {
          const int64_t place = places[static_cast<size_t>(k)];
          dims[static_cast<size_t>(place)] = shared[static_cast<size_t>(k)];
          (k < batch ? batch_dims : contracting_dims)[side].push_back(place);
        }
        Index free_places(places.begin() + batch + contracted, places.end());
        std::sort(free_places.begin(), free_places.end());
        for (const int64_t place : free_places) result.push_back(dims[static_cast<size_t>(place)]);
      }
      Case test;
      test.parameters = {ShapeText(type.lhs, sides[0]), ShapeText(type.rhs, sides[1])};
      test.body = fmt::format(
          "  ROOT r = {} dot(p0, p1), lhs_batch_dims={{{}}}, lhs_contracting_dims={{{}}}, "
          "rhs_batch_dims={{{}}}, rhs_contracting_dims={{{}}}",
          ShapeText(type.result, result), List(batch_dims[0]), List(contracting_dims[0]),
          List(batch_dims[1]), List(contracting_dims[1]));
      test.ulps = 8;
      test.relative_to_largest = true;
      return test;
    });
  }
}

TEST_CASE("random ragged and scaled dot", "[kernels][reference]") {
  for (const std::string type : {"f32", "bf16", "s32"}) {
    RunCases(12, [&](Dice& dice) {
      const int64_t m = dice.Roll(1, 9), k = dice.Roll(1, 9), n = dice.Roll(1, 9);
      const int64_t groups = dice.Roll(1, 4);
      Case test;
      test.parameters = {ShapeText(type, {m, k}), ShapeText(type, {groups, k, n}),
                         ShapeText(type, {k, n}), ShapeText(type, {k, 2, 1, 3, m})};
      // Sizes that leave rows over and that ask for more rows than there are.
      std::string sizes;
      for (int64_t g = 0; g < groups; ++g) {
        sizes += fmt::format("{}{}", g > 0 ? ", " : "", dice.Roll(0, 4));
      }
      test.body = fmt::format(
          "  g = s32[{0}] constant({{{1}}})\n  a = {2} ragged-dot(p0, p1, g), "
          "lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}, lhs_ragged_dims={{0}}, "
          "rhs_group_dims={{0}}\n  b = {3} ragged-dot(p0, p2, g), lhs_contracting_dims={{1}}, "
          "rhs_contracting_dims={{0}}, lhs_ragged_dims={{1}}\n  c = {4} ragged-dot(p3, p1, g), "
          "lhs_contracting_dims={{0}}, rhs_contracting_dims={{1}}, lhs_ragged_dims={{4}}, "
          "rhs_group_dims={{0}}\n  ROOT r = tuple(a, b, c)",
          groups, sizes, ShapeText(type, {m, n}), ShapeText(type, {groups, m, n}),
          ShapeText(type, {2, 1, 3, m, n}));
      test.ulps = 8;
      test.relative_to_largest = true;
      return test;
    });
  }
  RunCases(12, [](Dice& dice) {
    const int64_t m = dice.Roll(1, 5), n = dice.Roll(1, 5), blocks = dice.Roll(1, 3),
                  block = dice.Roll(1, 4), k = blocks * block;
    Case test;
    test.parameters = {ShapeText("f8e4m3fn", {m, k}), ShapeText("f8e5m2", {n, k}),
                       ShapeText("bf16", {m, blocks}), ShapeText("f32", {1, blocks})};
    test.body = fmt::format(
        "  ROOT r = f32[{},{}] scaled-dot(p0, p1, p2, p3), lhs_contracting_dims={{1}}, "
        "rhs_contracting_dims={{1}}",
        m, n);
    test.ulps = 16;
    test.relative_to_largest = true;
    return test;
  });
}

TEST_CASE("random convolution", "[kernels][reference]") {
  for (const std::string type : {"f32", "f64", "bf16", "s32", "c64"}) {
    RunCases(16, [&](Dice& dice) {
      const int64_t spatial = dice.Roll(0, 3), rank = spatial + 2;
      const int64_t kind = dice.Roll(0, 2);
      const int64_t feature_groups = kind == 1 ? dice.Roll(2, 3) : 1;
      const int64_t batch_groups = kind == 2 ? dice.Roll(2, 3) : 1;
      const int64_t batch = batch_groups * dice.Roll(1, 2), inputs = dice.Roll(1, 4);
      const int64_t outputs = feature_groups * batch_groups * dice.Roll(1, 4);
      const Index lhs_order = dice.Permutation(rank), rhs_order = dice.Permutation(rank),
                  out_order = dice.Permutation(rank);
      // Roles 0, 1: batch and feature (kernel: input and output feature); then spatial dims.
      Index lhs = {batch, inputs * feature_groups}, rhs = {inputs, outputs},
            out = {batch / batch_groups, outputs};
      std::string size, stride, pad, base, dilation, reversal;
      for (int64_t s = 0; s < spatial; ++s) {
        const int64_t n = dice.Roll(1, 8), k = dice.Roll(1, 3), step = dice.Roll(1, 2);
        const int64_t low = dice.Roll(-1, 2), high = dice.Roll(-1, 2);
        const int64_t base_dilation = dice.Roll(0, 3) == 0 ? 2 : 1;
        const int64_t window_dilation = dice.Roll(1, 2);
        const int64_t whole =
            (n - 1) * base_dilation + 1 + low + high - ((k - 1) * window_dilation + 1);
        lhs.push_back(n);
        rhs.push_back(k);
        out.push_back(whole < 0 ? 0 : whole / step + 1);
        const std::string x = s > 0 ? "x" : "";
        size += x + std::to_string(k);
        stride += x + std::to_string(step);
        pad += fmt::format("{}{}_{}", x, low, high);
        base += x + std::to_string(base_dilation);
        dilation += x + std::to_string(window_dilation);
        reversal += x + std::to_string(dice.Roll(0, 1));
      }
      const auto arrange = [&](const Index& order, const Index& sizes, const std::string& names,
                               std::string& labels) {
        Index dims;
        labels.clear();
        for (const int64_t role : order) {
          dims.push_back(sizes[static_cast<size_t>(role)]);
          labels += role < 2 ? names[static_cast<size_t>(role)] : static_cast<char>('0' + role - 2);
        }
        return dims;
      };
      std::string lhs_labels, rhs_labels, out_labels;
      const Index lhs_dims = arrange(lhs_order, lhs, "bf", lhs_labels);
      const Index rhs_dims = arrange(rhs_order, rhs, "io", rhs_labels);
      const Index out_dims = arrange(out_order, out, "bf", out_labels);
      Case test;
      test.parameters = {ShapeText(type, lhs_dims), ShapeText(type, rhs_dims)};
      test.body = fmt::format(
          "  ROOT r = {} convolution(p0, p1), {}dim_labels={}_{}->{}, feature_group_count={}, "
          "batch_group_count={}",
          ShapeText(type, out_dims),
          spatial == 0 ? ""
                       : fmt::format("window={{size={} stride={} pad={} lhs_dilate={} "
                                     "rhs_dilate={} rhs_reversal={}}}, ",
                                     size, stride, pad, base, dilation, reversal),
          lhs_labels, rhs_labels, out_labels, feature_groups, batch_groups);
      test.ulps = 16;
      test.relative_to_largest = true;
      return test;
    });
  }
}

TEST_CASE("random convolution over long rows", "[kernels][reference]") {
  for (const std::string type : {"f32", "f64", "bf16"}) {
    RunCases(12, [&](Dice& dice) {
      const int64_t features = dice.Roll(1, 5), outputs = dice.Pick<int64_t>({1, 3, 8, 16, 32, 33});
      const bool by_channel = dice.Flip();
      Index in = {dice.Roll(1, 3)}, out = in, kernel;
      if (by_channel) in.push_back(features), out.push_back(outputs);
      std::string size, stride, pad, dilation, reversal;
      const int64_t spatial = dice.Roll(1, 3);
      for (int64_t s = 0; s < spatial; ++s) {
        const bool last = s + 1 == spatial;
        const int64_t k = dice.Roll(1, 4), step = dice.Roll(1, 2), wide = dice.Roll(1, 2);
        const int64_t low = dice.Roll(-2, 3), high = dice.Roll(-2, 3);
        const int64_t n = last ? dice.Roll(36, 50) : dice.Roll(3, 5);
        const int64_t whole = n + low + high - ((k - 1) * wide + 1);
        kernel.push_back(k);
        in.push_back(n);
        out.push_back(whole < 0 ? 0 : whole / step + 1);
        const std::string x = s > 0 ? "x" : "";
        size += x + std::to_string(k);
        stride += x + std::to_string(step);
        pad += fmt::format("{}{}_{}", x, low, high);
        dilation += x + std::to_string(wide);
        reversal += x + std::to_string(dice.Roll(0, 1));
      }
      if (!by_channel) in.push_back(features), out.push_back(outputs);
      kernel.insert(kernel.end(), {features, outputs});
      const std::string positions = std::string("012").substr(0, static_cast<size_t>(spatial));
      const std::string image = by_channel ? "bf" + positions : "b" + positions + "f";
      Case test;
      test.parameters = {ShapeText(type, in), ShapeText(type, kernel)};
      test.body = fmt::format(
          "  ROOT r = {} convolution(p0, p1), window={{size={} stride={} pad={} rhs_dilate={} "
          "rhs_reversal={}}}, dim_labels={}_{}io->{}",
          ShapeText(type, out), size, stride, pad, dilation, reversal, image, positions, image);
      test.ulps = 16;
      test.relative_to_largest = true;
      return test;
    });
  }
}

}  // namespace gshard::cpu::testing
