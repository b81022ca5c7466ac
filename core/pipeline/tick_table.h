// The schedule as a constant of the program: what each device does at each tick.
#ifndef GSHARD_CORE_PIPELINE_TICK_TABLE_H_
#define GSHARD_CORE_PIPELINE_TICK_TABLE_H_

#include <functional>
#include <vector>

#include "core/pipeline/region_state.h"
#include "ir/builder.h"

namespace gshard::pipeline {

// One row a tick and device: branch, the numbers of the pass (PassNumber), and the rows of the
// input buffers where what arrives after the tick is stored.
inline constexpr int64_t kTickColumns = 1 + kPassNumbers + 2;

struct TickTable {
  int64_t ticks = 0, stages = 0;
  std::vector<int64_t> values;  // [ticks, stages, kTickColumns]
};

TickTable MakeTickTable(const Schedule& schedule, const BufferDepths& depths,
                        const std::function<int64_t(Pass, int64_t)>& branch_of);

struct TickNumbers {
  Instruction* branch = nullptr;
  std::vector<Instruction*> pass;  // kPassNumbers
  Instruction* forward_arrival = nullptr;
  Instruction* backward_arrival = nullptr;
};

// Code that looks up the row of `tick` and `stage` (s32[] both).
TickNumbers EmitLookup(Builder& b, const TickTable& table, Instruction* tick, Instruction* stage);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_TICK_TABLE_H_
