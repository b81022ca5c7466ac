// Findings as they stand in JSON documents (docs/json.md).
#ifndef GSHARD_CORE_CHECK_FINDINGS_JSON_H_
#define GSHARD_CORE_CHECK_FINDINGS_JSON_H_

#include "core/check/finding.h"
#include "core/json.h"

namespace gshard {

// An array, one object a finding.
Json FindingsJson(const CommunicationFindings& findings);

}  // namespace gshard

#endif  // GSHARD_CORE_CHECK_FINDINGS_JSON_H_
