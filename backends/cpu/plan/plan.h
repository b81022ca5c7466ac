// The executable form of a program: steps with resolved kernels and addresses. Running one looks
// nothing up and allocates nothing.
//
// All buffers are in one arena whose layout is fixed here: parameters and known values first, then
// what lives for a part of the run, packed by lifetime. A plan is immutable; one Executor at a time
// holds the memory to run it.
#ifndef GSHARD_BACKENDS_CPU_PLAN_PLAN_H_
#define GSHARD_BACKENDS_CPU_PLAN_PLAN_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "backends/cpu/elementwise/fold.h"
#include "backends/cpu/mesh/rank_cut.h"
#include "backends/cpu/plan/arena_layout.h"
#include "backends/cpu/plan/instance_places.h"
#include "backends/cpu/plan/plan_memory.h"
#include "backends/cpu/plan/program.h"

namespace gshard::cpu {

enum class BufferSpace : uint8_t { kArena, kSlot };

// The instances of a value as one step sees them. Instance of the step's class c, the i-th of the
// block of classes being run:
//   kArena  table ? table[c] : base + (map ? map[c] : c) * stride   from the arena's start
//   kSlot   base + i * stride + (table ? table[c] : 0)              from the thread's slot
struct BufferRef {
  BufferSpace space = BufferSpace::kArena;
  bool advances_with_range = false;  // where a range of elements is run: points at its first one
  int32_t element_bytes = 0;         // for that
  int64_t base = 0;
  int64_t stride = 0;
  const uint32_t* map = nullptr;
  const int64_t* table = nullptr;

  // kArena: of class `c`, which is run here.
  int64_t ArenaOffset(uint32_t c) const {
    return table != nullptr ? table[c] : base + (map != nullptr ? map[c] : c) * stride;
  }
};

struct Call {
  const Kernel* kernel = nullptr;
  const Op* op = nullptr;
  uint32_t operands = 0, operand_count = 0;  // into ChainStep::refs
  uint32_t results = 0, result_count = 0;
  uint32_t fused_accumulators = 0, fused_accumulator_count = 0;  // fed by this call
  bool sums = false;          // the kernel itself adds its result to the one fused accumulator
  uint32_t probe = kNoProbe;  // shows operand 0 instead of running the kernel
  int64_t elements = 0;                // of a result; 0: it cannot be run in ranges
  int64_t flops = 0;
  int64_t bytes = 0;  // read and written by one instance
};

// One operand and result of a collective.
struct CollectivePart {
  int64_t result_bytes = 0;                // of one instance, dense
  std::vector<int64_t> results;            // per result class: arena offset
  const DeviceClasses* classes = nullptr;  // of the result
  std::vector<uint32_t> sequence_of;       // per result class
  std::vector<uint32_t> position_of;       // per result class: its member number
  std::vector<int64_t> members;            // per sequence, member after member: arena offsets
  std::vector<uint32_t> begin;             // of a sequence in `members`
  int64_t operand_bytes = 0;               // of one instance
  // Geometry around the split or gathered dim: `outer` rows in the operand, each of `blocks` blocks
  // (one for what is not split) of `inner` bytes.
  int64_t outer = 1, blocks = 1, inner = 0;
  int64_t element_bytes = 1;
  std::unique_ptr<Fold> fold;  // of reductions
  uint32_t operand = 0;        // which one of the operation
  uint32_t fold_block = kMembersPerBlock;

