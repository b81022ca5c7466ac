// What a caller may ask of the partitioner, and what it learns from it.
#ifndef GSHARD_CORE_PARTITION_LAYOUT_PARTITION_OPTIONS_H_
#define GSHARD_CORE_PARTITION_LAYOUT_PARTITION_OPTIONS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/explain/recorder.h"
#include "ir/module.h"

namespace gshard {

class KeptPartitionTables;
class KnownReshardPlans;

// Where the per-device program holds an array of the whole one.
struct LocalForm {
  std::string_view name;               // of the whole array's instruction
  const Instruction* local = nullptr;  // in the partitioned module
  const Sharding* sharding = nullptr;  // how its instances form the whole array
  const Shape* whole = nullptr;        // the array's shape
};

// Decisions in which XLA's partitioner differs (docs/partitioning.md, "As XLA decides"). Each is
// right either way; what is sent, computed and kept differs.
struct PartitionPolicies {
  // Devices that hold the same summands add up a piece each. False: each group by itself.
  bool share_sums = true;
  // Sums stay partial through operations that make less of them. False: added up at once.
  bool defer_sums = true;
  // Operations are done where that costs least. False: where their own sharding says, but that
  // what all operands have cut alike is summed over devices.
  bool place_by_cost = true;
  // Values are made where their users and the outputs want them, and elementwise ones again where
  // that costs less than moving them. False: where their sharding says, and moved from there.
  bool follow_users = true;
  // Layouts change by the cheapest sequence of collectives: sums that are wanted in tiles are
  // scattered. False: sums are added up whole, and cut; tiles are moved where dims can be cut as
  // often at both ends, else gathered whole and cut.
  bool search_reshards = true;
  // Values cut more often than they have elements have copies in place of empty tiles. False: as
  // their sharding says, padded.
  bool drop_empty_tiles = true;
  // Rows and groups of ragged dots may be cut. False: every device has all of them.
  bool cut_ragged_dots = true;

  bool operator==(const PartitionPolicies&) const = default;
  static PartitionPolicies AsXla() { return {false, false, false, false, false, false, false}; }
};

struct PartitionOptions {
  int64_t num_partitions = 0;  // 0: module.DeviceCount()
  // Cost weights of the reshard planner (ReshardPlan::cost in core/partition/plan/reshard_plan.h
  // has the formula) and of the choice of einsum strategies. The unit of cost is one byte received
  // by a device. Times in seconds are another model's: core/cost/network.h.
  //
  // Cost of one message, whatever its size. So small that it only decides between plans of equal
  // bytes; latency is not modelled here.
  double bytes_per_message = 0.0625;
  // Factor on the bytes of reshard steps that add nothing up (all but all-reduce and
  // reduce-scatter). A large factor makes the planner take sums wherever there is a choice, as for
  // splitting a batch in time, where values cannot move (core/pipeline/plan/split_batch.h).
  double bytes_per_moved_byte = 1;
  // Cost of each round of collective-permutes beyond the first where rounds receive fewer bytes
  // than one all-gather (core/partition/scope/tile_prefix.h).
  double bytes_per_round = 32768;
  double bytes_per_flop = 1.0 / 1024;  // cost of one FLOP of local arithmetic
  // Cost of one FLOP that several devices repeat; high, so that traffic is not bought with repeated
  // work.
  double bytes_per_repeated_flop = 1.0 / 16;
  // Cost of the address of one slice of a scatter that several devices repeat, beyond the slices
  // that take as long as a message. A TPU's scalar core takes 8 cycles for one, in which its
  // network carries about 600 bytes; a GPU takes the time in which its network carries about 20.
  double bytes_per_repeated_slice = 128;
  KnownReshardPlans* reshard_plans = nullptr;  // of other runs; learns this one's; may be null
  KeptPartitionTables* tables = nullptr;       // of other runs of this thread; may be null
  // While-loop-all-reduce-code-motion follows: of products that a loop adds up, sums over devices
  // cost nothing in each turn.
  bool sums_leave_loops = false;
  bool tells_causes = true;  // collectives say what they are for: frontend attribute gshard.cause
  PartitionPolicies policies;
  ExplainRecorder* recorder = nullptr;  // learns the cause of every collective; may be null
  // Learns, callees first, of every array that some instruction of the result holds as a whole: not
  // of partial values and not of what manual regions compute. May be null.
  std::vector<LocalForm>* local_forms = nullptr;
};

struct PartitionStats {
  int64_t collectives = 0;
  int64_t bytes_received = 0;  // per device, ring formulas, loops counted once
  int64_t reshards = 0;        // distinct plans made
  int64_t full_rematerializations = 0;
};

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_LAYOUT_PARTITION_OPTIONS_H_
