// What went wrong, where, and what to try: the one way errors travel.
//
// User errors are values (Expected<T> carrying a Diagnostic); broken invariants of our own are
// InternalError exceptions. Codes such as "E-PARSE-012" are stable: tests and scripts match them.
#ifndef GSHARD_IR_DIAGNOSTIC_H_
#define GSHARD_IR_DIAGNOSTIC_H_

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace gshard {

// Byte offsets [begin, end) into a SourceText; {0, 0} means "no place".
struct SourceRange {
  uint32_t begin = 0;
  uint32_t end = 0;
  bool empty() const { return end <= begin; }
};

enum class Severity : uint8_t { kError, kWarning, kNote };

struct Diagnostic {
  Severity severity = Severity::kError;
  std::string code;         // "E-PARSE-012"; empty for notes
  std::string message;      // one sentence, no trailing period, no newline
  std::string file;         // empty: not tied to a file
  uint32_t line = 0;        // 1-based; 0: unknown
  uint32_t column = 0;      // 1-based, in bytes
  std::string source_line;  // the text of that line, without newline, cut to a sane length
  uint32_t caret_offset =
      0;  // bytes of source_line (which may be cut on the left) before the caret
  uint32_t caret_length = 0;  // bytes to underline, at least 1 where source_line is set
  std::string hint;           // what to try; may be empty
  std::vector<Diagnostic> notes;
};

template <typename T>
using Expected = tl::expected<T, Diagnostic>;

// "file:line:col: error: message [code]\n  source line\n  ^~~~\n  hint: ...\n" and the notes.
std::string Render(const Diagnostic& diagnostic);

// An error without a place (a flag, a whole file).
Diagnostic MakeError(std::string code, std::string message, std::string hint = "");

inline tl::unexpected<Diagnostic> Fail(Diagnostic diagnostic) {
  return tl::unexpected<Diagnostic>(std::move(diagnostic));
}

// A broken invariant of gshard itself. `cmd` prints it with how to report it and exits 4.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// Throws InternalError unless `condition`.
inline void CheckInternal(bool condition, const char* what) {
  if (!condition) throw InternalError(what);
}

}  // namespace gshard

#endif  // GSHARD_IR_DIAGNOSTIC_H_
