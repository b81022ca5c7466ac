// What `gshard-opt remat` did, for people and for programs: by source line what a device computes
// again, and what JAX is to keep so that it does the same.
#ifndef GSHARD_CORE_REMAT_REPORT_REMAT_REPORT_H_
#define GSHARD_CORE_REMAT_REPORT_REMAT_REPORT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/remat/remat_record.h"

namespace gshard {

// Values of one source line.
struct RematLine {
  std::string source;  // empty: not known
  int64_t values = 0;
  int64_t bytes = 0;        // on one device
  double flops = 0;         // that one device does again; of kept values none
  std::string operations;   // "dot_general", "dot_general, add", of some of the values
  std::string shape;        // of the largest
  bool is_carried = false;  // kept by a loop whatever the policy (RematValue)
};

// A value that JAX is to keep by its name.
struct KeptName {
  std::string name;         // "q", or "gpt_22" where the program has none
  std::string source;       // the line that makes it
  std::string operation;    // and what of that line: "tanh"
  bool is_written = false;  // the program names it: checkpoint_name(x, "q")
};

// An operation of a line of which some values are kept and others are not.
struct Mixed {
  std::string source, operation;
  bool is_named = false;  // the policy keeps all of them, else none
};

struct RematReport {
  std::string module, chip;
  int64_t limit_bytes = 0;
  RematStats stats;
  std::vector<RematLine> recomputed, kept;  // most bytes first
  double flops = 0;                         // that one device does again
  // Of jax.checkpoint, which decides by names: an operation of a line has one, for all its values.
  // It keeps no more bytes than are kept now: of operations with values of both kinds, those of
  // which most is kept, while there is room. Empty where nothing is computed again that a policy
  // decides about.
  std::string policy;  // "jax.checkpoint_policies.save_only_these_names(\"q\", \"gpt_22\")"
  std::vector<KeptName> names;
  int64_t named_bytes = 0;  // of all their values, on one device
  std::vector<Mixed> mixed;
  int64_t unnamed_bytes = 0;  // kept values without a source line, which no name can keep
};

RematReport MakeRematReport(const RematRecord& record, const RematStats& stats);

std::string RematReportAsText(const RematReport& report);
std::string RematReportAsJson(const RematReport& report);  // gshard.remat/1

}  // namespace gshard

#endif  // GSHARD_CORE_REMAT_REPORT_REMAT_REPORT_H_
