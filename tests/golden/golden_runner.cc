// Runs golden tests: files that carry their command and what its output must hold.
//
//   // RUN: gshard-opt partition %s        the command (shell; %s: this part of the file)
//   // CHECK: text {{regex}} [[X:regex]] [[X]]    a later line holds this
//   // CHECK-NEXT / -NOT / -DAG / -LABEL / -COUNT-n
//   // EXPECT-ERROR@+2: message             exit 1 and "…:LINE:…error: …message" for that line
//   // EXIT: 3                              expected exit code (default 0; 1 with EXPECT-ERROR)
//   // -----                                next part; it inherits RUN if it has none
// GSHARD_UPDATE=1 rewrites the CHECK/CHECK-NEXT block of failing parts with the whole output.
//
// usage: gshard_golden BIN_DIR FILE_OR_DIR...   ends with "N passed, N failed".

#include <fmt/format.h>
#include <re2/re2.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

std::string ReadAll(const fs::path& path) {
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
  size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

struct Check {
  std::string kind;  // "", "NEXT", "NOT", "DAG", "LABEL"
  std::string pattern;
  int count = 1;
};

struct ExpectedError {
  int line;  // 1-based in the part
  std::string message;
};

struct Part {
  std::vector<std::string> lines;
  std::string run;
  std::vector<Check> checks;
  std::vector<ExpectedError> errors;
  int exit_code = 0;
};

// Text after "// KEY" and an optional suffix up to ':', if the line is such a directive.
bool Directive(const std::string& line, const std::string& key, std::string* suffix,
               std::string* value) {
  std::string text = Trimmed(line);
  if (text.rfind("// " + key, 0) != 0) return false;
  text = text.substr(3 + key.size());
  size_t colon = text.find(':');
  if (colon == std::string::npos || text.substr(0, colon).find(' ') != std::string::npos)
    return false;
  *suffix = text.substr(0, colon);
  *value = Trimmed(text.substr(colon + 1));
  return true;
}

Part ParsePart(std::vector<std::string> lines, const std::string& inherited_run) {
  Part part;
  part.run = inherited_run;
  bool own_run = false;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string suffix, value;
    if (Directive(lines[i], "RUN", &suffix, &value)) {
      part.run = own_run ? part.run + "\n" + value : value;
      own_run = true;
    } else if (Directive(lines[i], "EXIT", &suffix, &value)) {
      part.exit_code = std::atoi(value.c_str());
    } else if (Directive(lines[i], "EXPECT-ERROR", &suffix, &value)) {
      int offset = suffix.empty() ? 0 : std::atoi(suffix.substr(1).c_str());
      part.errors.push_back({static_cast<int>(i) + 1 + offset, value});
      if (part.exit_code == 0) part.exit_code = 1;
    } else if (Directive(lines[i], "CHECK", &suffix, &value)) {
      Check check{suffix.empty() ? "" : suffix.substr(1), value};
      if (check.kind.rfind("COUNT-", 0) == 0) {
        check.count = std::atoi(check.kind.substr(6).c_str());
        check.kind = "";
      }
      part.checks.push_back(check);
    }
  }
  part.lines = std::move(lines);
  return part;
}

std::vector<Part> ParseFile(const fs::path& path) {
  std::vector<Part> parts;
  std::vector<std::string> current;
  std::string run;
  auto flush = [&] {
    parts.push_back(ParsePart(std::move(current), run));
    run = parts.back().run;
    current.clear();
  };
  for (const std::string& line : Lines(ReadAll(path))) {
    if (Trimmed(line) == "// -----") {
      flush();
    } else {
      current.push_back(line);
    }
  }
  flush();
  return parts;
}

