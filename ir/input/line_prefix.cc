#include "ir/input/line_prefix.h"

#include <algorithm>

#include "ir/lexer.h"

namespace gshard {
namespace {

constexpr size_t kLongestPrefix = 80;
constexpr int kLinesAlike = 3;

// Where a header of a module begins in the line, after something; npos if none does.
size_t HeaderAt(std::string_view line) {
  const std::string_view start = line.substr(0, kLongestPrefix + 16);
  for (std::string_view header : {"HloModule ", "module @", "module attributes"}) {
    const size_t at = start.find(header);
    if (at != start.npos && at > 0 && at <= kLongestPrefix) return at;
  }
  return line.npos;
}

bool IsBlank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == text.npos; }

}  // namespace

LinePrefix LinePrefix::Find(std::string_view text) {
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    const size_t at = HeaderAt(line);
    LinePrefix found;
    if (at != line.npos) found.prefix_ = line.substr(0, at);
    int alike = 0;
    if (!IsBlank(found.prefix_)) {
      while (alike < kLinesAlike && end < text.size()) {
        const size_t next = std::min(text.find('\n', end + 1), text.size());
        const std::string_view other = text.substr(end + 1, next - end - 1);
        end = next;
        if (IsBlank(other)) continue;
        if (found.LengthIn(other) == 0) break;
        ++alike;
      }
      if (alike == kLinesAlike) return found;
    }
    begin = std::min(text.find('\n', begin), text.size()) + 1;
  }
  return {};
}

size_t LinePrefix::LengthIn(std::string_view line) const {
  size_t at = 0;
  for (size_t i = 0; i < prefix_.size();) {
    if (HasClass(prefix_[i], kDigit)) {
      if (at == line.size() || !HasClass(line[at], kDigit)) return 0;
      while (i < prefix_.size() && HasClass(prefix_[i], kDigit)) ++i;
      while (at < line.size() && HasClass(line[at], kDigit)) ++at;
    } else if (i == 0 && prefix_[0] == ' ') {  // numbers of lines stand to the right
      while (i < prefix_.size() && prefix_[i] == ' ') ++i;
      while (at < line.size() && line[at] == ' ') ++at;
    } else if (at < line.size() && line[at] == prefix_[i]) {
      ++at;
      ++i;
    } else {
      // An empty line has lost the blanks at the prefix's end.
      return IsBlank(line.substr(at)) && IsBlank(prefix_.substr(i)) ? at : 0;
    }
  }
  return at;
}

}  // namespace gshard
