// The verbatim texts: metadata, frontend attributes, aliasing lists.
#include <charconv>
#include <cstring>

#include "ir/shape_inference.h"
#include "ir/verify/checks.h"

namespace gshard {

namespace {

bool IsIdentifierChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '-';
}

// Walks over "{key=value ..}". Values are strings, balanced braces or bare words.
class Reader {
 public:
  explicit Reader(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  void SkipSpace() {
    while (at_ < end_) {
      if (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r') {
        ++at_;
      } else if (*at_ == '/' && end_ - at_ >= 2 && (at_[1] == '*' || at_[1] == '/')) {
        const bool block = at_[1] == '*';
        at_ += 2;
        while (at_ < end_ &&
               !(block ? (*at_ == '*' && at_ + 1 < end_ && at_[1] == '/') : *at_ == '\n')) {
          ++at_;
        }
        at_ += std::min<ptrdiff_t>(end_ - at_, block ? 2 : 1);
      } else {
        return;
      }
    }
  }
  bool Consume(char c) {
    SkipSpace();
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  bool AtEnd() {
    SkipSpace();
    return at_ == end_;
  }
  std::string_view Identifier() {
    SkipSpace();
    const char* begin = at_;
    while (at_ < end_ && IsIdentifierChar(*at_)) ++at_;
    return {begin, static_cast<size_t>(at_ - begin)};
  }
  bool Integer(int64_t& value) {
    SkipSpace();
    auto [next, error] = std::from_chars(at_, end_, value);
    if (error != std::errc()) return false;
    at_ = next;
    return true;
  }
  bool String() {
    const char quote = *at_++;
    while (at_ < end_) {
      if (*at_ == '\\') {
        at_ += std::min<ptrdiff_t>(end_ - at_, 2);
      } else if (*at_++ == quote) {
        return true;
      }
    }
    return false;
  }
  // Braces inside double quotes do not count.
  bool Braces() {
    int depth = 0;
    while (at_ < end_) {
      if (*at_ == '"') {
        if (!String()) return false;
        continue;
      }
      const char c = *at_++;
      if (c == '{') ++depth;
      if (c == '}' && --depth == 0) return true;
    }
    return false;
  }
  bool Value() {
    SkipSpace();
    if (at_ == end_) return false;
    if (*at_ == '"' || *at_ == '\'') return String();
    if (*at_ == '{') return Braces();
    return !Identifier().empty();
  }

 private:
  const char* at_;
  const char* end_;
};

std::optional<std::string> CheckPairs(std::string_view what, std::string_view text,
                                      bool comma_needed) {
  Reader in(text);
  auto expected = [what](std::string_view wanted) {
    std::string message(what);
    message += ": expected ";
    message += wanted;
    return message;
  };
  if (!in.Consume('{')) return expected("'{'");
  bool first = true;
  while (!in.Consume('}')) {
    const bool comma = !first && in.Consume(',');
    if (!first && comma_needed && !comma) return expected("',' or '}'");
    first = false;
    const std::string_view key = in.Identifier();
    if (key.empty()) return expected("a name");
    if (!in.Consume('=')) return expected("'=' after '" + std::string(key) + "'");
    if (!in.Value()) return expected("a value after '" + std::string(key) + "='");
  }
  if (!in.AtEnd()) return expected("nothing after '}'");
  return std::nullopt;
}

}  // namespace

std::optional<std::string> CheckMetadataText(std::string_view text) {
  return CheckPairs("metadata", text, /*comma_needed=*/false);
}

std::optional<std::string> CheckFrontendAttributesText(std::string_view text) {
  if (text.empty()) return std::nullopt;
  return CheckPairs("frontend_attributes", text, /*comma_needed=*/true);
}

namespace {

// "{1,0}": a path into a tuple shape.
bool ReadIndex(Reader& in, std::vector<int64_t>& index) {
  index.clear();
  if (!in.Consume('{')) return false;
  if (in.Consume('}')) return true;
  do {
    if (!in.Integer(index.emplace_back())) return false;
  } while (in.Consume(','));
  return in.Consume('}');
}

}  // namespace

const Shape* ShapePart(const Shape* shape, std::span<const int64_t> index) {
  for (int64_t i : index) {
    if (!shape->IsTuple() || i < 0 || i >= static_cast<int64_t>(shape->elements().size())) {
      return nullptr;
    }
    shape = shape->element(i);
  }
  return shape;
}

std::optional<std::string> CheckAliasing(const Instruction& instruction, std::string_view text) {
  Reader in(text);
  const std::string malformed =
      "output_to_operand_aliasing must read {{output index}: (operand, {index}), ..}";
  if (!in.Consume('{')) return malformed;
  if (in.Consume('}')) return std::nullopt;
  std::vector<int64_t> output_index, operand_index;
  do {
    int64_t operand = 0;
    if (!ReadIndex(in, output_index) || !in.Consume(':') || !in.Consume('(') ||
        !in.Integer(operand) || !in.Consume(',') || !ReadIndex(in, operand_index) ||
        !in.Consume(')')) {
      return malformed;
    }
    if (operand < 0 || operand >= instruction.operand_count()) {
      return "output_to_operand_aliasing names operand " + std::to_string(operand) + " of " +
             std::to_string(instruction.operand_count());
    }
    const Shape* output = ShapePart(instruction.shape(), output_index);
    const Shape* input = ShapePart(instruction.operand(operand)->shape(), operand_index);
    if (output == nullptr || input == nullptr || !SameUpToDynamic(output, input)) {
      return "output_to_operand_aliasing pairs " +
             (output == nullptr ? "no part of the result" : ToString(output, false)) + " with " +
             (input == nullptr ? "no part of operand " + std::to_string(operand)
                               : ToString(input, false));
    }
  } while (in.Consume(','));
  if (!in.Consume('}') || !in.AtEnd()) return malformed;
  return std::nullopt;
}

}  // namespace gshard
