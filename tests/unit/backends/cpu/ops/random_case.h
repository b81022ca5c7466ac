// Random cases that compare kernels with the reference evaluator.
//
// A case is the text of a small module, made from a seed that is printed when it fails; values of
// parameters come from the same seed. The kernels' results must be within the case's tolerance.
#ifndef GSHARD_TESTS_UNIT_BACKENDS_CPU_OPS_RANDOM_CASE_H_
#define GSHARD_TESTS_UNIT_BACKENDS_CPU_OPS_RANDOM_CASE_H_

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/reference/value.h"

namespace gshard::cpu::testing {

class Dice {
 public:
  explicit Dice(uint32_t seed) : engine_(seed) {}
  int64_t Roll(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine_() % static_cast<uint32_t>(high - low + 1));
  }
  bool Flip() { return Roll(0, 1) == 1; }
  template <typename T>
  T Pick(const std::vector<T>& choices) {
    return choices[static_cast<size_t>(Roll(0, static_cast<int64_t>(choices.size()) - 1))];
  }
  Index Sizes(int64_t rank, int64_t low, int64_t high) {
    Index sizes;
    for (int64_t i = 0; i < rank; ++i) sizes.push_back(Roll(low, high));
    return sizes;
  }
  Index Permutation(int64_t n) {
    Index order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), int64_t{0});
    for (int64_t i = n; i-- > 1;) {
      std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(Roll(0, i))]);
    }
    return order;
  }
  // Some of 0 .. n-1, in order.
  Index Subset(int64_t n) {
    Index chosen;
    for (int64_t i = 0; i < n; ++i) {
      if (Flip()) chosen.push_back(i);
    }
    return chosen;
  }
  double Real() { return static_cast<double>(Roll(-4000, 4000)) / 1000; }

 private:
  std::mt19937 engine_;
};

std::string List(const Index& values);
// "f32[2,3]".
std::string ShapeText(const std::string& type, const Index& dims);

// What is to be run, and how near the results must be.
struct Case {
  std::vector<std::string> parameters;  // shapes
  std::string body;                     // instructions; parameters are p0, p1, ..
  std::string computations;
  double ulps = 0;
  bool relative_to_largest = false;  // sums: errors grow with the largest result
  bool special_values = false;       // infinities, NaN, zeros of both signs, limits
  bool every_value = false;          // see RunCases
  int64_t largest_index = -1;        // integer parameters are in [-1, largest_index]
};

// With `every_value` the parameters, of at most 16 bits an element, count through all bit patterns:
// element i of parameter k has pattern i / 2^(k bits). So 2^bits elements are all values of one
// parameter, 2^(2 bits) all pairs of two.
//
// Runs `count` cases, each made from dice of its own seed.
void RunCases(int count, const std::function<Case(Dice&)>& make);

// Names of types; kFloats are those of 16 bits and more.
extern const std::vector<std::string> kIntegers, kFloats, kTinyFloats, kComplexes, kAll;
std::vector<std::string> Joined(const std::vector<std::vector<std::string>>& lists);

// The text of a computation `name` that folds scalars of `type` with one operation.
std::string Fold(const std::string& name, const std::string& type, const std::string& opcode);

}  // namespace gshard::cpu::testing

#endif  // GSHARD_TESTS_UNIT_BACKENDS_CPU_OPS_RANDOM_CASE_H_
