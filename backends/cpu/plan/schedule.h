// Program -> order of work: segments between collectives, cut into chains.
//
//   segment   operations between two points where devices exchange data
//   chain     the operations of a segment whose results have the same device classes; it runs one
//             class (or a few) after another, depth first, so that its temporaries stay in cache
//
// Inside a segment data only flows from coarser to finer classes, so there is one chain per set of
// classes and they run in the order of their class counts.
#ifndef GSHARD_BACKENDS_CPU_PLAN_SCHEDULE_H_
#define GSHARD_BACKENDS_CPU_PLAN_SCHEDULE_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "backends/cpu/plan/program.h"

namespace gshard::cpu {

// A value of a chain that goes into a reduction as it is made: see fused_accumulators.h.
struct FusedAccumulator {
  uint32_t after_op = 0;           // index in Chain::ops of what makes the value
  const Op* collective = nullptr;  // reduces operand `index` to result `index`
  uint32_t index = 0;
};

struct Chain {
  const DeviceClasses* classes = nullptr;
  std::vector<const Op*> ops;
  int64_t probed_bytes = 0;  // that its probes show
  std::vector<FusedAccumulator> fused_accumulators;
  // With fused accumulators: classes in the order of their groups, and where each task begins in it
  // (and the end). Consecutive tasks_per_group tasks are the segments of one group.
  std::vector<uint32_t> order;
  std::vector<uint32_t> tasks;
  uint32_t tasks_per_group = 1;
};

struct ScheduledBlock;

struct ScheduledStep {
  Chain chain;             // of kernels; op is null then
  const Op* op = nullptr;  // collective, while, conditional, rng state
  std::vector<ScheduledBlock*> blocks;
  // Set by AssignStorage: first and last moment of the step in the order of all steps. Loops and
  // conditionals begin before and end after everything inside.
  uint32_t begin = 0, end = 0;
};

struct ScheduledBlock {
  const Block* block = nullptr;
  std::vector<ScheduledStep> steps;
  uint32_t end = 0;  // the moment its results are read
};

struct Schedule {
  ScheduledBlock* entry = nullptr;
  std::deque<ScheduledBlock> blocks;
};

// Gives every elementwise user of a broadcast or iota its own copy: it costs next to nothing inside
// a fused group, but much memory if it has to wait for a far user.
void CloneCheapProducers(Program& program);

// Segments end where the probes of a chain show more than `probed_bytes` (over all devices), so
// that an observer need not hold more at a time, and is shown large arrays in about the program's
// order.
Schedule MakeSchedule(const Program& program, int64_t probed_bytes);

// The values without view behind a value: itself, or what it is a view of.
std::vector<ValueId> BasesOf(const Program& program, ValueId value);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_PLAN_SCHEDULE_H_
