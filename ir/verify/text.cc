// The verbatim texts: metadata, frontend attributes, aliasing lists.
#include "ir/dims.h"
#include "ir/lexer.h"
#include "ir/shape_inference.h"
#include "ir/verify/checks.h"

namespace gshard {

namespace {

// A run of [A-Za-z0-9_.-]: a key, or a value without quotes. Empty if there is none.
std::string_view Word(Lexer& in) {
  in.SkipSpace();
  const char* start = in.position();
  while (HasClass(in.Raw(), kNameContinue)) in.Advance();
  return in.Since(start);
}

// Values are strings, balanced braces or bare words.
bool Value(Lexer& in) {
  const char c = in.Peek();
  if (c == '"' || c == '\'') return !in.String().empty();
  if (c == '{') return !in.JsonDict().empty();
  return !Word(in).empty();
}

std::optional<std::string> CheckPairs(std::string_view what, std::string_view text,
                                      bool comma_needed) {
  Lexer in(text);
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
    const std::string_view key = Word(in);
    if (key.empty()) return expected("a name");
    if (!in.Consume('=')) return expected("'=' after '" + std::string(key) + "'");
    if (!Value(in)) return expected("a value after '" + std::string(key) + "='");
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
bool ReadIndex(Lexer& in, std::vector<int64_t>& index) {
  index.clear();
  if (!in.Consume('{')) return false;
  if (in.Consume('}')) return true;
  do {
    if (in.Integer(index.emplace_back()) != Lexer::Number::kOk) return false;
  } while (in.Consume(','));
  return in.Consume('}');
}

}  // namespace

std::optional<std::string> CheckAliasing(const Instruction& instruction, std::string_view text) {
  Lexer in(text);
  const std::string malformed =
      "output_to_operand_aliasing must read {{output index}: (operand, {index}), ..}";
  if (!in.Consume('{')) return malformed;
  if (in.Consume('}')) return std::nullopt;
  std::vector<int64_t> output_index, operand_index;
  do {
    int64_t operand = 0;
    if (!ReadIndex(in, output_index) || !in.Consume(':') || !in.Consume('(') ||
        in.Integer(operand) != Lexer::Number::kOk || !in.Consume(',') ||
        !ReadIndex(in, operand_index) || !in.Consume(')')) {
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
