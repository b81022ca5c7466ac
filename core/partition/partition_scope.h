// What rules build with: one computation under construction and what the whole run shares.
#ifndef GSHARD_CORE_PARTITION_PARTITION_SCOPE_H_
#define GSHARD_CORE_PARTITION_PARTITION_SCOPE_H_

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/partition/layout.h"
#include "core/partition/partitioned_value.h"
#include "core/partition/partitioner.h"
#include "core/partition/reshard_plan.h"
#include "core/partition/shard_geometry.h"
#include "ir/builder.h"

namespace gshard {

// One run over a module.
struct PartitionRun {
  Module& module;
  PartitionOptions options;
  LayoutTable layouts;
  ReshardPlanner planner;
  PartitionStats stats;
  std::deque<PartitionedValue> values;

  PartitionRun(Module& m, const PartitionOptions& o, int64_t device_count)
      : module(m),
        options(o),
        layouts(m.context(), device_count),
        planner(layouts, {.bytes_per_message = o.bytes_per_message}) {}
};

// Why a collective is being inserted; becomes frontend attribute gshard.cause.
struct ReshardCause {
  const Instruction* user = nullptr;  // who needs the value; null: its own sharding asks for it
  const Instruction* value = nullptr;
  std::string_view note;  // instead of the sentence made from the above
};

class PartitionScope {
 public:
  PartitionScope(PartitionRun& run, Computation* computation)
      : run_(run),
        builder_(run.module, computation),
        geometry_(builder_, run.layouts.device_count()) {}
  PartitionScope(const PartitionScope&) = delete;
  PartitionScope& operator=(const PartitionScope&) = delete;

  PartitionRun& run() { return run_; }
  Builder& builder() { return builder_; }
  ShardGeometry& geometry() { return geometry_; }
  LayoutTable& layouts() { return run_.layouts; }
  Context& context() { return run_.module.context(); }
  int64_t device_count() const { return run_.layouts.device_count(); }

  // --- values
  // A new array value with one variant.
  PartitionedValue* NewValue(const Shape* shape, const Layout* layout, Instruction* local);
  // A new value that `rebuild` makes in any layout.
  PartitionedValue* NewRebuilt(const Shape* shape, PartitionedValue::Rebuild rebuild,
                               Instruction* payload = nullptr);
  PartitionedValue* NewTuple(const Shape* shape, std::vector<PartitionedValue*> elements);
  // From a local tuple whose leaves have the layouts given (pre-order).
  PartitionedValue* NewFromLocal(const Shape* shape, std::span<const Layout* const> leaves,
                                 Instruction* local);

  // --- resharding. Both layouts of a reshard belong to the same manual region.
  // The value of an array in a layout; cached.
  Instruction* Reshard(PartitionedValue* value, const Layout* layout, const ReshardCause& cause);
  // Bytes-equivalent cost of doing so (0 if it is there already).
  double ReshardCost(const PartitionedValue& value, const Layout* layout);
  // The local form of any value with its leaves in the layouts given (pre-order).
  Instruction* Materialize(PartitionedValue* value, std::span<const Layout* const> leaves,
                           const ReshardCause& cause);

  // --- collectives along axes of a layout; the cause is recorded.
  Instruction* AllReduce(Instruction* x, const Layout* layout, AxisSpan axes,
                         Computation* to_apply, const ReshardCause& cause);
  Instruction* AllReduce(Instruction* x, const Layout* layout, AxisSpan axes, Opcode combiner,
                         const ReshardCause& cause);
  Instruction* AllGather(Instruction* x, int64_t dim, const Layout* layout, AxisSpan axes,
                         const ReshardCause& cause);
  Instruction* ReduceScatter(Instruction* x, int64_t dim, const Layout* layout, AxisSpan axes,
                             Opcode combiner, const ReshardCause& cause);
  Instruction* AllToAll(Instruction* x, int64_t dim, const Layout* layout, AxisSpan axes,
                        const ReshardCause& cause);
  Instruction* CollectivePermute(Instruction* x, std::span<const DevicePair> pairs,
                                 const ReshardCause& cause);

  // Transpose, as a reshape where only dims of size 1 move.
  Instruction* Transpose(Instruction* x, std::span<const int64_t> permutation);
  // Dim padded at its end or cut to `size`. New elements are unspecified (zero).
  Instruction* Resize(Instruction* x, int64_t dim, int64_t size);

 private:
  Instruction* Caused(Instruction* collective, const ReshardCause& cause, int64_t bytes);

  PartitionRun& run_;
  Builder builder_;
  ShardGeometry geometry_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_PARTITION_SCOPE_H_
