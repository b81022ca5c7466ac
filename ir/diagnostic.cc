#include "ir/diagnostic.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/utf8.h"

namespace gshard {
namespace {

std::string_view SeverityName(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "error";
    case Severity::kWarning:
      return "warning";
    case Severity::kNote:
      return "note";
  }
  return "error";
}

// Columns a terminal uses for UTF-8 text (wide characters count as one).
size_t Columns(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// What a terminal would obey, an escape say, is no part of a message, nor is what is no UTF-8.
std::string WithoutControls(std::string_view text) {
  std::string shown(text);
  for (size_t at = FirstNotUtf8(shown); at < shown.size(); at = FirstNotUtf8(shown, at + 1)) {
    shown[at] = '?';
  }
  std::ranges::replace(shown, '\t', ' ');
  std::ranges::replace_if(
      shown, [](char c) { return (c >= 0 && c < 0x20 && c != '\n') || c == 0x7F; }, '?');
  return shown;
}

// A name in a text may have megabytes: what does not fit a screen is left out in the middle.
std::string Shown(std::string_view text) {
  constexpr size_t kHead = 1200, kTail = 400;
  if (text.size() <= kHead + kTail) return WithoutControls(text);
  const auto is_continued = [&](size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
  };
  size_t head = kHead, tail = text.size() - kTail;
  while (head > 0 && is_continued(head)) --head;
  while (tail < text.size() && is_continued(tail)) ++tail;
  return WithoutControls(
      fmt::format("{}[.. {} bytes ..]{}", text.substr(0, head), tail - head, text.substr(tail)));
}

void AppendTo(std::string& out, const Diagnostic& d) {
  if (!d.file.empty()) {
    out += d.file;
    if (d.line > 0) out += fmt::format(":{}", d.line);
    if (d.line > 0 && d.column > 0) out += fmt::format(":{}", d.column);
    out += ": ";
  }
  out += fmt::format("{}: {}", SeverityName(d.severity), Shown(d.message));
  if (!d.code.empty()) out += fmt::format(" [{}]", d.code);
  out += '\n';
  if (!d.source_line.empty()) {
    const std::string shown = WithoutControls(d.source_line);
    const std::string_view line = shown;
    const size_t at = std::min<size_t>(d.caret_offset, line.size());
    const size_t marked = std::max<size_t>(Columns(line.substr(at, d.caret_length)), 1);
    out += fmt::format("  {}\n  {:>{}}{:~>{}}\n", line, '^', Columns(line.substr(0, at)) + 1, "",
                       marked - 1);
  }
  if (!d.hint.empty()) out += fmt::format("  hint: {}\n", Shown(d.hint));
  for (const Diagnostic& note : d.notes) AppendTo(out, note);
}

}  // namespace

std::string Render(const Diagnostic& diagnostic) {
  std::string out;
  AppendTo(out, diagnostic);
  return out;
}

Diagnostic MakeError(std::string code, std::string message, std::string hint) {
  Diagnostic diagnostic;
  diagnostic.code = std::move(code);
  diagnostic.message = std::move(message);
  diagnostic.hint = std::move(hint);
  return diagnostic;
}

}  // namespace gshard
