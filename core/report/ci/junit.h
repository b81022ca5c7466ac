// Checks as JUnit's XML, which GitLab, Jenkins, Azure Pipelines and Buildkite read. docs/ci.md.
#ifndef GSHARD_CORE_REPORT_CI_JUNIT_H_
#define GSHARD_CORE_REPORT_CI_JUNIT_H_

#include <string>

#include "core/report/ci/ci_report.h"

namespace gshard {

// A suite of one test case a check. A warning is a case that passes, and tells it in its output.
std::string JUnitXml(const CiReport& report);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_CI_JUNIT_H_
