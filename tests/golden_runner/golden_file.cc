#include "tests/golden_runner/golden_file.h"

#include <fmt/format.h>

#include <fstream>
#include <set>
#include <sstream>

namespace gshard::golden {
namespace {

// "// WORD: value", "// WORD@+1: value".
struct Directive {
  std::string word, offset, value;
};

bool ParseDirective(const std::string& line, Directive* directive) {
  static const RE2 form("\\s*// ([A-Z][A-Z0-9-]{2,})(@[^\\s:]*)?:(?:\\s+(.*?)|)\\s*");
  *directive = Directive();
  return RE2::FullMatch(line, form, &directive->word, &directive->offset, &directive->value);
}

// Text that means to be a directive, and is none: "//CHECK:", "// Check:", "x = … // CHECK: y".
bool LooksLikeDirective(const std::string& line) {
  static const RE2 form(
      "(?:^|[^\\w%.-])(?i:RUN|EXIT|EXPECT-ERROR|EXPECT_ERROR|CHECK(?:[-_]\\w+)*)(?:@[^\\s:]*)?\\s*"
      ":");
  static const RE2 other("^\\s*(?://|#)\\s*[A-Z][A-Z0-9_-]{2,}(?:@[^\\s:]*)?\\s*:");
  return RE2::PartialMatch(line, form) || RE2::PartialMatch(line, other);
}

bool LooksLikeSeparator(const std::string& line) {
  static const RE2 form("\\s*//\\s*-{3,}\\s*");
  return RE2::FullMatch(line, form);
}

class PartParser {
 public:
  Part Parse(std::vector<std::string> lines, int first_line, const std::string& inherited_run) {
    part_.first_line = first_line;
    part_.run = inherited_run;
    part_.lines = std::move(lines);
    for (line_ = 1; line_ <= Count(); ++line_)
      ParseLine(part_.lines[static_cast<size_t>(line_) - 1]);
    line_ = 1;
    RefuseIfNothingIsChecked();
    return std::move(part_);
  }

 private:
  int Count() const { return static_cast<int>(part_.lines.size()); }
  void Refuse(std::string message) { part_.refusals.push_back({line_, std::move(message)}); }

  void ParseLine(const std::string& line) {
    Directive directive;
    if (!ParseDirective(line, &directive)) {
      if (LooksLikeDirective(line)) Refuse("reads like a directive and is none: '// WORD: text'");
      if (LooksLikeSeparator(line)) Refuse("parts are separated by '// -----'");
      return;
    }
    if (!directive.offset.empty() && directive.word != "EXPECT-ERROR")
      return Refuse(fmt::format("'{}' takes no line number", directive.word));
    if (directive.word == "RUN") {
      ParseRun(directive.value);
    } else if (directive.word == "EXIT") {
      ParseExit(directive.value);
    } else if (directive.word == "EXPECT-ERROR") {
      ParseExpectedError(directive);
    } else if (directive.word.rfind("CHECK", 0) == 0) {
      ParseCheck(directive);
    } else {
      Refuse(fmt::format("unknown directive '{}'", directive.word));
    }
  }

  void ParseRun(const std::string& command) {
    if (command.empty()) return Refuse("RUN without a command");
    part_.run = own_run_ ? part_.run + "\n" + command : command;
    own_run_ = true;
  }

  void ParseExit(const std::string& code) {
    if (own_exit_) return Refuse("a second EXIT");
    own_exit_ = true;
    if (!RE2::FullMatch(code, "(\\d{1,3})", &part_.exit_code))
      Refuse(fmt::format("'{}' is no exit code", code));
  }

  void ParseExpectedError(const Directive& directive) {
    int offset = 0;
    if (!directive.offset.empty() && !RE2::FullMatch(directive.offset, "@([+-]\\d+)", &offset)) {
      return Refuse(fmt::format("'{}' is no line: '@+2', '@-1'", directive.offset));
    }
    if (directive.value.empty()) return Refuse("EXPECT-ERROR without a message");
    const int line = line_ + offset;
    if (line < 1 || line > Count()) return Refuse("the part has no such line");
    part_.errors.push_back({line, directive.value});
    if (!own_exit_) part_.exit_code = 1;
  }

