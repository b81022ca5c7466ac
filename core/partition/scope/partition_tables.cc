// See partition_tables.h.

#include "core/partition/scope/partition_tables.h"

#include "core/analysis/meshes.h"

namespace gshard {
namespace {

bool AreWeighedAlike(const PartitionOptions& a, const PartitionOptions& b) {
  return a.bytes_per_message == b.bytes_per_message &&
         a.bytes_per_moved_byte == b.bytes_per_moved_byte && a.bytes_per_flop == b.bytes_per_flop &&
         a.bytes_per_repeated_flop == b.bytes_per_repeated_flop &&
         a.bytes_per_repeated_slice == b.bytes_per_repeated_slice && a.policies == b.policies &&
         a.reshard_plans == b.reshard_plans;
}

}  // namespace

PartitionTables::PartitionTables(Module& module, const PartitionOptions& options,
                                 int64_t device_count)
    : layouts(module.context(), device_count, NamedMesh(module)),
      planner(
          layouts,
          {.bytes_per_message = options.bytes_per_message,
           .bytes_per_moved_byte = options.bytes_per_moved_byte},
          {.share_sums = options.policies.share_sums, .search = options.policies.search_reshards},
          options.reshard_plans),
      reshapes(layouts) {}

PartitionTables& KeptPartitionTables::For(Module& module, const PartitionOptions& options,
                                          int64_t device_count) {
  const Mesh* mesh = NamedMesh(module);
  const bool fit = tables_ && &tables_->layouts.context() == &module.context() && mesh_ == mesh &&
                   tables_->layouts.device_count() == device_count &&
                   AreWeighedAlike(options_, options);
  if (!fit) {
    tables_.emplace(module, options, device_count);
    mesh_ = mesh;
    options_ = options;
  }
  tables_->strategies.BeginRun();
  return *tables_;
}

}  // namespace gshard
