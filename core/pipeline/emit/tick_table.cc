#include "core/pipeline/emit/tick_table.h"

#include <algorithm>
#include <optional>

namespace gshard::pipeline {
namespace {

using TickRow = std::vector<int64_t>;  // of one tick: [stages, columns]

constexpr size_t At(TickColumn column) { return static_cast<size_t>(column); }

constexpr size_t At(SharedColumn column) { return static_cast<size_t>(column); }

// The row of the value of a virtual stage; 0 where it has none.
int64_t SharedRowOf(const SharedRows& rows, const Schedule& schedule, int64_t v, int64_t i) {
  const auto at = static_cast<size_t>(v * schedule.microbatches + i);
  return at < rows.row.size() ? rows.row[at] : 0;
}

TickRow RowOf(const Schedule& schedule, size_t t, const BufferDepths& depths,
              const std::function<int64_t(Pass, int64_t)>& branch_of) {
  const int64_t stages = schedule.stages, last = schedule.virtual_stages() - 1;
  const std::vector<ScheduledPass>& tick = schedule.ticks[t];
  const auto held = static_cast<size_t>(schedule.ticks_held());
  TickRow row;
  for (int64_t k = 0; k < stages; ++k) {
    const ScheduledPass& p = tick[static_cast<size_t>(k)];
    row.insert(row.end(), {branch_of(p.pass, p.stage), p.microbatch, p.stage / stages});
    // From the device before comes the input of the stage after its own.
    const ScheduledPass& before = tick[static_cast<size_t>((k + stages - 1) % stages)];
    const ScheduledPass after =
        t < held ? ScheduledPass()
                 : schedule.ticks[t - held][static_cast<size_t>((k + 1) % stages)];
    bool takes = before.pass == Pass::kForward && before.stage < last;
    row.insert(row.end(), {before.microbatch, takes ? (before.stage + 1) / stages : -1});
    const bool takes_back = after.pass == Pass::kBackward && after.stage > 0;
    row.insert(row.end(), {after.microbatch, takes_back ? (after.stage - 1) / stages : -1});
    if (depths.forward_rows.row.empty() && depths.saved_rows.row.empty()) continue;
    auto of = [&](const SharedRows& rows, int64_t v, int64_t i) {
      return SharedRowOf(rows, schedule, v, i);
    };
    const bool works = p.pass != Pass::kNone;
    row.push_back(works ? of(depths.forward_rows, p.stage, p.microbatch) : 0);
    row.push_back(works ? of(depths.saved_rows, p.stage, p.microbatch) : 0);
    row.push_back(takes ? of(depths.forward_rows, before.stage + 1, before.microbatch) : 0);
  }
  return row;
}

// Of what rows that differ in their micro-batches only have in common.
uint64_t HashOf(const TickRow& row, size_t columns) {
  uint64_t hash = 0;
  auto add = [&](int64_t number) {
    hash = (hash ^ static_cast<uint64_t>(number)) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  };
  for (size_t i = 0; i < row.size(); i += columns) {
    for (TickColumn column : {TickColumn::kBranch, TickColumn::kChunk, TickColumn::kForwardChunk,
                              TickColumn::kBackwardChunk}) {
      add(row[i + At(column)]);
    }
    for (size_t j = i + static_cast<size_t>(kTickColumns); j < i + columns; ++j) add(row[j]);
  }
  return hash;
}

// What every micro-batch of `b` is ahead of those of `a`, if they are equal otherwise.
bool IsShifted(const TickRow& a, const TickRow& b, size_t columns, int64_t idle,
               std::optional<int64_t>& step) {
  auto same = [&](size_t at, bool counts) {
    if (!counts) return true;
    if (!step) step = b[at] - a[at];
    return b[at] - a[at] == *step;
  };
  for (size_t i = 0; i < a.size(); i += columns) {
    for (TickColumn column : {TickColumn::kBranch, TickColumn::kChunk, TickColumn::kForwardChunk,
                              TickColumn::kBackwardChunk}) {
      if (a[i + At(column)] != b[i + At(column)]) return false;
    }
    if (!same(i + At(TickColumn::kMicrobatch), a[i + At(TickColumn::kBranch)] != idle) ||
        !same(i + At(TickColumn::kForwardMicrobatch), a[i + At(TickColumn::kForwardChunk)] >= 0) ||
        !same(i + At(TickColumn::kBackwardMicrobatch),
              a[i + At(TickColumn::kBackwardChunk)] >= 0)) {
      return false;
    }
    for (size_t j = i + static_cast<size_t>(kTickColumns); j < i + columns; ++j) {
      if (a[j] != b[j]) return false;
    }
  }
  return true;
}

struct Repetition {
  size_t period = 0, times = 0;
  int64_t step = 0;
};

// The longest stretch from `begin` on that repeats. `hashes`: of the rows.
Repetition FindRepetition(const std::vector<TickRow>& rows, std::span<const uint64_t> hashes,
                          size_t columns, size_t begin, size_t most, int64_t idle) {
  Repetition best;
  for (size_t period = 1; period <= most && begin + 2 * period <= rows.size(); ++period) {
    std::optional<int64_t> step;
    size_t t = begin;
    while (t + period < rows.size() && hashes[t] == hashes[t + period] &&
           IsShifted(rows[t], rows[t + period], columns, idle, step)) {
      ++t;
    }
    size_t times = (t - begin) / period + 1;
    size_t saved = (times - 1) * period;
    if (times >= 2 && saved > (best.times > 0 ? (best.times - 1) * best.period : 0)) {
      best = {period, times, step.value_or(0)};
    }
  }
  return best;
}

}  // namespace

TickTable MakeTickTable(const Schedule& schedule, const BufferDepths& depths,
                        const std::function<int64_t(Pass, int64_t)>& branch_of) {
  TickTable table;
  table.stages = schedule.stages;
  table.repeats = schedule.repeats;
  table.depths = depths;
  const int64_t idle = branch_of(Pass::kNone, 0);
  std::vector<TickRow> rows;
  std::vector<uint64_t> hashes;
  for (size_t t = 0; t < schedule.ticks.size(); ++t) {
    rows.push_back(RowOf(schedule, t, depths, branch_of));
    hashes.push_back(HashOf(rows.back(), static_cast<size_t>(table.columns())));
  }
  auto take = [&](size_t begin, size_t count) {
    for (size_t t = begin; t < begin + count; ++t) {
      table.values.insert(table.values.end(), rows[t].begin(), rows[t].end());
    }
  };
  // Rows that chunks share come round when each value has had each of them.
  const int64_t shared = std::max(depths.forward_rows.count, depths.saved_rows.count);
  const size_t most =
      static_cast<size_t>(std::max<int64_t>(4, 2 * shared) * schedule.virtual_stages());
  bool is_open = false;  // the last segment is of rows that do not repeat
  for (size_t t = 0; t < rows.size();) {
    Repetition found =
        FindRepetition(rows, hashes, static_cast<size_t>(table.columns()), t, most, idle);
    const int64_t first_tick = static_cast<int64_t>(t);
    if (found.times == 0) {
      if (!is_open) table.segments.push_back({first_tick, table.rows(), 0, 0});
      is_open = true;
      ++table.segments.back().period;
      take(t, 1);
      ++t;
      continue;
    }
    table.segments.push_back(
        {first_tick, table.rows(), static_cast<int64_t>(found.period), found.step});
    is_open = false;
    take(t, found.period);
    t += found.period * found.times;
  }
  return table;
}

std::vector<int64_t> LookUp(const TickTable& table, int64_t tick, int64_t stage) {
  const TickSegment* segment = &table.segments[0];
  for (const TickSegment& other : table.segments) {
    if (tick >= other.first_tick) segment = &other;
  }
  const int64_t ahead = (tick - segment->first_tick) / segment->period;
  const int64_t row = segment->first_row + (tick - segment->first_tick) % segment->period;
  auto begin = table.values.begin() + (row * table.stages + stage) * table.columns();
  std::vector<int64_t> found(begin, begin + table.columns());
  for (TickColumn column :
       {TickColumn::kMicrobatch, TickColumn::kForwardMicrobatch, TickColumn::kBackwardMicrobatch}) {
    found[At(column)] += ahead * segment->step;
  }
  return found;
}

Instruction* EmitTable(Builder& b, const TickTable& table) {
  const int64_t dims[] = {table.rows() * table.stages, table.columns()};
  return b.Reshape(b.IntegerTable(DType::kS32, table.values), dims);
}

TickNumbers EmitLookup(Builder& b, const TickTable& table, Instruction* values, Instruction* tick,
                       Instruction* stage) {
  auto number = [&](int64_t value) { return b.ScalarInt(DType::kS32, value); };
  Instruction* row = nullptr;
  Instruction* ahead = nullptr;
  for (const TickSegment& segment : table.segments) {
    Instruction* since = b.Subtract(tick, number(segment.first_tick));
    Instruction* turns = b.Binary(Opcode::kDivide, since, number(segment.period));
    Instruction* within = b.Subtract(since, b.Multiply(turns, number(segment.period)));
    Instruction* row_here = b.Add(within, number(segment.first_row));
    Instruction* ahead_here = b.Multiply(turns, number(segment.step));
    if (row == nullptr) {
      row = row_here, ahead = ahead_here;
      continue;
    }
    Instruction* reached = b.Compare(ComparisonDirection::kGe, tick, number(segment.first_tick));
    row = b.Select(reached, row_here, row);
    ahead = b.Select(reached, ahead_here, ahead);
  }
  Instruction* const starts[] = {b.Add(b.Multiply(row, number(table.stages)), stage), number(0)};
  const int64_t sizes[] = {1, table.columns()};
  Instruction* found = b.DynamicSlice(values, starts, sizes);
  auto column = [&](auto c) {
    int64_t at = static_cast<int64_t>(c);
    return b.Reshape(b.SliceDim(found, 1, at, at + 1), {});
  };
  auto buffer_row = [&](Instruction* chunk, Instruction* microbatch, int64_t depth) {
    return b.Add(b.Multiply(chunk, number(depth)),
                 b.Binary(Opcode::kRemainder, microbatch, number(depth)));
  };
  TickNumbers result;
  result.branch = column(TickColumn::kBranch);
  Instruction* microbatch = b.Add(column(TickColumn::kMicrobatch), ahead);
  Instruction* chunk = column(TickColumn::kChunk);
  result.pass = {microbatch, chunk};
  const BufferDepths& depths = table.depths;
  for (int64_t depth :
       {depths.forward_input, depths.backward_input, depths.saved, depths.delayed}) {
    result.pass.push_back(buffer_row(chunk, microbatch, depth));
  }
  const bool shares_inputs = !depths.forward_rows.row.empty();
  if (table.shares_rows()) {
    const PassNumber at = shares_inputs ? PassNumber::kForwardInput : PassNumber::kSaved;
    result.pass[static_cast<size_t>(at)] =
        column(shares_inputs ? SharedColumn::kForwardInput : SharedColumn::kSaved);
  }
  // The last row of a buffer is nobody's.
  auto arrival = [&](TickColumn of_microbatch, TickColumn of_chunk, int64_t depth) {
    Instruction* in_chunk = column(of_chunk);
    Instruction* takes = b.Compare(ComparisonDirection::kGe, in_chunk, number(0));
    return b.Select(takes, buffer_row(in_chunk, b.Add(column(of_microbatch), ahead), depth),
                    number(table.repeats * depth));
  };
  result.forward_arrival =
      arrival(TickColumn::kForwardMicrobatch, TickColumn::kForwardChunk, depths.forward_input);
  if (shares_inputs) {
    Instruction* takes =
        b.Compare(ComparisonDirection::kGe, column(TickColumn::kForwardChunk), number(0));
    result.forward_arrival =
        b.Select(takes, column(SharedColumn::kForwardArrival), number(depths.forward_rows.count));
  }
  result.backward_arrival =
      arrival(TickColumn::kBackwardMicrobatch, TickColumn::kBackwardChunk, depths.backward_input);
  return result;
}

}  // namespace gshard::pipeline
