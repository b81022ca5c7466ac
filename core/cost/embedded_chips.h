// The texts of core/cost/chips/*.json, put into the program when it is built (core/CMakeLists.txt).
#ifndef GSHARD_CORE_COST_EMBEDDED_CHIPS_H_
#define GSHARD_CORE_COST_EMBEDDED_CHIPS_H_

#include <span>
#include <string_view>

namespace gshard {

// In the order of docs/cost.md; a chip stands after its base.
std::span<const std::string_view> EmbeddedChips();

}  // namespace gshard

#endif  // GSHARD_CORE_COST_EMBEDDED_CHIPS_H_
