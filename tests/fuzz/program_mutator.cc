#include "tests/fuzz/program_mutator.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <random>

namespace gshard::fuzz {
namespace {

class Mutator {
 public:
  Mutator(const std::vector<std::string>& cases, uint64_t seed) : cases_(cases), random_(seed) {}

  std::string NextProgram() {
    std::string text = cases_[Below(cases_.size())];
    for (size_t n = 1 + Below(3); n > 0 && !text.empty(); --n) Change(text);
    return text;
  }
  std::string NextBytes() {
    std::string text = cases_[Below(cases_.size())];
    for (size_t n = 1 + Below(3); n > 0 && !text.empty(); --n) {
      Below(2) == 0 ? Change(text) : ChangeBytes(text);
    }
    return text;
  }

 private:
  struct Range {
    size_t begin, size;
  };

  size_t Below(size_t n) { return static_cast<size_t>(random_() % n); }

  // Maximal runs of characters of a kind.
  template <typename Is>
  static std::vector<Range> Runs(const std::string& text, Is is) {
    std::vector<Range> runs;
    for (size_t i = 0; i < text.size();) {
      size_t end = i;
      while (end < text.size() && is(text[end])) ++end;
      if (end > i) runs.push_back({i, end - i});
      i = std::max(end, i + 1);
    }
    return runs;
  }
  static bool IsDigit(char c) { return c >= '0' && c <= '9'; }
  static bool IsWord(char c) {
    return IsDigit(c) || c == '_' || c == '-' || c == '.' || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z');
  }

  void Change(std::string& text) {
    switch (Below(8)) {
      case 0:
      case 1:
      case 2:
        return ChangeNumber(text);
      case 3:
        return ChangeAllOfANumber(text);
      case 4:
        return SwapRuns(text, Runs(text, IsWord));
      case 5:
        return SwapRuns(text, Runs(text, [](char c) { return c != '\n'; }));
      case 6:
        return TakeWordOfAnother(text);
      default: {
        const auto lines = Runs(text, [](char c) { return c != '\n'; });
        if (!lines.empty()) {
          const Range line = lines[Below(lines.size())];
          text.erase(line.begin, line.size);
        }
      }
    }
  }
  std::string NewNumber(const std::string& old) {
    static const char* const kNumbers[] = {"0", "1",  "2", "3",  "4",
                                           "8", "-1", "7", "16", "2147483648"};
    const unsigned long value = std::strtoul(old.c_str(), nullptr, 10);
    switch (Below(4)) {
      case 0:
        return std::to_string(value + 1);
      case 1:
        return std::to_string(value / 2);
      case 2:
        return std::to_string(value * 2);
      default:
        return kNumbers[Below(std::size(kNumbers))];
    }
  }
  void ChangeNumber(std::string& text) {
    const auto numbers = Runs(text, IsDigit);
    if (numbers.empty()) return;
    const Range at = numbers[Below(numbers.size())];
    text.replace(at.begin, at.size, NewNumber(text.substr(at.begin, at.size)));
  }
  // Dims change together, so that shapes still fit.
  void ChangeAllOfANumber(std::string& text) {
    auto numbers = Runs(text, IsDigit);
    if (numbers.empty()) return;
    const Range chosen = numbers[Below(numbers.size())];
    const std::string old = text.substr(chosen.begin, chosen.size), now = NewNumber(old);
    for (size_t i = numbers.size(); i-- > 0;) {
      if (text.compare(numbers[i].begin, numbers[i].size, old) == 0) {
        text.replace(numbers[i].begin, numbers[i].size, now);
      }
    }
  }
  void SwapRuns(std::string& text, const std::vector<Range>& runs) {
    if (runs.size() < 2) return;
    Range a = runs[Below(runs.size())], b = runs[Below(runs.size())];
    if (a.begin > b.begin) std::swap(a, b);
    if (a.begin == b.begin) return;
    text = text.substr(0, a.begin) + text.substr(b.begin, b.size) +
           text.substr(a.begin + a.size, b.begin - a.begin - a.size) +
           text.substr(a.begin, a.size) + text.substr(b.begin + b.size);
  }
  void TakeWordOfAnother(std::string& text) {
    const std::string& other = cases_[Below(cases_.size())];
    const auto from = Runs(other, IsWord), to = Runs(text, IsWord);
    if (from.empty() || to.empty()) return;
    const Range word = from[Below(from.size())], at = to[Below(to.size())];
    text.replace(at.begin, at.size, other, word.begin, word.size);
  }

  // A short range of `text`, not empty.
  Range ShortRange(const std::string& text) {
    const size_t begin = Below(text.size());
    return {begin, 1 + Below(std::min(text.size() - begin, size_t{32}))};
  }
  void ChangeBytes(std::string& text) {
    const Range range = ShortRange(text);
    switch (Below(7)) {
      case 0:
        text[range.begin] = static_cast<char>(Below(256));
        return;
      case 1:
        text[range.begin] = static_cast<char>(text[range.begin] ^ (1 << Below(8)));
        return;
      case 2:
        text[range.begin] = text[Below(text.size())];
        return;
      case 3:
        text.erase(range.begin, range.size);
        return;
      case 4:
        text.insert(Below(text.size() + 1), text.substr(range.begin, range.size));
        return;
      case 5: {
        const std::string& other = cases_[Below(cases_.size())];
        if (other.empty()) return;
        const Range from = ShortRange(other);
        text.replace(range.begin, Below(2) == 0 ? 0 : range.size, other, from.begin, from.size);
        return;
      }
      default:
        text.resize(range.begin);
    }
  }

  const std::vector<std::string>& cases_;
  std::mt19937_64 random_;
};

}  // namespace

std::string MutatedProgram(const std::vector<std::string>& cases, uint64_t seed, uint64_t number) {
  return Mutator(cases, seed * 0x9E3779B97F4A7C15 + number).NextProgram();
}

std::string MutatedBytes(const std::vector<std::string>& cases, uint64_t seed, uint64_t number) {
  return Mutator(cases, seed * 0x9E3779B97F4A7C15 + number).NextBytes();
}

}  // namespace gshard::fuzz
