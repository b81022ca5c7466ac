// How large the values of a program can be and how far rounding may move them.
//
// Inputs are small integers, so most sums are exact in every order: then the partitioned program
// must give the same bits. Where they are not, the bound on the error is the tolerance. Programs
// whose bounds say nothing any more are not made.
#ifndef GSHARD_TESTS_PROPERTY_MAGNITUDE_H_
#define GSHARD_TESTS_PROPERTY_MAGNITUDE_H_

#include <optional>
#include <vector>

#include "tests/property/program.h"

namespace gshard::property {

struct Magnitude {
  double largest = 0;    // absolute value (of each part, if complex)
  double noise = 0;      // |difference| that another order of summation can make; 0: none at all
  bool integral = true;  // floats: all values are integers
  bool nan = false;      // some elements may be NaN
};

// Of the leaves of one node's result. Nothing if the result would be useless (overflow, noise) or
// if a discrete operation would see noise or NaN.
std::optional<std::vector<Magnitude>> MagnitudeOf(
    const Program& program, const Node& node,
    const std::vector<const std::vector<Magnitude>*>& operands);

// Of the leaves of a body's root.
std::optional<std::vector<Magnitude>> MagnitudeOfBody(
    const Program& program, size_t body, const std::vector<std::vector<Magnitude>>& parameters);

}  // namespace gshard::property

#endif  // GSHARD_TESTS_PROPERTY_MAGNITUDE_H_
