#include "core/analysis/near_names.h"

#include <algorithm>
#include <set>
#include <vector>

#include "ir/lexer.h"
#include "ir/metadata.h"
#include "ir/parser_errors.h"

namespace gshard {
namespace {

bool IsWordCharacter(char c) { return HasClass(c, kNameContinue) && c != '.' && c != '-'; }

// Calls `visit` with the runs of letters, digits and underscores of at least three characters. In a
// pattern, what follows a backslash is no letter.
template <typename Visit>
void ForEachWord(std::string_view text, bool is_pattern, Visit&& visit) {
  constexpr size_t kShortest = 3;
  for (size_t i = 0; i < text.size();) {
    if (is_pattern && text[i] == '\\') {
      i += 2;
      continue;
    }
    size_t end = i;
    while (end < text.size() && IsWordCharacter(text[end])) ++end;
    if (end - i >= kShortest) visit(text.substr(i, end - i));
    i = std::max(end, i + 1);
  }
}

}  // namespace

std::string WordMeantBy(const Module& module, std::string_view pattern) {
  std::vector<std::string_view> asked;
  ForEachWord(pattern, true, [&](std::string_view word) { asked.push_back(word); });
  std::ranges::stable_sort(asked, std::greater<>(), &std::string_view::size);
  std::set<std::string, std::less<>> words;
  auto add = [&](std::string_view word) {
    if (!words.contains(word)) words.emplace(word);
  };
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      ForEachWord(x->name(), false, add);
      if (!x->metadata().empty()) ForEachWord(OpNameOf(*x), false, add);
    }
  }
  for (std::string_view word : asked) {
    if (words.contains(word)) continue;  // it is another one that is misspelt
    NearestWord nearest(word);
    for (const std::string& candidate : words) nearest.Offer(candidate);
    if (!nearest.best().empty()) return nearest.Hint() + " ";
  }
  return {};
}

}  // namespace gshard
