// Checks as GitHub Actions shows them: annotations beside the lines of a change, and the summary of
// a step. docs/ci.md.
#ifndef GSHARD_CORE_REPORT_CI_GITHUB_H_
#define GSHARD_CORE_REPORT_CI_GITHUB_H_

#include <string>

#include "core/report/ci/ci_report.h"

namespace gshard {

// GitHub shows ten annotations of a kind and step; with two left for others, so many are written.
inline constexpr size_t kMaxAnnotations = 8;

// Workflow commands (::error file=..), one a line: failed checks first, then warnings. Where there
// are more than kMaxAnnotations, the last one says how many the summary has besides.
std::string GithubAnnotations(const CiReport& report);

// Markdown for the file that GITHUB_STEP_SUMMARY names, at most 1 MiB, which is GitHub's limit.
std::string GithubSummary(const CiReport& report);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_CI_GITHUB_H_
