#include "ir/call_config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>

namespace gshard {

std::string_view ConfigValue(std::string_view config, std::string_view key) {
  for (size_t at = config.find(key); at != config.npos; at = config.find(key, at + 1)) {
    std::string_view rest = config.substr(at + key.size());
    rest.remove_prefix(std::min(rest.find_first_not_of("\\\""), rest.size()));
    if (!rest.starts_with(':') || at == 0 || config[at - 1] != '"') continue;
    rest.remove_prefix(std::min(rest.find_first_not_of(": \\\""), rest.size()));
    return rest;
  }
  return {};
}

std::optional<double> ConfigNumber(std::string_view config, std::string_view key) {
  const std::string text(ConfigValue(config, key).substr(0, 32));
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::string_view ConfigWord(std::string_view config, std::string_view key) {
  const std::string_view value = ConfigValue(config, key);
  return value.substr(0, value.find_first_of("\\\",}] "));
}

std::vector<int64_t> ConfigDims(std::string_view config, std::string_view key) {
  std::string_view list = ConfigValue(config, key);
  std::vector<int64_t> dims;
  if (!list.starts_with('[')) return dims;
  list = list.substr(0, list.find(']'));
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i] < '0' || list[i] > '9') continue;
    int64_t dim = 0;
    auto [stop, error] = std::from_chars(list.data() + i, list.data() + list.size(), dim);
    if (error == std::errc()) dims.push_back(dim);
    i = static_cast<size_t>(stop - list.data());
  }
  return dims;
}

std::optional<ConfiguredDot> ConfigDot(std::string_view config, std::string_view section) {
  std::string_view numbers = ConfigValue(config, section);
  if (!numbers.starts_with('{')) return std::nullopt;
  numbers = numbers.substr(0, numbers.find('}'));
  return ConfiguredDot{ConfigDims(numbers, "lhs_batch_dimensions"),
                       ConfigDims(numbers, "lhs_contracting_dimensions"),
                       ConfigDims(numbers, "rhs_batch_dimensions"),
                       ConfigDims(numbers, "rhs_contracting_dimensions")};
}

}  // namespace gshard
