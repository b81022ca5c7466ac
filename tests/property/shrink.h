// Makes a failing program smaller while it fails in the same way.
#ifndef GSHARD_TESTS_PROPERTY_SHRINK_H_
#define GSHARD_TESTS_PROPERTY_SHRINK_H_

#include <functional>

#include "tests/property/program.h"

namespace gshard::property {

// `fails`: whether a program still fails as the first one did. Greedy, to a fixpoint or until
// `budget` programs were tried.
Program Shrink(Program program, int budget, const std::function<bool(const Program&)>& fails);

}  // namespace gshard::property

#endif  // GSHARD_TESTS_PROPERTY_SHRINK_H_
