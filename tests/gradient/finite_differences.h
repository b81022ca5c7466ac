// Gradients of a program against finite differences in f64, on the emulator of one device.
//
// The loss is a weighted sum of the floating results. Along a random direction v of all floating
// parameters its derivative is measured by differences of fourth order with two step sizes; where
// these disagree the program has a kink or a jump there, and another point is tried.
#ifndef GSHARD_TESTS_GRADIENT_FINITE_DIFFERENCES_H_
#define GSHARD_TESTS_GRADIENT_FINITE_DIFFERENCES_H_

#include <cstdint>
#include <string>

namespace gshard {

struct GradientCheckOptions {
  uint64_t seed = 0;          // of point, direction and weights
  double low = -2, high = 2;  // floating inputs
  int64_t largest_integer = 3;
  double tolerance = 1e-6;  // of the sum of |gradient * direction|
  bool rematerialize = false;
  int points = 4;  // tried before the program counts as not smooth
};

struct GradientVerdict {
  enum class Kind : uint8_t { kAgrees, kDiffers, kSkipped };
  Kind kind = Kind::kAgrees;
  std::string why;   // of a skip: for counting; of a difference: for people
  double error = 0;  // relative
};

// `text`: HLO whose floating types are f64 and c128 (InDoublePrecision makes them so). Skipped: no
// floating parameter or result, no smooth point, an opcode that the emulator does not run.
GradientVerdict CheckGradient(const std::string& text, const GradientCheckOptions& options);

// Every floating type becomes f64, every complex one c128.
std::string InDoublePrecision(const std::string& text);

}  // namespace gshard

#endif  // GSHARD_TESTS_GRADIENT_FINITE_DIFFERENCES_H_
