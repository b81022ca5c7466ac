// A list-scheduled simulation of one computation: compute units and links as streams.
//
// Collectives that may run beside compute start as soon as their operands are there and their links
// are free; compute runs what has the longest tail behind it first, as XLA's latency-hiding
// scheduler does, or keeps the text's order. A loop's body is simulated for a few trips, of which
// one may prefetch for the next, until it is steady; the other trips take as long as the last.
#ifndef GSHARD_CORE_COST_SCHEDULE_H_
#define GSHARD_CORE_COST_SCHEDULE_H_

#include <cstdint>
#include <vector>

namespace gshard {

struct ScheduleNode {
  double seconds = 0;
  uint32_t links = 0;      // bit s: runs on link stream s (stream 1 + s of the timeline)
  bool on_compute = true;  // the compute units wait until it is done (false: it runs beside them)
  bool is_stall = false;   // ..and do nothing meanwhile: a collective that nothing may overlap
  std::vector<int32_t> after;           // nodes of the same trip
  std::vector<int32_t> after_previous;  // nodes of the trip before
};

struct ScheduledEvent {
  int32_t node = 0;
  double start_s = 0, end_s = 0;
  bool is_critical = false;
};

struct Schedule {
  double seconds = 0;  // all trips
  // Per node, over all trips: seconds in which compute waits for it or is slowed by it.
  std::vector<double> exposed_s;
  std::vector<ScheduledEvent> events;  // of one trip, the earliest at 0
};

// `nodes` in an order that respects `after`. With `in_order`, compute runs in that order.
// Collectives beside compute take `compute_share` of its units: what runs meanwhile takes longer.
Schedule Simulate(const std::vector<ScheduleNode>& nodes, double trips, bool in_order,
                  double compute_share = 0);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_SCHEDULE_H_
