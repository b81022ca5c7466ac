// Ranges of views against one element at a time.
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "backends/cpu/arrays/strided.h"

namespace gshard::cpu {
namespace {

struct ViewCase {
  std::vector<int64_t> dims, strides;
};

// Broadcasts along any dims, rows of all lengths that have a loop of their own and of others,
// transposed and overlapping rows.
const std::vector<ViewCase> kViews = {
    {{37}, {1}},
    {{37}, {0}},
    {{37}, {3}},
    {{29, 2}, {1, 0}},
    {{29, 3}, {1, 0}},
    {{29, 4}, {1, 0}},
    {{13, 8}, {1, 0}},
    {{13, 16}, {1, 0}},
    {{13, 5}, {1, 0}},
    {{29, 4}, {0, 1}},
    {{11, 7}, {0, 1}},
    {{11, 4}, {2, 1}},
    {{5, 8}, {1, 5}},
    {{5, 3, 4}, {1, 0, 5}},
    {{3, 5, 4}, {0, 4, 1}},
    {{3, 5, 4}, {20, 0, 1}},
    {{3, 5, 2}, {0, 1, 0}},
    {{2, 3, 4, 3}, {0, 3, 0, 1}},
    {{2, 3, 4, 5}, {1, 0, 2, 0}},
};

template <typename T>
void CheckView(const ViewCase& view) {
  std::vector<T> source(200);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<T>(i + 1);
  constexpr int64_t kOffset = 2;
  std::vector<T> whole;
  for (int64_t i = 0; i < Product(view.dims); ++i) {
    int64_t at = kOffset, rest = i;
    for (size_t d = view.dims.size(); d-- > 0; rest /= view.dims[d]) {
      at += rest % view.dims[d] * view.strides[d];
    }
    whole.push_back(source[static_cast<size_t>(at)]);
  }
  const StridedView strided(view.dims, view.strides, kOffset, sizeof(T));
  std::mt19937 random(7);
  const auto size = static_cast<int64_t>(whole.size());
  for (int round = 0; round < 60; ++round) {
    const int64_t first = round == 0 ? 0 : static_cast<int64_t>(random()) % size;
    const int64_t count = round == 0 ? size : 1 + static_cast<int64_t>(random()) % (size - first);
    INFO(size << " elements of " << sizeof(T) << " B, " << count << " from " << first << " on");
    std::vector<T> read(static_cast<size_t>(count));
    strided.Read(reinterpret_cast<const std::byte*>(source.data()), first, count,
                 reinterpret_cast<std::byte*>(read.data()));
    REQUIRE(std::memcmp(read.data(), whole.data() + first, read.size() * sizeof(T)) == 0);
  }
}

TEST_CASE("any range of a view", "[cpu][strided]") {
  for (const ViewCase& view : kViews) {
    INFO("view " << &view - kViews.data());
    CheckView<uint8_t>(view);
    CheckView<uint32_t>(view);
    CheckView<uint64_t>(view);
  }
}

}  // namespace
}  // namespace gshard::cpu
