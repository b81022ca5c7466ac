#include "tests/golden_runner/line_pattern.h"

#include <fmt/format.h>

namespace gshard::golden {
namespace {

bool IsName(const std::string& text) {
  static const RE2 name("[A-Za-z_][A-Za-z0-9_]*");
  return RE2::FullMatch(text, name);
}

RE2::Options Quiet() {
  RE2::Options options;
  options.set_log_errors(false);
  return options;
}

}  // namespace

bool LinePattern::Parse(const std::string& text, LinePattern* pattern, std::string* problem) {
  auto refuse = [&](std::string why) {
    *problem = std::move(why);
    return false;
  };
  *pattern = LinePattern();
  pattern->text_ = text;
  if (text.empty()) return refuse("the pattern is empty");
  std::string literal;
  auto flush = [&] {
    if (!literal.empty()) pattern->pieces_.push_back({Piece::kText, literal, ""});
    literal.clear();
  };
  for (size_t i = 0; i < text.size();) {
    const bool braces = text.compare(i, 2, "{{") == 0, brackets = text.compare(i, 2, "[[") == 0;
    if (!braces && !brackets) {
      literal += text[i++];
      continue;
    }
    const char* closing = braces ? "}}" : "]]";
    const size_t end = text.find(closing, i);
    if (end == std::string::npos) {
      return refuse(fmt::format("'{}' without '{}'; as text, write {{{{[{}][{}]}}}}",
                                text.substr(i, 2), closing, text[i], text[i]));
    }
    const std::string inner = text.substr(i + 2, end - i - 2);
    i = end + 2;
    flush();
    if (braces) {
      pattern->pieces_.push_back({Piece::kRegex, inner, ""});
    } else if (const size_t colon = inner.find(':'); colon != std::string::npos) {
      const std::string name = inner.substr(0, colon);
      if (!IsName(name)) return refuse(fmt::format("'{}' is no name of a variable", name));
      if (!pattern->defines_.insert(name).second)
        return refuse(fmt::format("'{}' is defined twice in one pattern", name));
      pattern->pieces_.push_back({Piece::kDefinition, inner.substr(colon + 1), name});
    } else {
      if (!IsName(inner)) return refuse(fmt::format("'{}' is no name of a variable", inner));
      pattern->uses_.insert(inner);
      pattern->pieces_.push_back({Piece::kUse, "", inner});
    }
    const Piece& piece = pattern->pieces_.back();
    if (piece.kind == Piece::kUse) continue;
    if (piece.text.empty()) return refuse("the expression between the braces is empty");
    if (const RE2 regex(piece.text, Quiet()); !regex.ok())
      return refuse(fmt::format("'{}' is no expression: {}", piece.text, regex.error()));
  }
  flush();
  Variables any;
  for (const std::string& name : pattern->uses_) {
    if (pattern->defines_.count(name) != 0)
      return refuse(fmt::format("'{}' is used in the pattern that defines it", name));
    any[name] = "x";
  }
  if (const RE2 whole(pattern->Regex(any), Quiet()); !whole.ok())
    return refuse(fmt::format("no expression: {}", whole.error()));
  return true;
}

bool LinePattern::HoldsOfEmptyLine() const {
  Variables values;
  for (const std::string& name : uses_) values[name] = "x";
  return RE2::PartialMatch("", RE2(Regex(values)));
}

std::string LinePattern::Regex(const Variables& values) const {
  std::string regex;
  for (const Piece& piece : pieces_) {
    switch (piece.kind) {
      case Piece::kText:
        regex += RE2::QuoteMeta(piece.text);
        break;
      case Piece::kRegex:
        regex += "(?:" + piece.text + ")";
        break;
      case Piece::kDefinition:
        regex += "(?P<" + piece.name + ">" + piece.text + ")";
        break;
      case Piece::kUse:
        regex += RE2::QuoteMeta(values.at(piece.name));
        break;
    }
  }
  return regex;
}

bool Holds(const RE2& regex, const std::string& line, Variables* values) {
  // The author's own parentheses are groups too: definitions are found by their names.
  std::vector<re2::StringPiece> groups(static_cast<size_t>(regex.NumberOfCapturingGroups()) + 1);
  if (!regex.Match(line, 0, line.size(), RE2::UNANCHORED, groups.data(),
                   static_cast<int>(groups.size()))) {
    return false;
  }
  for (const auto& [name, group] : regex.NamedCapturingGroups())
    (*values)[name] = std::string(groups[static_cast<size_t>(group)]);
  return true;
}

}  // namespace gshard::golden
