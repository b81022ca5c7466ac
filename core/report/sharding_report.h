// What a user worries about after propagation: tensors left replicated, conflicting annotations,
// dims that do not divide. `gshard-opt propagate --report`.
#ifndef GSHARD_CORE_REPORT_SHARDING_REPORT_H_
#define GSHARD_CORE_REPORT_SHARDING_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/explain/propagation_findings.h"
#include "core/propagation/propagation.h"
#include "ir/module.h"

namespace gshard {

struct ShardingReport {
  int64_t devices = 1;
  PropagationMode propagated_as = PropagationMode::kByText;  // the caller knows
  // Values of which several devices hold the same tile although a dim could be cut further.
  struct Replicated {
    const Instruction* instruction = nullptr;
    int64_t leaf = 0;
    int64_t copies = 1;            // devices per tile
    int64_t dim = 0;               // one that could be cut
    int64_t factor = 1;            // by how much, at most
    int64_t bytes_per_device = 0;  // now
    int64_t alike = 0;             // later values of this shape and sharding, not listed again
  };
  std::vector<Replicated> replicated;  // largest first
  // Of all values, also those not listed; bytes per device.
  int64_t replicated_count = 0, replicated_bytes = 0;
  // No more kinds of values than there are entries.
  bool lists_all = true, lists_all_uneven = true;
  struct Uneven {
    const Instruction* instruction = nullptr;
    int64_t leaf = 0;
    int64_t dim = 0;
    int64_t size = 0, tiles = 1;
    int64_t padding_bytes = 0;  // over all tiles of the value
    int64_t alike = 0;
  };
  std::vector<Uneven> uneven;                    // most padding first
  int64_t uneven_count = 0, conflict_count = 0;  // also of those not listed
  PropagationFindings findings;
};

// Of a propagated module. At most `limit` entries a list. Parameters of called computations, tuples
// and what only takes a tuple apart are left out: the value is listed where it is made; so are
// scalars.
ShardingReport MakeShardingReport(const Module& module, const PropagationFindings& findings,
                                  size_t limit = 25);

// Shardings by the axes of `mesh` (core/analysis/axis_text.h) if it is not null.
std::string ShardingReportText(const Module& module, const ShardingReport& report,
                               const Mesh* mesh);
std::string ShardingReportJson(const Module& module, const ShardingReport& report);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_SHARDING_REPORT_H_
