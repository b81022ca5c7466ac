// The schedule as a constant of the program: what each device does at each tick.
//
// Schedules repeat: in the steady state of 1F1B, two ticks later every device does the same with
// the next micro-batch. Of such a stretch one period is stored, so the table does not grow with the
// number of micro-batches.
#ifndef GSHARD_CORE_PIPELINE_EMIT_TICK_TABLE_H_
#define GSHARD_CORE_PIPELINE_EMIT_TICK_TABLE_H_

#include <functional>
#include <vector>

#include "core/pipeline/emit/region_state.h"
#include "ir/builder.h"

namespace gshard::pipeline {

// Columns of a row, which is of one tick and device. Arrivals are what the neighbours send at the
// end of the tick: micro-batch and chunk (of the receiver), chunk -1: nothing.
enum class TickColumn : uint8_t {
  kBranch,
  kMicrobatch,
  kChunk,
  kForwardMicrobatch,
  kForwardChunk,
  kBackwardMicrobatch,
  kBackwardChunk,
};
inline constexpr int64_t kTickColumns = 7;
// Where chunks of a device share the rows of buffers (BufferDepths): those of the pass's input, of
// what it saves, and of what arrives.
enum class SharedColumn : uint8_t { kForwardInput = kTickColumns, kSaved, kForwardArrival };
inline constexpr int64_t kTickColumnsOfShared = 10;

// Ticks from `first_tick` on repeat every `period` ticks, each time with `step` added to all
// micro-batches. Their rows begin at `first_row` (in ticks).
struct TickSegment {
  int64_t first_tick = 0, first_row = 0, period = 1, step = 0;
};

struct TickTable {
  int64_t stages = 0, repeats = 1;
  BufferDepths depths;
  std::vector<TickSegment> segments;
  std::vector<int64_t> values;  // [rows, stages, columns()]
  bool shares_rows() const {
    return !depths.forward_rows.row.empty() || !depths.saved_rows.row.empty();
  }
  int64_t columns() const { return shares_rows() ? kTickColumnsOfShared : kTickColumns; }
  int64_t rows() const { return static_cast<int64_t>(values.size()) / stages / columns(); }
};

TickTable MakeTickTable(const Schedule& schedule, const BufferDepths& depths,
                        const std::function<int64_t(Pass, int64_t)>& branch_of);

// What the table says of a tick and device: the row that the program looks up.
std::vector<int64_t> LookUp(const TickTable& table, int64_t tick, int64_t stage);

struct TickNumbers {
  Instruction* branch = nullptr;
  std::vector<Instruction*> pass;  // kPassNumbers
  // Rows of the input buffers where what arrives is stored.
  Instruction* forward_arrival = nullptr;
  Instruction* backward_arrival = nullptr;
};

// The table as a constant, s32[rows * stages, columns].
Instruction* EmitTable(Builder& b, const TickTable& table);

// Code that looks up the row of `tick` and `stage` (s32[] both) in it.
TickNumbers EmitLookup(Builder& b, const TickTable& table, Instruction* values, Instruction* tick,
                       Instruction* stage);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_EMIT_TICK_TABLE_H_
