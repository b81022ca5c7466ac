// Where XLA's partitioner sends something else than ours, by kind of collective and mesh axes.
#ifndef GSHARD_CORE_REPORT_XLA_AS_XLA_H_
#define GSHARD_CORE_REPORT_XLA_AS_XLA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/json.h"
#include "ir/mesh.h"
#include "ir/module.h"

namespace gshard {

// Collectives of one kind along the same axes.
struct AsXlaRow {
  std::string kind;
  std::vector<std::string> axes;
  double bytes_per_device = 0;      // sent in one step, by the program as it is
  double xla_bytes_per_device = 0;  // partitioned as XLA decides
};

// Partitions a program as XLA decides (PartitionPolicies::AsXla) and compares what it sends with
// what `partitioned` does, which was made of it. `propagated`: its shardings are taken as they are;
// it is used up. Rows of both, most bytes on either side first; none if no row differs by a
// hundredth. Errors: those of the partitioner.
Expected<std::vector<AsXlaRow>> CompareAsXla(Module& propagated, Module& partitioned);

// Rows that differ, under a line with the sums; empty if there are none.
std::string AsXlaText(const std::vector<AsXlaRow>& rows, const std::vector<MeshAxis>& mesh);
Json AsXlaJson(const std::vector<AsXlaRow>& rows);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_XLA_AS_XLA_H_