// "a {{b+}} [[X:c]]" -> a regular expression; names of captures in order.
std::string ToRegex(const std::string& pattern, const std::map<std::string, std::string>& variables,
                    std::vector<std::string>* captures) {
  std::string regex;
  for (size_t i = 0; i < pattern.size();) {
    bool braces = pattern.compare(i, 2, "{{") == 0, brackets = pattern.compare(i, 2, "[[") == 0;
    size_t end = braces     ? pattern.find("}}", i)
                 : brackets ? pattern.find("]]", i)
                            : std::string::npos;
    if (end == std::string::npos) {
      regex += RE2::QuoteMeta(pattern.substr(i, 1));
      ++i;
      continue;
    }
    std::string inner = pattern.substr(i + 2, end - i - 2);
    i = end + 2;
    if (braces) {
      regex += "(?:" + inner + ")";
      continue;
    }
    size_t colon = inner.find(':');
    if (colon != std::string::npos) {
      captures->push_back(inner.substr(0, colon));
      regex += "(" + inner.substr(colon + 1) + ")";
    } else {
      auto it = variables.find(inner);
      regex += RE2::QuoteMeta(it == variables.end() ? "[[" + inner + "]]" : it->second);
    }
  }
  return regex;
}

class Checker {
 public:
  explicit Checker(std::vector<std::string> output) : output_(std::move(output)) {}

  // Empty if all hold, else what failed.
  std::string Run(const std::vector<Check>& checks) {
    std::vector<const Check*> forbidden;
    for (const Check& check : checks) {
      if (check.kind == "NOT") {
        forbidden.push_back(&check);
        continue;
      }
      for (int i = 0; i < check.count; ++i) {
        size_t from = next_;
        if (!Advance(check))
          return fmt::format("no match for CHECK{}{}: {}", check.kind.empty() ? "" : "-",
                             check.kind, check.pattern);
        std::string hit = FirstForbidden(forbidden, from, check.kind == "DAG" ? from : next_ - 1);
        if (!hit.empty()) return hit;
        forbidden.clear();
      }
    }
    return FirstForbidden(forbidden, next_, output_.size());
  }

 private:
  bool Matches(const Check& check, size_t line) {
    std::vector<std::string> names;
    RE2 regex(ToRegex(check.pattern, variables_, &names));
    if (!regex.ok()) return false;
    std::vector<re2::StringPiece> groups(names.size() + 1);
    if (!regex.Match(output_[line], 0, output_[line].size(), RE2::UNANCHORED, groups.data(),
                     static_cast<int>(groups.size()))) {
      return false;
    }
    for (size_t i = 0; i < names.size(); ++i) variables_[names[i]] = std::string(groups[i + 1]);
    return true;
  }

  bool Advance(const Check& check) {
    if (check.kind == "NEXT") return next_ < output_.size() && Matches(check, next_++);
    size_t from = check.kind == "DAG" ? dag_start_ : next_;
    for (size_t line = from; line < output_.size(); ++line) {
      if (!Matches(check, line)) continue;
      next_ = std::max(next_, line + 1);
      if (check.kind != "DAG") dag_start_ = next_;
      return true;
    }
    return false;
  }

  std::string FirstForbidden(const std::vector<const Check*>& forbidden, size_t from, size_t to) {
    for (const Check* check : forbidden) {
      for (size_t line = from; line < std::min(to, output_.size()); ++line) {
        if (Matches(*check, line))
          return fmt::format("CHECK-NOT: {} matches: {}", check->pattern, output_[line]);
      }
    }
    return "";
  }

  std::vector<std::string> output_;
  std::map<std::string, std::string> variables_;
  size_t next_ = 0;
  size_t dag_start_ = 0;
};

struct Outcome {
  int exit_code = 0;
  std::string out, err;
};

Outcome Execute(const std::string& command, const std::string& bin, const fs::path& input,
                const fs::path& scratch) {
  std::string expanded = command;
  for (size_t at = expanded.find("%s"); at != std::string::npos; at = expanded.find("%s", at + 1)) {
    expanded.replace(at, 2, input.string());
  }
  fs::path script = scratch / "run.sh", out = scratch / "out", err = scratch / "err";
  std::ofstream(script) << "set -o pipefail\nexport PATH='" << bin << "':$PATH\n"
                        << expanded << "\n";
  int status = std::system(
      fmt::format("bash '{}' >'{}' 2>'{}' </dev/null", script.string(), out.string(), err.string())
          .c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), ReadAll(out),
          ReadAll(err)};
}

