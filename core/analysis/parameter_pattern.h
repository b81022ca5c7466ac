// How a user's pattern finds the entry's parameters by their numbers.
#ifndef GSHARD_CORE_ANALYSIS_PARAMETER_PATTERN_H_
#define GSHARD_CORE_ANALYSIS_PARAMETER_PATTERN_H_

#include <string>

namespace gshard {

// The expression (RE2) that is searched in "param:K" for a user's valid `pattern`, which may match
// in part but not end within the number: param:1 is not param:10.
inline std::string ParameterPattern(const std::string& pattern) {
  return "(?:" + pattern + ")(?:\\b|[a-z])";
}

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_PARAMETER_PATTERN_H_
