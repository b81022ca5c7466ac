#include "ir/unspecified_dims.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "ir/metadata.h"

namespace gshard {

std::vector<int64_t> UnspecifiedDims(const Instruction& x) {
  std::vector<int64_t> dims;
  std::string text = Unquoted(x.backend_config());
  constexpr std::string_view kKey = "unspecified_dims=[";
  size_t at = text.find(kKey);
  if (at == std::string::npos) return dims;
  const char* p = text.data() + at + kKey.size();
  const char* end = text.data() + text.size();
  while (p < end && *p != ']') {
    int64_t value = 0;
    auto [next, error] = std::from_chars(p, end, value);
    if (error != std::errc()) {
      ++p;
      continue;
    }
    dims.push_back(value);
    p = next;
  }
  std::sort(dims.begin(), dims.end());
  dims.erase(std::unique(dims.begin(), dims.end()), dims.end());
  return dims;
}

}  // namespace gshard