  bool ParseKind(const std::string& word, Check* check) {
    static const std::map<std::string, CheckKind> kinds = {
        {"CHECK", CheckKind::kPlain},       {"CHECK-NEXT", CheckKind::kNext},
        {"CHECK-EMPTY", CheckKind::kEmpty}, {"CHECK-NOT", CheckKind::kNot},
        {"CHECK-DAG", CheckKind::kDag},     {"CHECK-LABEL", CheckKind::kLabel}};
    if (auto it = kinds.find(word); it != kinds.end()) {
      check->kind = it->second;
      return true;
    }
    return RE2::FullMatch(word, "CHECK-COUNT-([1-9]\\d{0,5})", &check->count);
  }

  void ParseCheck(const Directive& directive) {
    Check check;
    check.line = line_;
    check.directive = directive.word;
    if (!ParseKind(directive.word, &check))
      return Refuse(fmt::format("unknown directive '{}'", directive.word));
    if (check.kind == CheckKind::kEmpty) {
      if (!directive.value.empty()) return Refuse("CHECK-EMPTY takes no pattern");
    } else if (std::string problem;
               !LinePattern::Parse(directive.value, &check.pattern, &problem)) {
      return Refuse(std::move(problem));
    }
    RefuseUnlessItCanFail(check);
    CheckVariables(check);
    part_.checks.push_back(std::move(check));
  }

  void RefuseUnlessItCanFail(const Check& check) {
    const bool adjacent = check.kind == CheckKind::kNext || check.kind == CheckKind::kEmpty;
    const bool anywhere = check.kind == CheckKind::kPlain || check.kind == CheckKind::kDag ||
                          check.kind == CheckKind::kLabel;
    if (adjacent && part_.checks.empty())
      Refuse(fmt::format("{} without a check before it", check.directive));
    if (adjacent && !part_.checks.empty() && part_.checks.back().kind == CheckKind::kNot)
      Refuse(fmt::format("no line is between a match and {}: the CHECK-NOT before it holds always",
                         check.directive));
    if (anywhere && check.pattern.HoldsOfEmptyLine()) Refuse("the pattern holds of every line");
  }

  // Directives are tried in the order of the text, labels before all: so a value is there or not.
  void CheckVariables(const Check& check) {
    const LinePattern& pattern = check.pattern;
    if (check.kind == CheckKind::kNot && !pattern.defines().empty())
      Refuse(fmt::format("'{}' is defined by what must not be there", *pattern.defines().begin()));
    if (check.kind == CheckKind::kLabel && !(pattern.defines().empty() && pattern.uses().empty()))
      Refuse("labels are looked for first: they have no variables");
    for (const std::string& name : pattern.uses()) {
      if (defined_.count(name) == 0)
        Refuse(fmt::format("'{}' has no value; '[[' as text is {{{{\\[\\[}}}}", name));
    }
    defined_.insert(pattern.defines().begin(), pattern.defines().end());
  }

  void RefuseIfNothingIsChecked() {
    if (part_.run.empty()) return Refuse("no RUN line");
    static const RE2 compares("(?:^|[|;&(\\s])(?:diff|cmp|grep)\\s");
    if (part_.checks.empty() && part_.errors.empty() && part_.refusals.empty() &&
        !RE2::PartialMatch(part_.run, compares)) {
      Refuse("nothing is checked");
    }
  }

  Part part_;
  int line_ = 1;
  bool own_run_ = false, own_exit_ = false;
  std::set<std::string> defined_;
};

}  // namespace

std::string ReadAll(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::stringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string Trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

bool IsCheckLine(const std::string& line) {
  Directive directive;
  return ParseDirective(line, &directive) && directive.word.rfind("CHECK", 0) == 0;
}

std::vector<Part> ParseFile(const std::filesystem::path& path) {
  std::vector<Part> parts;
  std::vector<std::string> current;
  int line = 0, first_line = 1;
  auto flush = [&] {
    const std::string run = parts.empty() ? "" : parts.back().run;
    parts.push_back(PartParser().Parse(std::move(current), first_line, run));
    current.clear();
    first_line = line + 1;
  };
  for (const std::string& text : Lines(ReadAll(path))) {
    ++line;
    if (Trimmed(text) == "// -----") {
      flush();
    } else {
      current.push_back(text);
    }
  }
  flush();
  return parts;
}

}  // namespace gshard::golden
