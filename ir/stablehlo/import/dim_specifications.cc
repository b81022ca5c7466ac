// A parser by recursive descent, which computes as it reads.
#include "ir/stablehlo/import/dim_specifications.h"

#include <algorithm>
#include <charconv>

namespace gshard::stablehlo {
namespace {

constexpr int kMaxSumDepth = 64;

bool IsLetter(char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Cuts at the commas that stand in no parentheses. "a, b" and "a," have the parts a, b and a.
std::vector<std::string> SplitAtCommas(std::string_view text) {
  std::vector<std::string> parts;
  std::string part;
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      parts.push_back(std::move(part));
      part.clear();
    } else if (c != ' ' || !part.empty()) {
      part += c;
    }
  }
  if (!part.empty()) parts.push_back(std::move(part));
  return parts;
}

int64_t FloorDiv(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

class DimParser {
 public:
  DimParser(std::string_view text, const DimSizes& sizes) : text_(text), sizes_(sizes) {}

  std::optional<int64_t> Run() {
    const auto value = Sum();
    SkipSpaces();
    return at_ == text_.size() ? value : std::nullopt;
  }
  const std::string& missing() const { return missing_; }

 private:
  using Number = std::optional<int64_t>;

  void SkipSpaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool Accept(char c) {
    SkipSpaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  static Number Checked(char operation, Number a, Number b) {
    int64_t result = 0;
    if (!a || !b) return std::nullopt;
    const bool overflows = operation == '+'   ? __builtin_add_overflow(*a, *b, &result)
                           : operation == '-' ? __builtin_sub_overflow(*a, *b, &result)
                                              : __builtin_mul_overflow(*a, *b, &result);
    return overflows ? std::nullopt : Number(result);
  }

  Number Sum() {
    if (++depth_ > kMaxSumDepth) return std::nullopt;
    Number value = Product();
    while (value) {
      if (Accept('+')) {
        value = Checked('+', value, Product());
      } else if (Accept('-')) {
        value = Checked('-', value, Product());
      } else {
        break;
      }
    }
    --depth_;
    return value;
  }

  Number Product() {
    Number value = Power();
    while (value && Accept('*')) value = Checked('*', value, Power());
    return value;
  }

  Number Power() {
    bool is_negative = false;
    while (Accept('-')) is_negative = !is_negative;
    Number value = Atom();
    if (value && Accept('^')) {
      const Number base = value, exponent = Atom();
      if (!exponent || *exponent < 0 || *exponent > 62) return std::nullopt;
      value = 1;
      for (int64_t i = 0; i < *exponent; ++i) value = Checked('*', value, base);
    }
    return is_negative ? Checked('-', 0, value) : value;
  }

  Number Atom() {
    if (Accept('(')) {
      const Number value = Sum();
      return Accept(')') ? value : std::nullopt;
    }
    const size_t begin = at_;
    while (at_ < text_.size() && (IsLetter(text_[at_]) || IsDigit(text_[at_]))) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (word.empty()) return std::nullopt;
    if (IsDigit(word[0])) {
      int64_t value = 0;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
      return error == std::errc() && end == word.data() + word.size() ? Number(value)
                                                                      : std::nullopt;
    }
    if (Accept('(')) return Function(word);
    if (const auto size = sizes_.find(word); size != sizes_.end()) return size->second;
    if (missing_.empty()) missing_ = word;
    return std::nullopt;
  }

  // After its parenthesis.
  Number Function(std::string_view name) {
    const Number a = Sum();
    if (!a || !Accept(',')) return std::nullopt;
    const Number b = Sum();
    if (!b || !Accept(')')) return std::nullopt;
    if (name == "max") return std::max(*a, *b);
    if (name == "min") return std::min(*a, *b);
    if (*b == 0 || *b == -1) return std::nullopt;
    if (name == "floordiv") return FloorDiv(*a, *b);
    if (name == "mod") return *a - FloorDiv(*a, *b) * *b;
    return std::nullopt;
  }

  std::string_view text_;
  const DimSizes& sizes_;
  size_t at_ = 0;
  int depth_ = 0;
  std::string missing_;
};

}  // namespace

std::vector<std::vector<std::string>> SpecificationsIn(std::string_view message) {
  constexpr std::string_view kBegin = "polymorphic shapes specifications: ";
  constexpr std::string_view kShape = ".shape = (";
  std::vector<std::vector<std::string>> arguments;
  const size_t begin = message.find(kBegin);
  if (begin == message.npos) return arguments;
  message.remove_prefix(begin + kBegin.size());
  message = message.substr(0, message.find(". Obtained"));
  for (size_t at = message.find(kShape); at != message.npos; at = message.find(kShape)) {
    message.remove_prefix(at + kShape.size());
    size_t length = 0;
    for (int depth = 1; length < message.size(); ++length) {
      depth += message[length] == '(' ? 1 : message[length] == ')' ? -1 : 0;
      if (depth == 0) break;
    }
    arguments.push_back(SplitAtCommas(message.substr(0, length)));
    message.remove_prefix(length);
  }
  return arguments;
}

bool IsDimVariable(std::string_view specification) {
  return !specification.empty() && IsLetter(specification[0]) &&
         std::ranges::all_of(specification, [](char c) { return IsLetter(c) || IsDigit(c); });
}

std::optional<int64_t> EvaluateDim(std::string_view specification, const DimSizes& sizes,
                                   std::string* missing) {
  // A variable may have any name.
  if (const auto size = sizes.find(specification); size != sizes.end()) return size->second;
  DimParser parser(specification, sizes);
  const auto value = parser.Run();
  if (missing != nullptr) *missing = parser.missing();
  return value;
}

}  // namespace gshard::stablehlo
