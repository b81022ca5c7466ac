#include "core/pipeline/tick_table.h"

namespace gshard::pipeline {
namespace {

// Row of a buffer of `depth` micro-batches for each chunk.
int64_t RowOf(const ScheduledPass& p, int64_t stages, int64_t depth) {
  return p.stage / stages * depth + p.microbatch % depth;
}

}  // namespace

TickTable MakeTickTable(const Schedule& schedule, const BufferDepths& depths,
                        const std::function<int64_t(Pass, int64_t)>& branch_of) {
  const int64_t stages = schedule.stages, last = schedule.virtual_stages() - 1;
  TickTable table{static_cast<int64_t>(schedule.ticks.size()), stages, {}};
  const int64_t idle = branch_of(Pass::kNone, 0);
  const int64_t nobody_forward = schedule.repeats * depths.forward_input;
  const int64_t nobody_backward = schedule.repeats * depths.backward_input;
  for (const std::vector<ScheduledPass>& tick : schedule.ticks) {
    for (int64_t k = 0; k < stages; ++k) {
      const ScheduledPass& p = tick[static_cast<size_t>(k)];
      bool none = p.pass == Pass::kNone;
      table.values.push_back(none ? idle : branch_of(p.pass, p.stage));
      table.values.push_back(p.microbatch);
      table.values.push_back(p.stage / stages);
      for (int64_t depth :
           {depths.forward_input, depths.backward_input, depths.saved, depths.delayed}) {
        table.values.push_back(none ? 0 : RowOf(p, stages, depth));
      }
      // From the device before comes the input of the stage after its own.
      const ScheduledPass& before = tick[static_cast<size_t>((k + stages - 1) % stages)];
      const ScheduledPass& after = tick[static_cast<size_t>((k + 1) % stages)];
      bool takes = before.pass == Pass::kForward && before.stage < last;
      ScheduledPass in = before;
      in.stage = before.stage + 1;
      table.values.push_back(takes ? RowOf(in, stages, depths.forward_input) : nobody_forward);
      takes = after.pass == Pass::kBackward && after.stage > 0;
      in = after;
      in.stage = after.stage - 1;
      table.values.push_back(takes ? RowOf(in, stages, depths.backward_input) : nobody_backward);
    }
  }
  return table;
}

TickNumbers EmitLookup(Builder& b, const TickTable& table, Instruction* tick, Instruction* stage) {
  Instruction* values = b.IntegerTable(DType::kS32, table.values);
  const int64_t dims[] = {table.ticks * table.stages, kTickColumns};
  values = b.Reshape(values, dims);
  Instruction* row = b.Add(b.Multiply(tick, b.ScalarInt(DType::kS32, table.stages)), stage);
  Instruction* const starts[] = {row, b.ScalarInt(DType::kS32, 0)};
  const int64_t sizes[] = {1, kTickColumns};
  Instruction* found = b.DynamicSlice(values, starts, sizes);
  std::vector<Instruction*> numbers;
  for (int64_t i = 0; i < kTickColumns; ++i) {
    numbers.push_back(b.Reshape(b.SliceDim(found, 1, i, i + 1), {}));
  }
  TickNumbers result;
  result.branch = numbers[0];
  result.pass.assign(numbers.begin() + 1, numbers.begin() + 1 + kPassNumbers);
  result.forward_arrival = numbers[static_cast<size_t>(kPassNumbers) + 1];
  result.backward_arrival = numbers[static_cast<size_t>(kPassNumbers) + 2];
  return result;
}

}  // namespace gshard::pipeline
