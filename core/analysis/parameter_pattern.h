// How a user's pattern finds the entry's parameters by their numbers.
#ifndef GSHARD_CORE_ANALYSIS_PARAMETER_PATTERN_H_
#define GSHARD_CORE_ANALYSIS_PARAMETER_PATTERN_H_

#include <cstdint>
#include <memory>
#include <string>

namespace re2 {
class RE2;
}

namespace gshard {

// Searches a valid pattern (RE2, partial match) in "param:K". What it matches may not end within
// the number, since param:1 is not param:10, and is no single letter of the word, since m=0 means a
// parameter of that name: it reaches the colon, or begins with "para".
class ParameterPattern {
 public:
  explicit ParameterPattern(const std::string& pattern);
  ~ParameterPattern();

  bool Finds(int64_t number) const;

 private:
  std::unique_ptr<const re2::RE2> regex_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_PARAMETER_PATTERN_H_
