// What a user worries about after propagation: tensors left replicated, conflicting annotations,
// dims that do not divide. `gshard-opt propagate --report`.
#ifndef GSHARD_CORE_REPORT_SHARDING_REPORT_H_
#define GSHARD_CORE_REPORT_SHARDING_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/propagation/findings.h"
#include "ir/module.h"

namespace gshard {

struct ShardingReport {
  int64_t devices = 1;
  // Values of which several devices hold the same tile although a dim could be cut further.
  struct Replicated {
    const Instruction* instruction = nullptr;
    int64_t leaf = 0;
    int64_t copies = 1;            // devices per tile
    int64_t dim = 0;               // one that could be cut
    int64_t factor = 1;            // by how much, at most
    int64_t bytes_per_device = 0;  // now
  };
  std::vector<Replicated> replicated;  // largest first
  int64_t replicated_bytes = 0;        // per device, of all of them, also those not listed
  struct Uneven {
    const Instruction* instruction = nullptr;
    int64_t leaf = 0;
    int64_t dim = 0;
    int64_t size = 0, tiles = 1;
    int64_t padding_bytes = 0;  // over all tiles of the value
  };
  std::vector<Uneven> uneven;  // most padding first
  PropagationFindings findings;
};

// Of a propagated module. At most `limit` entries a list. Parameters of called computations, tuples
// and what only takes a tuple apart are left out: the value is listed where it is made.
ShardingReport MakeShardingReport(const Module& module, const PropagationFindings& findings,
                                  size_t limit = 50);

std::string ShardingReportText(const Module& module, const ShardingReport& report);
std::string ShardingReportJson(const Module& module, const ShardingReport& report);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_SHARDING_REPORT_H_
