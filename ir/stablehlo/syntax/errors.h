// The first error of reading a text. Functions that may fail return false (or null) after it.
#ifndef GSHARD_IR_STABLEHLO_SYNTAX_ERRORS_H_
#define GSHARD_IR_STABLEHLO_SYNTAX_ERRORS_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ir/diagnostic.h"
#include "ir/parser_errors.h"
#include "ir/source_text.h"

namespace gshard::stablehlo {

class Errors {
 public:
  explicit Errors(const SourceText& source) : source_(source) {}

  // Always false. Only the first error counts.
  bool Fail(ParseError code, SourceRange range, std::string message, std::string hint = {}) {
    if (error_.has_value()) return false;
    error_ = source_.Locate(range, Severity::kError, CodeOf(code), std::move(message));
    error_->hint = std::move(hint);
    return false;
  }
  // `view` points into the text.
  bool Fail(ParseError code, std::string_view view, std::string message, std::string hint = {}) {
    return Fail(code, RangeOf(view), std::move(message), std::move(hint));
  }
  void Note(SourceRange range, std::string message) {
    error_->notes.push_back(source_.Locate(range, Severity::kNote, {}, std::move(message)));
  }
  bool failed() const { return error_.has_value(); }
  Diagnostic Take() { return *std::exchange(error_, std::nullopt); }

  SourceRange RangeOf(std::string_view view) const {
    const std::string_view text = source_.text();
    if (view.data() < text.data() || view.data() > text.data() + text.size()) return {};
    const auto begin = static_cast<uint32_t>(view.data() - text.data());
    return {begin, begin + static_cast<uint32_t>(view.size())};
  }
  std::string_view text() const { return source_.text(); }

 private:
  const SourceText& source_;
  std::optional<Diagnostic> error_;
};

}  // namespace gshard::stablehlo

#endif  // GSHARD_IR_STABLEHLO_SYNTAX_ERRORS_H_
