// Program -> order of work: segments between collectives, cut into chains.
//
//   segment   operations between two points where devices exchange data
//   chain     the operations of a segment whose results have the same device classes; it runs one
//             class (or a few) after another, depth first, so that its temporaries stay in cache
//
// Inside a segment data only flows from coarser to finer classes, so there is one chain per set of
// classes and they run in the order of their class counts.
#ifndef GSHARD_BACKENDS_CPU_SCHEDULE_H_
#define GSHARD_BACKENDS_CPU_SCHEDULE_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "backends/cpu/program.h"

namespace gshard::cpu {

struct Chain {
  const DeviceClasses* classes = nullptr;
  std::vector<const Op*> ops;
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

Schedule MakeSchedule(const Program& program);

// The values without view behind a value: itself, or what it is a view of.
std::vector<ValueId> BasesOf(const Program& program, ValueId value);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_SCHEDULE_H_
