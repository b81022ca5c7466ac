// A check that a user asked for and that a program does not pass: what exit code 3 is about, in
// JSON.
#ifndef GSHARD_CORE_REPORT_FAILED_CHECK_H_
#define GSHARD_CORE_REPORT_FAILED_CHECK_H_

#include <optional>
#include <span>
#include <string>

#include "core/json.h"

namespace gshard {

struct FailedCheck {
  std::string check;    // "limit", "budget", "memory-limit", "nan", "verify", "near-ties",
                        // "microbatch-sums"
  std::string message;  // in words
  std::string key;      // of a budget: "bytes_per_device.model"; else empty
  // Of limits and budgets, in the unit of the figure.
  std::optional<double> value, allowed;
};

// `failed_checks` of docs/json.md: a row each, all with the same keys.
Json FailedChecksAsJson(std::span<const FailedCheck> failed);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_FAILED_CHECK_H_
