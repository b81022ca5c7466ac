#include "tests/golden_runner/output_checker.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

namespace gshard::golden {
namespace {

// A CHECK-NOT waits for the match after it; its variables have the values from where it stands.
struct Forbidden {
  const Check* check = nullptr;
  std::unique_ptr<RE2> regex;
};

std::string Described(const Check& check) {
  return fmt::format("{} at line {} of the part: {}", check.directive, check.line,
                     check.pattern.text());
}

class OutputChecker {
 public:
  explicit OutputChecker(const std::vector<std::string>& output)
      : output_(output), taken_(output.size(), false) {}

  std::string Run(const std::vector<Check>& checks) {
    end_ = output_.size();
    if (std::string problem = FindLabels(checks); !problem.empty()) return problem;
    size_t label = 0;
    if (!labels_.empty()) end_ = labels_[0];
    for (size_t i = 0; i < checks.size(); ++i) {
      const Check& check = checks[i];
      std::string problem;
      if (check.kind == CheckKind::kNot) {
        forbidden_.push_back({&check, std::make_unique<RE2>(check.pattern.Regex(variables_))});
      } else if (check.kind == CheckKind::kLabel) {
        problem = TryForbidden(end_);
        next_ = labels_[label] + 1;
        end_ = ++label < labels_.size() ? labels_[label] : output_.size();
      } else if (check.kind == CheckKind::kDag) {
        size_t last = i + 1;
        while (last < checks.size() && checks[last].kind == CheckKind::kDag) ++last;
        problem = MatchGroup(checks, i, last);
        i = last - 1;
      } else {
        for (int n = 0; n < check.count && problem.empty(); ++n) problem = MatchOne(check);
      }
      if (!problem.empty()) return problem;
    }
    return TryForbidden(end_);
  }

 private:
  std::string FindLabels(const std::vector<Check>& checks) {
    size_t from = 0;
    for (const Check& check : checks) {
      if (check.kind != CheckKind::kLabel) continue;
      const RE2 regex(check.pattern.Regex({}));
      while (from < output_.size() && !Holds(regex, output_[from], &variables_)) ++from;
      if (from == output_.size()) return fmt::format("no match for {}", Described(check));
      labels_.push_back(from++);
    }
    return "";
  }

  std::string MatchOne(const Check& check) {
    const size_t begin = next_;
    if (check.kind == CheckKind::kEmpty) {
      if (next_ == end_ || !Trimmed(output_[next_]).empty())
        return fmt::format("no empty line for {}", Described(check));
      ++next_;
      return "";
    }
    const RE2 regex(check.pattern.Regex(variables_));
    const size_t limit = check.kind == CheckKind::kNext ? std::min(begin + 1, end_) : end_;
    for (size_t line = begin; line < limit; ++line) {
      if (!Holds(regex, output_[line], &variables_)) continue;
      next_ = line + 1;
      return TryForbidden(line, begin);
    }
    return fmt::format("no match for {}", Described(check));
  }

  // checks[first, last) match in any order, behind what was matched before them.
  std::string MatchGroup(const std::vector<Check>& checks, size_t first, size_t last) {
    const size_t begin = next_;
    size_t lowest = end_;
    for (size_t i = first; i < last; ++i) {
      const RE2 regex(checks[i].pattern.Regex(variables_));
      size_t line = begin;
      while (line < end_ && (taken_[line] || !Holds(regex, output_[line], &variables_))) ++line;
      if (line == end_) return fmt::format("no match for {}", Described(checks[i]));
      taken_[line] = true;
      lowest = std::min(lowest, line);
      next_ = std::max(next_, line + 1);
    }
    return TryForbidden(lowest, begin);
  }

  std::string TryForbidden(size_t end) { return TryForbidden(end, next_); }

  std::string TryForbidden(size_t end, size_t begin) {
    for (const Forbidden& forbidden : forbidden_) {
      if (begin >= end)
        return fmt::format("no line is left to look at for {}", Described(*forbidden.check));
      for (size_t line = begin; line < end; ++line) {
        if (Holds(*forbidden.regex, output_[line], &variables_))
          return fmt::format("{} matches: {}", Described(*forbidden.check), output_[line]);
      }
    }
    forbidden_.clear();
    return "";
  }

  const std::vector<std::string>& output_;
  std::vector<bool> taken_;  // by a CHECK-DAG
  std::vector<size_t> labels_;
  Variables variables_;
  std::vector<Forbidden> forbidden_;
  size_t next_ = 0;  // behind the last match
  size_t end_ = 0;   // of the part of the output between two labels
};

}  // namespace

std::string CheckOutput(const std::vector<std::string>& output, const std::vector<Check>& checks) {
  return OutputChecker(output).Run(checks);
}

}  // namespace gshard::golden
