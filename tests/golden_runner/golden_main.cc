// Runs golden tests: files that carry their command and what its output must hold (golden_file.h).
// GSHARD_UPDATE=1 rewrites the CHECK lines of failing parts: the whole output, line by line.
//
// usage: gshard_golden [--abort] BIN_DIR FILE_OR_DIR...   ends with "N passed, N failed".
// With --abort, as with Catch2's, nothing is run after the first failure.

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tests/golden_runner/golden_file.h"
#include "tests/golden_runner/output_checker.h"

namespace gshard::golden {
namespace {

namespace fs = std::filesystem;

constexpr int kTimeLimitSeconds = 120;

struct Outcome {
  int exit_code = 0;
  std::string out, err;
};

Outcome Execute(const std::string& command, const fs::path& bin, const fs::path& input,
                const fs::path& scratch) {
  std::string expanded = command;
  for (size_t at = expanded.find("%s"); at != std::string::npos; at = expanded.find("%s", at + 1)) {
    expanded.replace(at, 2, input.string());
  }
  const fs::path script = scratch / "run.sh", out = scratch / "out", err = scratch / "err";
  std::ofstream(script) << "set -eo pipefail\nexport PATH='" << bin.string() << "':$PATH\n"
                        << expanded << "\n";
  const int status =
      std::system(fmt::format("timeout {} bash '{}' >'{}' 2>'{}' </dev/null", kTimeLimitSeconds,
                              script.string(), out.string(), err.string())
                      .c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), ReadAll(out),
          ReadAll(err)};
}

// Each expected error has a line of its own on standard error, and each located error is expected.
std::string CheckErrors(const Part& part, const std::string& err) {
  static const RE2 located(":\\d+:(?:\\d+:)? error: ");
  std::vector<std::string> reported;
  for (const std::string& line : Lines(err)) {
    if (RE2::PartialMatch(line, located)) reported.push_back(line);
  }
  for (const ExpectedError& error : part.errors) {
    const std::string place = fmt::format(":{}:", error.line);
    auto it = std::find_if(reported.begin(), reported.end(), [&](const std::string& line) {
      return line.find(place) != std::string::npos && line.find(error.message) != std::string::npos;
    });
    if (it == reported.end())
      return fmt::format("no error '{}' at line {}; standard error is\n{}", error.message,
                         error.line, err);
    reported.erase(it);
  }
  if (!part.errors.empty() && !reported.empty())
    return fmt::format("an error that is not expected: {}", reported.front());
  return "";
}

std::string Judge(const Part& part, const Outcome& outcome) {
  if (outcome.exit_code != part.exit_code) {
    return fmt::format("exit code {} instead of {}{}\n{}", outcome.exit_code, part.exit_code,
                       outcome.exit_code == 124 ? " (out of time)" : "", outcome.err);
  }
  if (std::string problem = CheckErrors(part, outcome.err); !problem.empty()) return problem;
  // Diagnostics can be checked like output where the command sends them there (2>&1).
  return CheckOutput(Lines(outcome.out), part.checks);
}

// A pattern that holds of this line and says all of it.
std::string PatternOf(const std::string& line) {
  LinePattern pattern;
  std::string problem;
  if (LinePattern::Parse(line, &pattern, &problem) && pattern.uses().empty() &&
      pattern.defines().empty() && RE2::PartialMatch(line, RE2(pattern.Regex({})))) {
    return line;
  }
  std::string quoted = line;
  for (const char* opening : {"{{", "[["}) {
    const std::string text = fmt::format("{{{{[{}]}}}}{}", opening[0], opening[1]);
    for (size_t at = quoted.find(opening); at != std::string::npos;
         at = quoted.find(opening, at + text.size())) {
      quoted.replace(at, 2, text);
    }
  }
  return quoted;
}

void Rewrite(Part& part, const Outcome& outcome) {
  std::vector<std::string> lines;
  for (const std::string& line : part.lines) {
    if (!IsCheckLine(line)) lines.push_back(line);
  }
  while (!lines.empty() && Trimmed(lines.back()).empty()) lines.pop_back();
  bool first = true;
  for (const std::string& line : Lines(outcome.out)) {
    const std::string text = Trimmed(line);
    if (text.empty()) {
      if (!first) lines.emplace_back("// CHECK-EMPTY:");
      continue;
    }
    lines.push_back(fmt::format("// CHECK{}: {}", first ? "" : "-NEXT", PatternOf(text)));
    first = false;
  }
  part.lines = std::move(lines);
}

class Runner {
 public:
  // `abort`: what follows the first failure is not run.
  Runner(fs::path bin, fs::path scratch, bool abort)
      : bin_(std::move(bin)), scratch_(std::move(scratch)), abort_(abort) {}

