// The table says what the schedule says, and does not grow with the number of micro-batches.
#include "core/pipeline/emit/tick_table.h"

#include <catch2/catch.hpp>

namespace gshard::pipeline {
namespace {

int64_t BranchOf(Pass pass, int64_t v) {
  return pass == Pass::kNone ? 0 : 1 + static_cast<int64_t>(pass) + 8 * v;
}

TickTable TableOf(const Schedule& s) { return MakeTickTable(s, DepthsOf(s), BranchOf); }

void CheckTable(const Schedule& s) {
  TickTable table = TableOf(s);
  for (size_t t = 0; t < s.ticks.size(); ++t) {
    for (size_t k = 0; k < s.ticks[t].size(); ++k) {
      const ScheduledPass& p = s.ticks[t][k];
      std::vector<int64_t> row = LookUp(table, static_cast<int64_t>(t), static_cast<int64_t>(k));
      CHECK(row[0] == BranchOf(p.pass, p.stage));
      if (p.pass == Pass::kNone) continue;
      CHECK(row[1] == p.microbatch);
      CHECK(row[2] == p.stage / s.stages);
      const SharedRows& saved = table.depths.saved_rows;
      if (!saved.row.empty()) {
        const auto at = static_cast<size_t>(p.stage * s.microbatches + p.microbatch);
        CHECK(row[static_cast<size_t>(SharedColumn::kSaved)] == saved.row[at]);
      }
      // The receiver hears of it.
      if (p.pass == Pass::kForward && p.stage + 1 < s.virtual_stages()) {
        int64_t to = (p.stage + 1) % s.stages;
        std::vector<int64_t> there = LookUp(table, static_cast<int64_t>(t), to);
        CHECK(there[3] == p.microbatch);
        CHECK(there[4] == (p.stage + 1) / s.stages);
      }
      if (p.pass == Pass::kBackward && p.stage > 0) {
        const int64_t to = (p.stage - 1) % s.stages;
        const auto then = static_cast<int64_t>(t) + s.ticks_held();
        std::vector<int64_t> there = LookUp(table, then, to);
        CHECK(there[5] == p.microbatch);
        CHECK(there[6] == (p.stage - 1) / s.stages);
      }
    }
  }
}

}  // namespace

TEST_CASE("The table says what the schedule says") {
  for (ScheduleKind kind : {ScheduleKind::kGPipe, ScheduleKind::k1F1B, ScheduleKind::kInterleaved,
                            ScheduleKind::kZeroBubble}) {
    for (int64_t k : {1, 2, 4, 8}) {
      for (int64_t m : {1, 2, 3, 8, 32}) {
        int64_t repeats = kind == ScheduleKind::kInterleaved ? 2 : 1;
        CheckTable(
            MakeSchedule({.kind = kind, .stages = k, .repeats = repeats, .microbatches = m}));
        if (kind != ScheduleKind::kGPipe) continue;
        CheckTable(MakeSchedule({.kind = kind,
                                 .stages = k,
                                 .microbatches = m,
                                 .has_forward_of_last = false,
                                 .has_recompute = true}));
      }
    }
  }
}

TEST_CASE("The table does not grow with the number of micro-batches") {
  for (ScheduleKind kind : {ScheduleKind::kGPipe, ScheduleKind::k1F1B, ScheduleKind::kInterleaved,
                            ScheduleKind::kZeroBubble}) {
    int64_t repeats = kind == ScheduleKind::kInterleaved ? 2 : 1;
    auto rows = [&](int64_t m) {
      return TableOf(
                 MakeSchedule({.kind = kind, .stages = 4, .repeats = repeats, .microbatches = m}))
          .rows();
    };
    if (kind != ScheduleKind::kInterleaved) {
      CHECK(rows(256) == rows(64));
      continue;
    }
    // The 11 rows that 8 chunks share come round after 2 * 11 * 8 ticks. What is left of the last
    // round depends on M.
    for (int64_t m : {256, 1024, 4096}) CHECK(rows(m) < 3 * 2 * 11 * 8);
  }
}

}  // namespace gshard::pipeline
