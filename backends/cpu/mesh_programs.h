// Stage "partition": the program that every device of the mesh runs, and the whole graph that its
// results are compared with.
#ifndef GSHARD_BACKENDS_CPU_MESH_PROGRAMS_H_
#define GSHARD_BACKENDS_CPU_MESH_PROGRAMS_H_

#include <memory>
#include <optional>
#include <vector>

#include "backends/cpu/emulate_options.h"
#include "backends/cpu/io/inputs.h"
#include "backends/cpu/microbatched_reference.h"
#include "core/analysis/device_grid.h"
#include "core/partition/partitioner.h"
#include "core/estimate/device_model.h"
#include "core/transforms/expand/host_transfer_expander.h"
#include "ir/module.h"

namespace gshard::cpu {

// The graph before partitioning, expanded, on one device a replica; where it has manual regions, on
// all devices, as each computes its own there.
struct WholeGraph {
  std::unique_ptr<Module> module;  // null: what the mesh runs is the whole graph
  DeviceGrid grid;
  std::vector<LocalForm> forms;  // of its arrays, if it runs on several devices
};

// Modules live behind pointers: what refers to them stays valid when this is moved.
struct MeshPrograms {
  std::unique_ptr<Module> program;  // of one device, expanded for the backend
  DeviceGrid grid;
  HostFeeds feeds;
  // Whole shapes of parameters' and results' leaves; empty where only `program` tells.
  std::vector<const Shape*> global_parameters, global_results;
  // With a given reference: how its results' leaves are spread, in `program`'s context.
  std::vector<const Sharding*> reference_results;
  std::vector<LocalForm> forms;  // what `program` holds of the whole graph's arrays
  WholeGraph whole;
  MicrobatchedReference microbatched;
  std::unique_ptr<Module> given;     // the reference that the user gave: owns names and shapes
  PropagationMode propagated_as = PropagationMode::kByText;  // kByText: came partitioned
  double partition_time_s = 0;       // 0: `program` came partitioned
  std::optional<DeviceModel> model;  // of `program` before it was expanded

  const Module& Reference() const { return whole.module != nullptr ? *whole.module : *program; }
};

// `given`: the graph before partitioning of a `module` that is partitioned already, or null.
// `capacities`: items of feeds to the host that had too little room in a run before. Errors: those
// of the passes, and E-RUN-VERIFY where there is nothing to compare with.
Expected<MeshPrograms> MakeMeshPrograms(std::unique_ptr<Module> module,
                                        std::unique_ptr<Module> given,
                                        const EmulateOptions& options, const Inputs& inputs,
                                        const std::vector<FeedCapacity>& capacities);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_MESH_PROGRAMS_H_
