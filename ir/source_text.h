// The text a module was read from: read once, never changed, shared by all views into it.
//
// Read rather than mapped: a mapped file that is overwritten or cut while we work (-o on the input)
// would kill the process, and reading costs a hundredth of parsing.
// Immutable after construction and therefore safe to share between threads.
#ifndef GSHARD_IR_SOURCE_TEXT_H_
#define GSHARD_IR_SOURCE_TEXT_H_

#include <memory>
#include <string>
#include <string_view>

#include "ir/diagnostic.h"

namespace gshard {

class SourceText {
 public:
  // Maps `path`; "-" reads standard input. Fails (E-IO-...) on unreadable files and on more than 4
  // GiB.
  static Expected<std::shared_ptr<const SourceText>> Open(const std::string& path);
  // Takes `text` as it is; `name` stands in diagnostics.
  static std::shared_ptr<const SourceText> FromString(std::string name, std::string text);

  SourceText(const SourceText&) = delete;
  SourceText& operator=(const SourceText&) = delete;

  const std::string& name() const { return name_; }
  std::string_view text() const { return text_; }

  // Located diagnostic with source line and caret. `range` may be empty (points at a place). The
  // line is valid printable UTF-8: control characters and stray bytes are shown as '?', tabs as
  // spaces.
  Diagnostic Locate(SourceRange range, Severity severity, std::string code,
                    std::string message) const;

 private:
  SourceText() = default;

  std::string name_;
  std::string owned_;               // FromString
  std::unique_ptr<char[]> buffer_;  // Open
  std::string_view text_;
};

}  // namespace gshard

#endif  // GSHARD_IR_SOURCE_TEXT_H_
