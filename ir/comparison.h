// What a comparison says of two values: the one answer for passes that evaluate it.
#ifndef GSHARD_IR_COMPARISON_H_
#define GSHARD_IR_COMPARISON_H_

#include "ir/attributes.h"

namespace gshard {

// Of values in the order that T's operators have: of floats IEEE's, where nothing but "not equal"
// holds of NaN.
template <typename T>
constexpr bool Holds(ComparisonDirection direction, T a, T b) {
  switch (direction) {
    case ComparisonDirection::kEq:
      return a == b;
    case ComparisonDirection::kNe:
      return a != b;
    case ComparisonDirection::kLt:
      return a < b;
    case ComparisonDirection::kLe:
      return a <= b;
    case ComparisonDirection::kGt:
      return a > b;
    case ComparisonDirection::kGe:
      return a >= b;
  }
  return false;
}

// With its operands exchanged: a < b is b > a.
constexpr ComparisonDirection Mirrored(ComparisonDirection direction) {
  switch (direction) {
    case ComparisonDirection::kLt:
      return ComparisonDirection::kGt;
    case ComparisonDirection::kLe:
      return ComparisonDirection::kGe;
    case ComparisonDirection::kGt:
      return ComparisonDirection::kLt;
    case ComparisonDirection::kGe:
      return ComparisonDirection::kLe;
    case ComparisonDirection::kEq:
    case ComparisonDirection::kNe:
      break;
  }
  return direction;
}

}  // namespace gshard

#endif  // GSHARD_IR_COMPARISON_H_
