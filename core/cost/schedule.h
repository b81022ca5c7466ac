// A list-scheduled simulation of one computation: compute units and links as streams.
//
// Collectives that may run beside compute start as soon as their operands are there and their links
// are free; compute runs what has the longest tail behind it first, as XLA's latency-hiding
// scheduler does, or keeps the text's order. A loop's body is simulated for a few trips, of which
// one may prefetch for the next, until it is steady; the other trips take as long as the last.
//
// Times only: peak memory does not use this order but one of its own, the text's or one that keeps
// the peak low (core/cost/memory/memory_schedule.h).
#ifndef GSHARD_CORE_COST_SCHEDULE_H_
#define GSHARD_CORE_COST_SCHEDULE_H_

#include <cstdint>
#include <span>
#include <vector>

namespace gshard {

// A node occupies the compute stream, link streams, or both, while it runs:
//
//   on_compute  is_stall  links
//   true        false     none      a kernel
//   true        false     all       a loop or call, whose inside may use any link
//   true        true      its own   a collective that nothing overlaps: compute is idle meanwhile
//   false       false     its own   beside compute: a collective, a transfer from or to the host,
//   an
//                                   asynchronous copy in device memory
//
// A node of no seconds and no links takes no stream.
struct ScheduleNode {
  double seconds = 0;
  uint32_t links = 0;          // bit s: occupies link stream s (stream 1 + s of the timeline)
  bool on_compute = true;      // occupies the compute stream; false: runs beside it
  bool is_stall = false;       // see above; only with on_compute
  std::vector<int32_t> after;  // nodes of the same trip
  std::vector<int32_t> after_previous;  // nodes of the trip before
};

// Of each node, in their order, the nodes that wait for it by a list of ScheduleNode.
class WaitingNodes {
 public:
  WaitingNodes() = default;
  WaitingNodes(const std::vector<ScheduleNode>& nodes, std::vector<int32_t> ScheduleNode::*list);
  std::span<const int32_t> For(size_t node) const {
    return std::span(waiting_).subspan(begin_[node], begin_[node + 1] - begin_[node]);
  }

 private:
  std::vector<size_t> begin_;  // in waiting_, by node
  std::vector<int32_t> waiting_;
};

struct ScheduledEvent {
  int32_t node = 0;
  double start_s = 0, end_s = 0;
  bool is_critical = false;
};

struct Schedule {
  double seconds = 0;  // of all trips
  // Per node, over all trips: seconds in which compute waits for it or is slowed by it.
  std::vector<double> exposed_s;
  std::vector<ScheduledEvent> events;  // of one trip, the earliest at 0
};

// Simulates `trips` executions of `nodes`, which stand in an order that respects `after`. With
// `in_order`, compute runs in that order. While nodes with links run beside compute they take
// `compute_share` (0..1) of its units, so what runs meanwhile takes longer.
Schedule Simulate(const std::vector<ScheduleNode>& nodes, double trips, bool in_order,
                  double compute_share = 0);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_SCHEDULE_H_
