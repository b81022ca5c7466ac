// The configuration that XLA's compilers write into the backend_config of calls of libraries: JSON,
// whole or as a string in other JSON. All functions are pure and may be called from any thread.
#ifndef GSHARD_IR_CALL_CONFIG_H_
#define GSHARD_IR_CALL_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace gshard {

// What follows `"key":` in the configuration, quotes and their escapes skipped; empty if there is
// no such key. Of keys that stand several times it is the first.
std::string_view ConfigValue(std::string_view config, std::string_view key);

// The number after `key`; nothing if there is none that is finite.
std::optional<double> ConfigNumber(std::string_view config, std::string_view key);

// The word after `key`: BIAS_RELU of "epilogue":"BIAS_RELU", true of "lower":true.
std::string_view ConfigWord(std::string_view config, std::string_view key);

// The list of numbers after `key`: ["1","0"].
std::vector<int64_t> ConfigDims(std::string_view config, std::string_view key);

// The dims that a product pairs, as `section` of the configuration has them.
struct ConfiguredDot {
  std::vector<int64_t> lhs_batch, lhs_contracting, rhs_batch, rhs_contracting;
};
std::optional<ConfiguredDot> ConfigDot(std::string_view config, std::string_view section);

}  // namespace gshard

#endif  // GSHARD_IR_CALL_CONFIG_H_
