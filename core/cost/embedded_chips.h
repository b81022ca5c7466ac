// The texts of core/cost/chips/*.json, put into the program when it is built (core/CMakeLists.txt).
#ifndef GSHARD_CORE_COST_EMBEDDED_CHIPS_H_
#define GSHARD_CORE_COST_EMBEDDED_CHIPS_H_

#include <span>
#include <string_view>

namespace gshard {

struct EmbeddedChip {
  std::string_view name;
  std::string_view text;  // JSON, which says the same name
};

// In the order of docs/chips.md.
std::span<const EmbeddedChip> EmbeddedChips();

}  // namespace gshard

#endif  // GSHARD_CORE_COST_EMBEDDED_CHIPS_H_
