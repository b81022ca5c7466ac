// A golden test file: parts, each an input that carries its command and what the command must
// print.
//
//   // RUN: gshard-opt partition %s       the command (shell, `set -e`; %s: this part of the file)
//   // CHECK: PATTERN                     a later line holds this (line_pattern.h)
//   // CHECK-NEXT: PATTERN                the next line does
//   // CHECK-EMPTY:                       the next line is empty
//   // CHECK-COUNT-4: PATTERN             four later lines do
//   // CHECK-DAG: PATTERN                 adjacent ones match in any order, each a line of its own
//   // CHECK-NOT: PATTERN                 no line between the matches before and after does
//   // CHECK-LABEL: PATTERN               cuts the output: directives between two labels
//                                        match lines between them only
//   // EXPECT-ERROR@+2: message           exit 1, and "…:LINE:…error: …message" for the line
//                                        two below
//   // EXIT: 3                            expected exit code (default 0; 1 with EXPECT-ERROR)
//   // -----                              next part; it inherits RUN if it has none
//
// The words are FileCheck's (LLVM), with one difference: a pattern is looked for line by line, and
// no line serves two directives. What would pass without checking anything is refused when the file
// is read: an unknown directive, a variable without a value, a CHECK-NOT before a CHECK-NEXT.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/golden_runner/line_pattern.h"

namespace gshard::golden {

enum class CheckKind { kPlain, kNext, kEmpty, kNot, kDag, kLabel };

struct Check {
  CheckKind kind = CheckKind::kPlain;
  int line = 0;  // 1-based in the part
  int count = 1;
  std::string directive;  // as written: "CHECK-NEXT"
  LinePattern pattern;    // unset for kEmpty
};

struct ExpectedError {
  int line = 0;  // 1-based in the part, of the statement that is wrong
  std::string message;
};

struct Refusal {
  int line = 0;  // 1-based in the part
  std::string message;
};

struct Part {
  std::vector<std::string> lines;
  int first_line = 1;  // in the file
  std::string run;
  std::vector<Check> checks;
  std::vector<ExpectedError> errors;
  int exit_code = 0;
  std::vector<Refusal> refusals;  // why it is no test
};

std::string ReadAll(const std::filesystem::path& path);
std::vector<std::string> Lines(const std::string& text);
std::string Trimmed(const std::string& text);
bool IsCheckLine(const std::string& line);

std::vector<Part> ParseFile(const std::filesystem::path& path);

}  // namespace gshard::golden
