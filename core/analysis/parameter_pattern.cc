#include "core/analysis/parameter_pattern.h"

#include <re2/re2.h>

#include <string_view>

namespace gshard {

ParameterPattern::ParameterPattern(const std::string& pattern)
    : regex_(std::make_unique<const RE2>("(" + pattern + ")(?:\\b|[a-z])", RE2::Quiet)) {}

ParameterPattern::~ParameterPattern() = default;

bool ParameterPattern::Finds(int64_t number) const {
  const std::string text = "param:" + std::to_string(number);
  re2::StringPiece match[2];
  for (size_t from = 0; from <= text.size();) {
    if (!regex_->Match(text, from, text.size(), RE2::UNANCHORED, match, 2)) return false;
    const std::string_view found(match[1].data(), match[1].size());
    const auto begin = static_cast<size_t>(found.data() - text.data());
    if (found.starts_with("para") || begin + found.size() > text.find(':')) return true;
    from = begin + 1;
  }
  return false;
}

}  // namespace gshard