  void RunFile(const fs::path& file) {
    std::vector<Part> parts = ParseFile(file);
    bool changed = false;
    for (size_t i = 0; i < parts.size() && !(abort_ && failed_ > 0); ++i) {
      if (RunPart(file, i, parts[i], &changed)) {
        ++passed_;
      } else {
        ++failed_;
      }
    }
    if (!changed) return;
    std::ofstream out(file);
    for (size_t i = 0; i < parts.size(); ++i) {
      if (i > 0) out << "// -----\n";
      out << fmt::format("{}\n", fmt::join(parts[i].lines, "\n"));
    }
  }

  int passed() const { return passed_; }
  int failed() const { return failed_; }

 private:
  bool RunPart(const fs::path& file, size_t index, Part& part, bool* changed) {
    for (const Refusal& refusal : part.refusals) {
      fmt::print("{}:{}: refused: {}\n", file.string(), part.first_line + refusal.line - 1,
                 refusal.message);
    }
    // Without checks at all, the update writes them.
    const bool only_unchecked = part.refusals.size() == 1 && part.checks.empty() &&
                                part.errors.empty() && !part.run.empty();
    if (!part.refusals.empty() && !(update_ && only_unchecked)) return false;
    const fs::path input = scratch_ / file.filename();
    std::ofstream(input) << fmt::format("{}\n", fmt::join(part.lines, "\n"));
    const Outcome outcome = Execute(part.run, bin_, input, scratch_);
    const std::string problem = part.refusals.empty() ? Judge(part, outcome) : "without checks";
    if (problem.empty()) return true;
    fmt::print("{} part {}: {}\n", file.string(), index + 1, problem);
    if (!update_) fmt::print("--- output\n{}---\n", outcome.out.substr(0, 4000));
    if (update_ && part.errors.empty() && outcome.exit_code == part.exit_code) {
      Rewrite(part, outcome);
      *changed = true;
    }
    return false;
  }

  fs::path bin_, scratch_;
  bool abort_ = false;
  bool update_ = std::getenv("GSHARD_UPDATE") != nullptr;
  int passed_ = 0, failed_ = 0;
};

// A folder holds tests only: a file that the runner would pass over is a test that never runs.
bool FindTests(const fs::path& path, std::vector<fs::path>* files) {
  if (!fs::exists(path)) {
    fmt::print("{}: refused: no such file\n", path.string());
    return false;
  }
  if (!fs::is_directory(path)) {
    files->push_back(path);
    return true;
  }
  const size_t before = files->size();
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    if (entry.is_directory()) continue;
    const fs::path extension = entry.path().extension();
    if (extension != ".hlo" && extension != ".mlir" && extension != ".test") {
      fmt::print("{}: refused: tests end with .hlo, .mlir or .test\n", entry.path().string());
      return false;
    }
    files->push_back(entry.path());
  }
  if (files->size() == before) fmt::print("{}: refused: no tests\n", path.string());
  return files->size() != before;
}

int Main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool abort = !arguments.empty() && arguments.front() == "--abort";
  if (abort) arguments.erase(arguments.begin());
  if (arguments.size() < 2) {
    fmt::print(stderr, "usage: gshard_golden [--abort] BIN_DIR FILE_OR_DIR...\n");
    return 2;
  }
  std::vector<fs::path> files;
  int unread = 0;
  for (size_t i = 1; i < arguments.size(); ++i) unread += FindTests(arguments[i], &files) ? 0 : 1;
  std::sort(files.begin(), files.end());
  std::string scratch = (fs::temp_directory_path() / "gshard-golden-XXXXXX").string();
  if (mkdtemp(scratch.data()) == nullptr) {
    fmt::print(stderr, "no directory could be made for {}\n", scratch);
    return 1;
  }
  Runner runner(fs::absolute(arguments.front()), scratch, abort);
  for (const fs::path& file : files) runner.RunFile(file);
  fs::remove_all(scratch);
  fmt::print("{} passed, {} failed\n", runner.passed(), runner.failed() + unread);
  return runner.failed() + unread == 0 ? 0 : 1;
}

}  // namespace
}  // namespace gshard::golden

int main(int argc, char** argv) {
  // gshard-run warns of a slow one, which tests of what it prints do not expect.
  unsetenv("OPENBLAS_CORETYPE");
  return gshard::golden::Main(argc, argv);
}
