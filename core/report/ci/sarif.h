// Failed checks and warnings as SARIF 2.1.0, which GitHub's code scanning and editors read.
// docs/ci.md.
#ifndef GSHARD_CORE_REPORT_CI_SARIF_H_
#define GSHARD_CORE_REPORT_CI_SARIF_H_

#include <string>

#include "core/report/ci/ci_report.h"

namespace gshard {

// A run of one result a failed check or warning; its place is relative to %SRCROOT% if the file is.
std::string SarifJson(const CiReport& report);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_CI_SARIF_H_
