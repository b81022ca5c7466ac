#include "ir/input/text_sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "ir/input/line_prefix.h"
#include "ir/lexer.h"
#include "ir/stablehlo/reader.h"

namespace gshard {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// A module in the text: [begin, end) from its header to the next one's.
struct Section {
  std::string name;
  size_t begin = 0;
  size_t end = 0;
};

// "I1122 17:07:08.573859   31266 file.cc:25] ": what XLA's log writes before each line.
size_t LogPrefix(std::string_view line) {
  constexpr std::string_view kLevels = "IWEF";
  if (line.size() < 6 || kLevels.find(line[0]) == kLevels.npos || !HasClass(line[1], kDigit) ||
      !HasClass(line[2], kDigit) || !HasClass(line[3], kDigit) || !HasClass(line[4], kDigit) ||
      line[5] != ' ') {
    return 0;
  }
  const size_t bracket = line.substr(0, 256).find("] ");
  return bracket == line.npos ? 0 : bracket + 2;
}

// The name of a module whose header starts the line; empty if none does.
std::string HeaderName(std::string_view line) {
  Lexer lexer(line);
  if (lexer.ConsumeWord("HloModule")) {
    lexer.Consume('%');
    return std::string(lexer.Identifier());
  }
  if (lexer.ConsumeWord("builtin.module") || lexer.ConsumeWord("module")) {
    if (lexer.Consume('@')) return std::string(lexer.Identifier());
    if (lexer.ConsumeWord("attributes")) return "module";
  }
  return {};
}

class Sections {
 public:
  explicit Sections(std::string_view text) : text_(text), prefix_(LinePrefix::Find(text)) {
    size_t aliases = text.npos;  // MLIR's aliases and their comments stand before the header
    for (size_t begin = 0; begin < text.size();) {
      size_t end = std::min(text.find('\n', begin), text.size());
      const std::string_view whole = text.substr(begin, end - begin);
      const size_t prefix = PrefixOf(whole);
      if (prefix > 0) has_prefixes_ = true;
      const std::string_view line = whole.substr(prefix);
      if (line.starts_with("#loc") || line.starts_with("#sdy")) {
        if (aliases == text.npos) aliases = begin;
      } else if (std::string name =
                     MayBeHeader(line) ? NameAt(line, begin + prefix) : std::string();
                 !name.empty()) {
        if (!sections_.empty()) sections_.back().end = begin;
        const bool own = aliases != text.npos && sections_.empty();
        sections_.push_back({std::move(name), own ? aliases : begin + prefix, text.size()});
        aliases = text.npos;
      } else if (line.starts_with("}") && !sections_.empty()) {
        last_close_ = end;
      }
      begin = end + 1;
    }
  }

  std::vector<Section>& all() { return sections_; }
  bool has_prefixes() const { return has_prefixes_; }
  // Bytes before the program's text in a line.
  size_t PrefixOf(std::string_view line) const {
    const size_t of_log = LogPrefix(line);
    return of_log > 0 ? of_log : prefix_.LengthIn(line);
  }

  // Where the last module ends, if lines follow that are no program: after the last line that
  // closes something, unless a computation is open there.
  void CutTail() {
    if (sections_.empty()) return;
    Section& last = sections_.back();
    if (last_close_ <= last.begin) return;
    // HLO that is cut short has no entry yet, or is within it.
    const std::string_view program = text_.substr(last.begin, last_close_ - last.begin);
    if (program.starts_with("HloModule") && program.find("\nENTRY") == program.npos &&
        !has_prefixes_) {
      return;
    }
    const std::string_view tail = text_.substr(last_close_, last.end - last_close_);
    Lexer lexer(tail);
    lexer.SkipSpace();
    if (lexer.AtEnd() || lexer.Raw() == '#' || lexer.Raw() == '{' || lexer.Raw() == '}' ||
        lexer.Raw() == '%' || tail.find("ENTRY") != tail.npos || tail.find('}') != tail.npos) {
      return;
    }
    last.end = last_close_;
  }

 private:
  // Of the module whose header starts there. `module {` alone may be a computation of HLO.
  std::string NameAt(std::string_view line, size_t begin) const {
    const bool in_hlo =
        !sections_.empty() && text_.substr(sections_.back().begin).starts_with("HloModule");
    if (line.starts_with("module {") && !in_hlo && stablehlo::IsMlirText(text_.substr(begin))) {
      return "module";
    }
    return HeaderName(line);
  }
  static bool MayBeHeader(std::string_view line) {
    return line.starts_with("HloModule ") || line.starts_with("module ") ||
           line.starts_with("builtin.module ");
  }

