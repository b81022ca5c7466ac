// What a run of the partitioner works out about layouts, whatever module it partitions: layouts,
// plans of resharding, layouts across reshapes, strategies.
#ifndef GSHARD_CORE_PARTITION_SCOPE_PARTITION_TABLES_H_
#define GSHARD_CORE_PARTITION_SCOPE_PARTITION_TABLES_H_

#include <cstdint>
#include <optional>

#include "core/partition/layout/mesh_layout.h"
#include "core/partition/layout/partition_options.h"
#include "core/partition/layout/reshape_map.h"
#include "core/partition/plan/reshard_plan.h"
#include "core/partition/scope/strategy.h"
#include "ir/module.h"

namespace gshard {

// What they remember depends on the context, the mesh and the number of devices of the module, and
// on the options' weights and policies. Not thread-safe.
struct PartitionTables {
  MeshLayoutTable layouts;
  ReshardPlanner planner;
  ReshapeMap reshapes;
  StrategyTable strategies;

  PartitionTables(Module& module, const PartitionOptions& options, int64_t device_count);
};

// Tables for one run after another, of one thread: a search partitions one program over and over,
// in one context.
class KeptPartitionTables {
 public:
  // Those of earlier runs where these were of the same context, mesh, number of devices, weights and
  // policies; else new ones. The context must live as long as they are asked for.
  PartitionTables& For(Module& module, const PartitionOptions& options, int64_t device_count);

 private:
  std::optional<PartitionTables> tables_;
  const Mesh* mesh_ = nullptr;
  PartitionOptions options_;  // that `tables_` were made with
};

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_SCOPE_PARTITION_TABLES_H_
