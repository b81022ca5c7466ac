// Stable codes of the parser's diagnostics (docs/text-format.md lists them).
#ifndef GSHARD_IR_PARSER_ERRORS_H_
#define GSHARD_IR_PARSER_ERRORS_H_

#include <cstdint>
#include <functional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>

namespace gshard {

enum class ParseError : uint8_t {
  kTruncated,  // the text ends inside something
  kSyntax,     // something else was expected
  kUnknownOpcode,
  kUnknownAttribute,
  kMissingAttribute,
  kRepeatedAttribute,
  kAttributeValue,
  kUnknownOperand,
  kDuplicateName,
  kOperandCount,
  kUnknownComputation,
  kShape,
  kLiteral,
  kSharding,
  kNesting,
  kNumberRange,
  kIllegalName,
  kShapeMismatch,  // two places disagree on a shape
  kShapeNotInferable,
  kNotHloText,  // MLIR, a binary proto, ..
  kParameters,  // numbers that repeat or leave gaps
  kAsync,       // -update or -done without its -start
  kModule,      // no computation, two entries, two roots
};

// "E-PARSE-001" for the first, and so on.
std::string CodeOf(ParseError error);

// "a, b, c", without empty words.
std::string Listed(std::span<const std::string_view> words);

// The candidate nearest to `word` if it is near enough to be a misspelling; empty otherwise. Linear
// in the total length of the candidates.
class NearestWord {
 public:
  explicit NearestWord(std::string_view word) : word_(word.substr(0, kMaxLength)) {}
  void Offer(std::string_view candidate);
  std::string_view best() const { return best_; }
  // "did you mean 'x'?", or empty.
  std::string Hint() const;

 private:
  static constexpr size_t kMaxLength = 64;
  std::string_view word_;
  std::string_view best_;
  size_t best_distance_ = SIZE_MAX;
};

// "did you mean 'model'? " before what a hint says anyway; empty if no candidate is near.
template <std::ranges::input_range Candidates, typename NameOf = std::identity>
std::string DidYouMean(std::string_view word, const Candidates& candidates, NameOf name_of = {}) {
  NearestWord nearest(word);
  for (const auto& candidate : candidates) nearest.Offer(std::invoke(name_of, candidate));
  return nearest.best().empty() ? std::string() : nearest.Hint() + " ";
}

}  // namespace gshard

#endif  // GSHARD_IR_PARSER_ERRORS_H_