std::string Judge(const Part& part, const Outcome& outcome) {
  if (part.run.empty()) return "no RUN line";
  if (part.checks.empty() && part.errors.empty() && part.exit_code == 0 &&
      part.run.find("diff") == std::string::npos) {
    return "nothing is checked";
  }
  if (outcome.exit_code != part.exit_code) {
    return fmt::format("exit code {} instead of {}\n{}", outcome.exit_code, part.exit_code,
                       outcome.err);
  }
  for (const ExpectedError& error : part.errors) {
    std::string place = fmt::format(":{}:", error.line);
    bool found = false;
    for (const std::string& line : Lines(outcome.err)) {
      found = found ||
              (line.find(place) != std::string::npos && line.find("error: ") != std::string::npos &&
               line.find(error.message) != std::string::npos);
    }
    if (!found)
      return fmt::format("no error '{}' at line {}; standard error is\n{}", error.message,
                         error.line, outcome.err);
  }
  // Diagnostics can be checked like output where the command sends them there (2>&1).
  return Checker(Lines(outcome.out)).Run(part.checks);
}

void Rewrite(Part& part, const Outcome& outcome) {
  std::vector<std::string> lines;
  std::string suffix, value;
  for (const std::string& line : part.lines) {
    if (!Directive(line, "CHECK", &suffix, &value)) lines.push_back(line);
  }
  while (!lines.empty() && Trimmed(lines.back()).empty()) lines.pop_back();
  bool first = true;
  for (const std::string& line : Lines(outcome.out)) {
    if (Trimmed(line).empty()) {
      first = true;
      continue;
    }
    lines.push_back(fmt::format("// CHECK{}: {}", first ? "" : "-NEXT", Trimmed(line)));
    first = false;
  }
  part.lines = std::move(lines);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: gshard_golden BIN_DIR FILE_OR_DIR...\n");
    return 2;
  }
  std::vector<fs::path> files;
  for (int i = 2; i < argc; ++i) {
    if (!fs::is_directory(argv[i])) {
      files.emplace_back(argv[i]);
      continue;
    }
    for (const auto& entry : fs::recursive_directory_iterator(argv[i])) {
      if (entry.path().extension() == ".hlo") files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  char scratch_name[] = "/tmp/gshard-golden-XXXXXX";
  fs::path scratch = mkdtemp(scratch_name);
  bool update = std::getenv("GSHARD_UPDATE") != nullptr;
  int passed = 0, failed = 0;
  for (const fs::path& file : files) {
    std::vector<Part> parts = ParseFile(file);
    bool changed = false;
    for (size_t i = 0; i < parts.size(); ++i) {
      fs::path input = scratch / file.filename();
      std::ofstream(input) << fmt::format("{}\n", fmt::join(parts[i].lines, "\n"));
      Outcome outcome = Execute(parts[i].run, fs::absolute(argv[1]).string(), input, scratch);
      std::string problem = Judge(parts[i], outcome);
      if (problem.empty()) {
        ++passed;
        continue;
      }
      if (update && parts[i].errors.empty() && outcome.exit_code == parts[i].exit_code) {
        Rewrite(parts[i], outcome);
        changed = true;
      }
      ++failed;
      fmt::print("{} part {}: {}\n", file.string(), i + 1, problem);
      if (!update) fmt::print("--- output\n{}---\n", outcome.out.substr(0, 4000));
    }
    if (changed) {
      std::ofstream out(file);
      for (size_t i = 0; i < parts.size(); ++i) {
        if (i > 0) out << "// -----\n";
        out << fmt::format("{}\n", fmt::join(parts[i].lines, "\n"));
      }
    }
  }
  fs::remove_all(scratch);
  fmt::print("{} passed, {} failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
