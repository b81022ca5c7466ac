// Holds the output of a command against the CHECK directives of its part.

#pragma once

#include <string>
#include <vector>

#include "tests/golden_runner/golden_file.h"

namespace gshard::golden {

// Empty if all hold, else which does not, and why.
std::string CheckOutput(const std::vector<std::string>& output, const std::vector<Check>& checks);

}  // namespace gshard::golden
