// Gathers, scatters and sorts against the reference evaluator.
#include <catch2/catch.hpp>

#include "tests/unit/backends/cpu/ops/random_case.h"

namespace gshard::cpu::testing {

TEST_CASE("random gather and scatter", "[kernels][reference]") {
  for (const std::string& type : kAll) {
    RunCases(8, [&](Dice& dice) {
      const int64_t rank = dice.Roll(1, 3);
      const Index dims = dice.Sizes(rank, 2, 5);
      const Index indexed = dice.Subset(rank);  // dims that indices say
      Index batching, collapsed, sizes(dims.size(), 1), window;
      for (int64_t d = 0; d < rank; ++d) {
        const bool is_indexed = std::find(indexed.begin(), indexed.end(), d) != indexed.end();
        const int64_t n = dims[static_cast<size_t>(d)];
        if (!is_indexed && batching.empty() && dice.Roll(0, 3) == 0) {
          batching.push_back(d);
        } else if (is_indexed && dice.Flip()) {
          collapsed.push_back(d);
        } else {
          sizes[static_cast<size_t>(d)] = dice.Roll(1, n);
          window.push_back(sizes[static_cast<size_t>(d)]);
        }
      }
      // Indices: one batch dim or two, the vector's dim anywhere.
      Index batch = dice.Sizes(dice.Roll(1, 2), 1, 4);
      if (!batching.empty()) batch[0] = dims[static_cast<size_t>(batching[0])];
      const int64_t vector_dim = dice.Roll(0, static_cast<int64_t>(batch.size()));
      Index indices = batch;
      indices.insert(indices.begin() + vector_dim, static_cast<int64_t>(indexed.size()));
      // Result: window dims at random places, in order.
      const int64_t result_rank = static_cast<int64_t>(batch.size() + window.size());
      Index places = dice.Permutation(result_rank);
      places.resize(window.size());
      std::sort(places.begin(), places.end());
      Index result;
      size_t w = 0, b = 0;
      for (int64_t d = 0; d < result_rank; ++d) {
        const bool is_window = std::find(places.begin(), places.end(), d) != places.end();
        result.push_back(is_window ? window[w++] : batch[b++]);
      }
      Index order = indexed;
      if (dice.Flip()) std::reverse(order.begin(), order.end());
      const std::string indices_batching =
          batching.empty() ? "" : std::to_string(vector_dim == 0 ? 1 : 0);
      const std::string combine = type == "pred" ? "or" : "add";
      Case test;
      test.parameters = {ShapeText(type, dims),
                         ShapeText(dice.Pick<std::string>({"s32", "u8", "s64"}), indices),
                         ShapeText(type, result)};
      test.computations = Fold("f", type, combine);
      test.body = fmt::format(
          "  g = {0} gather(p0, p1), offset_dims={{{1}}}, collapsed_slice_dims={{{2}}}, "
          "start_index_map={{{3}}}, operand_batching_dims={{{4}}}, "
          "start_indices_batching_dims={{{5}}}, index_vector_dim={6}, slice_sizes={{{7}}}\n"
          "  s = {8} scatter(p0, p1, p2), update_window_dims={{{1}}}, "
          "inserted_window_dims={{{2}}}, "
          "scatter_dims_to_operand_dims={{{3}}}, input_batching_dims={{{4}}}, "
          "scatter_indices_batching_dims={{{5}}}, index_vector_dim={6}, to_apply=f\n"
          "  ROOT r = tuple(g, s)",
          ShapeText(type, result), List(places), List(collapsed), List(order), List(batching),
          indices_batching, vector_dim, List(sizes), ShapeText(type, dims));
      test.largest_index = 5;
      test.ulps = 8;
      test.relative_to_largest = true;
      return test;
    });
  }
}

TEST_CASE("random sort and topk", "[kernels][reference]") {
  for (const std::string& type : Joined({kFloats, kTinyFloats, kIntegers})) {
    RunCases(6, [&](Dice& dice) {
      const Index dims = dice.Sizes(2, 1, 30);
      const bool is_float = type[0] == 'f' || type[0] == 'b';
      Case test;
      test.parameters = {ShapeText(type, dims), ShapeText("s32", dims)};
      test.computations = fmt::format(
          "c {{ a = {0}[] parameter(0) b = {0}[] parameter(1) x = s32[] parameter(2) y = s32[] "
          "parameter(3) ROOT r = pred[] compare(a, b), direction={1}{2} }}\n",
          type, dice.Pick<std::string>({"LT", "GT"}), is_float ? ", type=TOTALORDER" : "");
      const int64_t k = dice.Roll(1, dims[1]);
      test.body = fmt::format(
          "  s = ({0}, {1}) sort(p0, p1), dimensions={{{2}}}, is_stable=true, to_apply=c\n  t = "
          "({3}, {4}) topk(p0), k={5}, largest={6}\n  ROOT r = tuple(s, t)",
          ShapeText(type, dims), ShapeText("s32", dims), dice.Roll(0, 1),
          ShapeText(type, {dims[0], k}), ShapeText("s32", {dims[0], k}), k, dice.Flip());
      test.special_values = true;
      return test;
    });
  }
}

}  // namespace gshard::cpu::testing
