#include "ir/parser_errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace gshard {

std::string CodeOf(ParseError error) {
  return fmt::format("E-PARSE-{:03}", static_cast<int>(error) + 1);
}

std::string Listed(std::span<const std::string_view> words) {
  std::string list;
  for (std::string_view word : words) {
    if (word.empty()) continue;
    if (!list.empty()) list += ", ";
    list += word;
  }
  return list;
}

void NearestWord::Offer(std::string_view candidate) {
  if (best_distance_ == 0) return;  // of equally near ones the first
  // Edit distance with adjacent swaps; about a third of the letters may differ.
  const size_t n = word_.size();
  const size_t m = candidate.size();
  const size_t allowed = std::min(best_distance_ - 1, std::max<size_t>(1, (n + 1) / 3));
  if (n < 2 || m == 0 || m > kMaxLength || (n > m ? n - m : m - n) > allowed) return;
  std::array<std::array<size_t, kMaxLength + 1>, 3> rows{};
  for (size_t j = 0; j <= m; ++j) rows[0][j] = j;
  for (size_t i = 1; i <= n; ++i) {
    auto& row = rows[i % 3];
    const auto& previous = rows[(i + 2) % 3];
    row[0] = i;
    size_t smallest = i;
    for (size_t j = 1; j <= m; ++j) {
      const size_t differ = word_[i - 1] == candidate[j - 1] ? 0 : 1;
      row[j] = std::min({previous[j] + 1, row[j - 1] + 1, previous[j - 1] + differ});
      if (i > 1 && j > 1 && word_[i - 1] == candidate[j - 2] && word_[i - 2] == candidate[j - 1]) {
        row[j] = std::min(row[j], rows[(i + 1) % 3][j - 2] + 1);
      }
      smallest = std::min(smallest, row[j]);
    }
    if (smallest > allowed) return;
  }
  if (rows[n % 3][m] > allowed) return;
  best_distance_ = rows[n % 3][m];
  best_ = candidate;
}

std::string NearestWord::Hint() const {
  return best_.empty() ? std::string() : fmt::format("did you mean '{}'?", best_);
}

}  // namespace gshard