  std::span<const int64_t> MembersOf(uint32_t sequence) const {
    return std::span(members).subspan(begin[sequence], begin[sequence + 1] - begin[sequence]);
  }
};

struct CollectiveStep {
  const Op* op = nullptr;
  std::vector<CollectivePart> parts;  // ragged-all-to-all: one, with 6 members per group member
  int64_t bytes_sent = 0;             // by one device, by ring formulas
  bool moves_data = true;        // false: all results are views; only accounted for and checked
  std::vector<uint8_t> is_read;  // by result: false where nobody reads it any more (empty: all)
};

// A value of a chain that is folded into accumulators as it is made: one per task.
struct PlannedFusedAccumulator {
  BufferRef value;
  int64_t bytes = 0;
  int64_t element_bytes = 1;
  std::unique_ptr<Fold> fold;
  std::vector<int64_t> accumulators;  // arena offsets
};

// Kernels over the same classes, run depth first in blocks of neighbouring classes.
struct ChainStep {
  const DeviceClasses* classes = nullptr;
  uint32_t block = 1;  // classes run together
  std::vector<Call> calls;
  std::vector<BufferRef> refs;
  int64_t slot_base = 0;  // in the arena; slot s at slot_base + s * slot_bytes
  int64_t slot_bytes = 0;
  int64_t flops = 0;  // of one class
  int64_t bytes = 0;  // read and written for one class
  // With fused accumulators: classes in running order, the beginnings of tasks in it (and the end),
  // and what turns accumulators into results where they are not the results themselves.
  std::vector<PlannedFusedAccumulator> fused_accumulators;
  std::vector<uint32_t> order, tasks;
  uint32_t tasks_per_group = 1;
  std::vector<CollectiveStep> final_reductions;
  // Where accumulators are the results: each its sequence's only member. For ranks, which send them
  // to those who want them.
  std::vector<CollectiveStep> direct_results;
  std::vector<uint32_t> probes;  // of the calls
  uint32_t number = 0;         // among all chains
};

struct Copy {
  BufferRef from, to;
  int64_t bytes = 0;
  const DeviceClasses* classes = nullptr;
};

struct WhileStep {
  const Op* op = nullptr;
  uint32_t condition = 0, body = 0;  // plan blocks
  std::vector<Copy> initial, next;   // next: in order, one after another
  BufferRef predicate;
  const DeviceClasses* predicate_classes = nullptr;
};

struct ConditionalStep {
  const Op* op = nullptr;
  std::vector<uint32_t> branches;
  std::vector<std::vector<Copy>> results;  // per branch
  BufferRef selector;
  const DeviceClasses* selector_classes = nullptr;
  bool is_predicate = false;
};

struct RngStateStep {
  const Op* op = nullptr;
  int64_t state = 0;   // arena offset of the 128-bit state, kept from run to run
  int64_t result = 0;  // arena offset
  uint64_t delta = 0;
};

using Step = std::variant<ChainStep, CollectiveStep, WhileStep, ConditionalStep, RngStateStep>;

struct PlanBlock {
  std::vector<Step> steps;
  int64_t device_peak_bytes = 0;  // as PlanMemory's, in this block, without blocks within
};

// What a plan goes by where ranks either compute the same or send it: a node of some ten cores on
// ten-gigabit Ethernet (docs/mpi.md). Stated, not measured: all ranks must decide alike.
struct RankSpeeds {
  double flops_per_second = 250e9;
  double wire_bytes_per_second = 1e9;
  double message_seconds = 50e-6;
};

struct PlanOptions {
  int threads = 1;
  bool fuse = true;                  // off: every operation's value is written out (--check-nan)
  bool fused_accumulators = true;    // reductions fold partial sums as they are made
  int64_t probed_bytes = INT64_MAX;  // see MakeSchedule
  int64_t memory_limit = 0;          // bytes; 0: none. A plan above it is not for running.
  RankCut cut;                       // the devices that this process runs
  RankSpeeds speeds;
};

struct Plan {
  std::unique_ptr<Program> program;
  std::deque<PlanBlock> blocks;
  uint32_t entry = 0;
  PlanMemory memory;
  int threads = 1;
  RankCut cut;
  RankSpeeds speeds;
  std::vector<KnownData> known;
  std::deque<std::vector<int64_t>> tables;  // behind BufferRef::table
  std::optional<InstancePlaces> places;
  int64_t zero_bytes = 0;
  size_t call_count = 0;  // kernel calls in all steps
  uint32_t chain_count = 0;

  // Arena offset of a result's or kept value's instance on one device; kNotHere if only other ranks
  // have it.
  int64_t OffsetOn(ValueId value, uint32_t device) const;
};

// Consumes the program (lowered, analysed). Errors: reductions that cannot be compiled.
Expected<std::unique_ptr<Plan>> BuildPlan(std::unique_ptr<Program> program,
                                          const PlanOptions& options);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_PLAN_PLAN_H_
