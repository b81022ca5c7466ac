// When each kernel and each collective of a step runs on one device.
//
// Streams: 0 is the device's compute units; every other stream is a set of links. A loop is drawn
// once: its event spans all its trips, the events inside are those of one trip in steady state,
// placed as if it were the first (of trips that take different branches, one of each kind).
#ifndef GSHARD_CORE_COST_TIMELINE_H_
#define GSHARD_CORE_COST_TIMELINE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/instruction.h"

namespace gshard {

// What a stretch of the compute stream is spent on.
enum class WorkClass : uint8_t {
  kDot,        // dots, convolutions and what is fused into them
  kAttention,  // attention kernels
  kMovement,   // copies, slices, gathers, layout changes: nothing computed
  kOther,      // elementwise chains, reductions, sorts, ..
  kCollective,
  kLoop,  // a while loop as a whole; its parts are events of their own
};
// "dot", "attention", "movement", "other", "collective", "loop".
std::string_view WorkClassName(WorkClass work_class);

// How much a compiler lets collectives run beside compute.
enum class Overlap : uint8_t {
  kChipDefault,  // what the chip's compiler does
  kNone,         // one thing after the other
  kXla,          // async pairs, and what XLA's latency-hiding scheduler makes async on this chip
  kPerfect,      // every collective is async
};
// "none", "xla", "perfect"; "default" for kChipDefault.
std::string_view OverlapName(Overlap overlap);

struct TimelineEvent {
  // The kernel's root, the collective (its start half), or the while loop.
  const Instruction* instruction = nullptr;
  WorkClass work_class = WorkClass::kOther;
  int stream = 0;            // index into Timeline::streams
  double start_s = 0;        // since the step began
  double end_s = 0;          // of a loop: of its last trip
  double trip_count = 1;     // executions in a step: product of the trips of the enclosing loops
  double kind_start_s = 0;   // where the trip it is drawn in begins: of loops with several kinds
  int parent = -1;           // index of the enclosing loop's event; -1: the entry computation
  bool is_critical = false;  // on the critical path
};

struct Timeline {
  std::vector<std::string> streams;   // "compute", "x links", "data links", ..
  std::vector<TimelineEvent> events;  // by start; a loop before its parts
  // Indices of events, first to last: each waits for the one before it (its operand, or the stream
  // both need).
  std::vector<size_t> critical_path;
};

}  // namespace gshard

#endif  // GSHARD_CORE_COST_TIMELINE_H_
