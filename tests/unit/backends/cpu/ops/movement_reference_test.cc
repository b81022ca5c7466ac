// Kernels that move data against the reference evaluator.
#include <catch2/catch.hpp>

#include "tests/unit/backends/cpu/ops/random_case.h"

namespace gshard::cpu::testing {

TEST_CASE("random data movement", "[kernels][reference]") {
  for (const std::string& type : kAll) {
    RunCases(6, [&](Dice& dice) {  // broadcast, transpose, reverse, reshape
      const int64_t rank = dice.Roll(0, 4);
      const Index dims = dice.Sizes(rank, 1, 5);
      const Index order = dice.Permutation(rank);
      Index transposed, target;
      for (const int64_t d : order) transposed.push_back(dims[static_cast<size_t>(d)]);
      Index places = dice.Permutation(rank + 1);
      places.pop_back();
      Index broadcast = dice.Sizes(rank + 1, 1, 4);
      for (size_t k = 0; k < places.size(); ++k)
        broadcast[static_cast<size_t>(places[k])] = dims[k];
      const int64_t count =
          std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
      Case test;
      test.parameters = {ShapeText(type, dims)};
      test.body = fmt::format(
          "  a = {} transpose(p0), dimensions={{{}}}\n  b = {} broadcast(p0), "
          "dimensions={{{}}}\n  c = {} reverse(p0), dimensions={{{}}}\n  d = {}[{}] reshape(p0)\n  "
          "ROOT r = tuple(a, b, c, d)",
          ShapeText(type, transposed), List(order), ShapeText(type, broadcast), List(places),
          ShapeText(type, dims), List(dice.Subset(rank)), type, count);
      return test;
    });
    RunCases(6, [&](Dice& dice) {  // slice, pad, concatenate
      const int64_t rank = dice.Roll(1, 3);
      const Index dims = dice.Sizes(rank, 1, 6);
      Index sliced, padded;
      std::string slice, pad;
      for (const int64_t size : dims) {
        const int64_t start = dice.Roll(0, size), limit = dice.Roll(start, size);
        const int64_t stride = dice.Roll(1, 3);
        sliced.push_back((limit - start + stride - 1) / stride);
        slice += fmt::format("{}[{}:{}:{}]", slice.empty() ? "" : ", ", start, limit, stride);
        const int64_t low = dice.Roll(-2, 3), high = dice.Roll(-2, 3), interior = dice.Roll(0, 2);
        const int64_t whole = low + high + size + (size - 1) * interior;
        const int64_t extra = std::max<int64_t>(-whole, 0);  // not below empty
        padded.push_back(whole + extra);
        pad += fmt::format("{}{}_{}_{}", pad.empty() ? "" : "x", low, high + extra, interior);
      }
      const int64_t dim = dice.Roll(0, rank - 1);
      Index joined = dims, other = dims;
      other[static_cast<size_t>(dim)] = dice.Roll(0, 4);
      joined[static_cast<size_t>(dim)] =
          2 * dims[static_cast<size_t>(dim)] + other[static_cast<size_t>(dim)];
      Case test;
      test.parameters = {ShapeText(type, dims), type + "[]", ShapeText(type, other)};
      test.body = fmt::format(
          "  a = {} slice(p0), slice={{{}}}\n  b = {} pad(p0, p1), padding={}\n  c = {} "
          "concatenate(p0, p2, p0), dimensions={{{}}}\n  ROOT r = tuple(a, b, c)",
          ShapeText(type, sliced), slice, ShapeText(type, padded), pad, ShapeText(type, joined),
          dim);
      return test;
    });
    RunCases(4, [&](Dice& dice) {  // dynamic slices
      const int64_t rank = dice.Roll(1, 3);
      const Index dims = dice.Sizes(rank, 1, 6);
      Index sizes;
      for (const int64_t size : dims) sizes.push_back(dice.Roll(1, size));
      Case test;
      test.parameters = {ShapeText(type, dims), ShapeText(type, sizes)};
      std::string indices;
      const std::string index = dice.Pick<std::string>({"s32", "u8", "s64"});
      for (int64_t d = 0; d < rank; ++d) {
        indices += fmt::format(", p{}", test.parameters.size());
        test.parameters.push_back(index + "[]");
      }
      test.body = fmt::format(
          "  a = {} dynamic-slice(p0{}), dynamic_slice_sizes={{{}}}\n  b = {} "
          "dynamic-update-slice(p0, p1{})\n  ROOT r = tuple(a, b)",
          ShapeText(type, sizes), indices, List(sizes), ShapeText(type, dims), indices);
      test.largest_index = 7;
      return test;
    });
  }
  for (const std::string type : {"f32", "bf16", "u8", "s64", "c64"}) {
    RunCases(3, [&](Dice& dice) {
      const Index dims = dice.Sizes(3, 1, 9);
      Case test;
      test.body = fmt::format("  ROOT r = {} iota(), iota_dimension={}", ShapeText(type, dims),
                              dice.Roll(0, 2));
      return test;
    });
  }
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"f32[5]", "u8[5,4]"},
                                                        {"u16[3,2]", "f32[3]"},
                                                        {"u8[4]", "u4[4,2]"},
                                                        {"s4[3,8]", "s32[3]"},
                                                        {"f64[2,3]", "s64[2,3]"},
                                                        {"bf16[7]", "u16[7]"}}) {
    RunCases(1, [&](Dice&) {
      Case test;
      test.parameters = {from};
      test.body = "  ROOT r = " + to + " bitcast-convert(p0)";
      test.special_values = true;
      return test;
    });
  }
}

}  // namespace gshard::cpu::testing
