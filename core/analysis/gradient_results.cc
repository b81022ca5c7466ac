#include "core/analysis/gradient_results.h"

#include <charconv>
#include <string>

#include "fmt/format.h"
#include "ir/attribute_names.h"
#include "ir/metadata.h"

namespace gshard {
void SetGradientResults(Module& module, const GradientResults& results) {
  std::string text;
  for (auto [result, parameter] : results) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", result, parameter);
  }
  ModuleHeader& header = module.header();
  header.frontend_attributes = WithFrontendAttribute(module.arena(), header.frontend_attributes,
                                                     kGradientsAttribute, text);
}

GradientResults GradientResultsOf(const Module& module) {
  const std::string text =
      FrontendAttribute(module.header().frontend_attributes, kGradientsAttribute);
  const Shape* root = module.entry()->root()->shape();
  const auto result_count = root->IsTuple() ? static_cast<int64_t>(root->elements().size()) : 1;
  const auto parameter_count = static_cast<int64_t>(module.entry()->parameters().size());
  GradientResults found;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int64_t result = -1, parameter = -1;
    auto first = std::from_chars(at, end, result);
    if (first.ec != std::errc() || first.ptr == end || *first.ptr != '=') return {};
    auto second = std::from_chars(first.ptr + 1, end, parameter);
    if (second.ec != std::errc() || (second.ptr != end && *second.ptr != ' ')) return {};
    const bool fits = result >= 0 && result < result_count && parameter >= 0 &&
                      parameter < parameter_count;
    if (!fits) return {};
    found.emplace_back(result, parameter);
    at = second.ptr + 1;
  }
  return found;
}

}  // namespace gshard