  std::string_view text_;
  LinePrefix prefix_;
  std::vector<Section> sections_;
  size_t last_close_ = 0;
  bool has_prefixes_ = false;
};

// Does a line from `begin` on start with "HloModule "? ('H' is rarer than the ends of lines.)
bool HasHeaderLine(std::string_view text, size_t begin) {
  constexpr std::string_view kHeader = "HloModule ";
  for (size_t at = text.find(kHeader, begin); at != text.npos; at = text.find(kHeader, at + 1)) {
    if (at > 0 && text[at - 1] == '\n') return true;
  }
  return false;
}

// Is there nothing but the one module (or text without a header, which the parsers judge)?
bool IsPlain(std::string_view text) {
  if (LogPrefix(text) > 0) return false;
  Lexer lexer(text);
  lexer.SkipSpace();
  const std::string_view start = text.substr(lexer.offset());
  if (!start.starts_with("HloModule")) return false;
  if (HasHeaderLine(text, lexer.offset() + 1)) return false;
  const size_t last = text.find_last_not_of(" \t\r\n");
  const size_t line = text.rfind('\n', last);
  // The usual end: the brace of the last computation.
  return text[line == text.npos ? 0 : line + 1] == '}' || text[last] == '}';
}

size_t LineOf(std::string_view text, size_t at) {
  return 1 + static_cast<size_t>(
                 std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

std::string Lines(std::string_view text, size_t begin, size_t end) {
  while (end > begin && HasClass(text[end - 1], kSpace)) --end;
  const size_t first = LineOf(text, begin);
  const size_t last = LineOf(text, end);
  return first == last ? fmt::format("line {}", first) : fmt::format("lines {}-{}", first, last);
}

bool IsCalledTwice(const std::vector<Section>& sections, const std::string& name) {
  return std::ranges::count(sections, name, &Section::name) > 1;
}

const Section* Find(const std::vector<Section>& sections, const std::string& name) {
  for (const Section& section : sections) {
    if (section.name == name) return &section;
  }
  size_t number = 0;
  if (name.starts_with('#')) std::from_chars(name.data() + 1, name.data() + name.size(), number);
  return number >= 1 && number <= sections.size() ? &sections[number - 1] : nullptr;
}

std::string Listed(const SourceText& source, const std::vector<Section>& sections) {
  constexpr size_t kMaxListed = 20;
  std::string list;
  for (size_t i = 0; i < std::min(sections.size(), kMaxListed); ++i) {
    list += fmt::format("{}{} (line {})", list.empty() ? "" : ", ", sections[i].name,
                        LineOf(source.text(), sections[i].begin));
  }
  if (sections.size() > kMaxListed) {
    list += fmt::format(" and {} more", sections.size() - kMaxListed);
  }
  return list;
}

void Blank(std::string& text, size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    if (text[i] != '\n') text[i] = ' ';
  }
}

bool HasWords(std::string_view text) {
  Lexer lexer(text);
  lexer.SkipSpace();
  return !lexer.AtEnd();
}

}  // namespace

Expected<std::shared_ptr<const SourceText>> SelectModuleText(
    std::shared_ptr<const SourceText> source, const std::string& name,
    std::vector<Diagnostic>& notes) {
  const std::string_view text = source->text();
  const bool marked = text.starts_with(kByteOrderMark);
  const std::string_view body = marked ? text.substr(kByteOrderMark.size()) : text;
  if (!marked && name.empty() && IsPlain(body)) return source;
  Sections found(text);
  std::vector<Section>& sections = found.all();
  if (sections.empty() && marked) {
    // Its first line is the header, behind the mark.
    Sections behind(body);
    for (const Section& section : behind.all()) {
      sections.push_back({section.name, section.begin + kByteOrderMark.size(),
                          section.end + kByteOrderMark.size()});
    }
  }
  found.CutTail();
  const auto fail = [&](size_t at, const char* code, std::string message, std::string hint) {
    const auto begin = static_cast<uint32_t>(at);
    Diagnostic error =
        source->Locate({begin, begin + 1}, Severity::kError, code, std::move(message));
    error.hint = std::move(hint);
    return Fail(std::move(error));
  };
  const Section* chosen = sections.empty() ? nullptr : sections.data();
  if (!name.empty()) {
    if (IsCalledTwice(sections, name)) {
      return fail(
          0, "E-INPUT-005", fmt::format("several modules of this text are called '{}'", name),
          fmt::format("choose one by its place, --module #2, of {}", Listed(*source, sections)));
    }
    chosen = Find(sections, name);
    if (chosen == nullptr) {
      return fail(0, "E-INPUT-005", fmt::format("no module of this text is called '{}'", name),
                  sections.empty() ? "" : "there is " + Listed(*source, sections));
    }
  } else if (sections.size() > 1) {
    const std::string& second = sections[1].name;
    return fail(
        sections[1].begin, "E-INPUT-004",
        fmt::format("{} modules in one text: {}", sections.size(), Listed(*source, sections)),
        IsCalledTwice(sections, second)
            ? "choose one by its place, --module #2"
            : fmt::format("choose one with --module {}, or by its place, --module #2", second));
  }
  const size_t begin = chosen == nullptr ? 0 : chosen->begin;
  const size_t end = chosen == nullptr ? text.size() : chosen->end;
  const size_t start = marked ? kByteOrderMark.size() : 0;
  const bool skips_head = begin > start && HasWords(text.substr(start, begin - start));
  const bool skips_tail = HasWords(text.substr(end));
  if (!marked && !skips_head && !skips_tail && !found.has_prefixes()) return source;
  std::string rest(text);
  Blank(rest, 0, std::max(begin, start));
  Blank(rest, end, rest.size());
  if (found.has_prefixes()) {
    for (size_t line = begin; line < end;) {
      const size_t next = std::min(text.find('\n', line), text.size() - 1) + 1;
      Blank(rest, line, line + found.PrefixOf(text.substr(line, next - line)));
      line = next;
    }
  }
  if (sections.size() <= 1 && (skips_head || skips_tail)) {
    std::string skipped = skips_head ? Lines(text, start, begin) : std::string();
    if (skips_tail) {
      const size_t first = text.find_first_not_of(" \t\r\n", end);
      skipped += (skips_head ? " and " : "") + Lines(text, first, text.size());
    }
    Diagnostic note = MakeError("", fmt::format("skipped {}: no part of the program", skipped));
    note.severity = Severity::kNote;
    note.file = source->name();
    notes.push_back(std::move(note));
  }
  return SourceText::FromString(source->name(), std::move(rest));
}

}  // namespace gshard
