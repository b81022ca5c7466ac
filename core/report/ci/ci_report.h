// What a program has checked, for systems of continuous integration: one row a check, with its
// place in the user's program. github.h, junit.h and sarif.h write it in the forms that those
// systems read.
#ifndef GSHARD_CORE_REPORT_CI_CI_REPORT_H_
#define GSHARD_CORE_REPORT_CI_CI_REPORT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/diagnostic.h"

namespace gshard {

enum class CiOutcome : uint8_t { kPassed, kWarning, kFailed };

// A line of a file; lines and columns count from 1, 0 is unknown.
struct CiPlace {
  std::string file;  // empty: no place is known
  int64_t line = 0, column = 0;
};

struct CiCheck {
  std::string name;  // "peak_bytes", "all-reduce r"
  CiOutcome outcome = CiOutcome::kPassed;
  std::string rule;     // what kind of check: "budget", "limit", "verify"; of a diagnostic its code
  std::string message;  // in words, also of a check that passed
  std::string hint;     // what to try; may be empty
  CiPlace place;
};

struct CiReport {
  std::string program;  // "gshard-cost"
  std::string version;  // of it
  std::string subject;  // the file that was checked
  std::vector<CiCheck> checks;
  std::string markdown;  // more for people to read, below the checks; may be empty

  int64_t Count(CiOutcome outcome) const;
  bool HasFailed() const { return Count(CiOutcome::kFailed) > 0; }
};

// Of "gpt.py:22", as reports name the lines of users' programs.
CiPlace SourcePlace(std::string_view source);

// Failed for an error, a warning else; its code is the rule, its place the check's.
CiCheck CheckOf(const Diagnostic& diagnostic, std::string name);

// Places in files below the folder `root` are named from there, as these systems want them.
void MakeRelative(CiReport& report, std::string_view root);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_CI_CI_REPORT_H_
