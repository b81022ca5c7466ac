// Which pass of which micro-batch each device runs at each clock tick.
//
// Virtual stage v = r * K + k is the r-th chunk of device k. At a tick a device runs one pass or
// none; what it hands on is at its neighbour before the next tick. Orders: GPipe (Huang et al.
// 2019), 1F1B (PipeDream-Flush, Narayanan et al. 2021), interleaved 1F1B (Narayanan et al. 2021),
// ZB-H1 (Qi et al. 2023), the shifting buffer and its circular form (GSPMD paper, section 3.3).
//
// Devices that exchange values at the end of a tick wait for each other, so passes are given ticks
// such that none waits for a longer one without need (backward passes are longer than forward):
//
//   gpipe         no backward pass in a tick before the last forward pass; where recomputation is a
//                 pass of its own, ticks as 1f1b's with it in the place of forward passes
//   1f1b          forward passes of stage k at ticks of k's parity, backward at the others: pairs
//                 (k, k + 1) exchange at ticks of k's parity only, one a micro-batch onward, the
//                 other one back, both just made
//   interleaved   forward passes at even ticks, backward passes at odd ones, on all devices
//   zero-bubble   as 1f1b, and gradients of weights at any; or those have every second tick to
//                 themselves, after the exchange, and nobody waits for them; or forward passes of
//                 stage k at ticks t with t - k = 0 modulo 3, backward passes where it is 1; or all
//                 passes at any tick
//
// Ticks that are idle because of that take no time.
#ifndef GSHARD_CORE_PIPELINE_PLAN_SCHEDULE_H_
#define GSHARD_CORE_PIPELINE_PLAN_SCHEDULE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/pipeline/plan/options.h"

namespace gshard::pipeline {

// kRecompute: the forward pass again, for the backward pass that follows it on the device. It needs
// no cotangent, so the first one hides in the wait for that (GPipe, section 2.3).
enum class Pass : uint8_t { kNone, kForward, kBackward, kWeights, kRecompute };
inline constexpr size_t kPassKinds = 4;  // kNone apart

struct ScheduledPass {
  Pass pass = Pass::kNone;
  int64_t microbatch = 0;
  int64_t stage = 0;  // virtual
  bool operator==(const ScheduledPass&) const = default;
};

struct Schedule {
  ScheduleKind kind = ScheduleKind::k1F1B;
  int64_t stages = 1;   // K devices
  int64_t repeats = 1;  // R chunks each
  int64_t microbatches = 1;
  bool has_forward_of_last = true;  // false: the last stage's backward pass contains its forward
  bool has_backward = true;
  bool has_recompute = false;  // of the last stage that is its forward pass
  std::vector<std::vector<ScheduledPass>> order;  // by device
  std::vector<std::vector<ScheduledPass>> ticks;  // by tick, then device; a multiple of `period`
  int64_t period = 1;  // who hands on to whom depends on the tick modulo this

  int64_t virtual_stages() const { return stages * repeats; }
};

// Devices that hand on a value at ticks of one phase (the tick modulo the schedule's period): to
// the next device, and to the one before.
struct Senders {
  std::vector<bool> forward, backward;  // by device
};
Senders SendersOf(const Schedule& schedule, int64_t phase);
// Ticks of phases in which some device hands on a value.
int64_t ExchangesOf(const Schedule& schedule);

// Time of each pass of each virtual stage, and of a tick's exchange between neighbours, for which
// both wait.
struct PassTimes {
  std::vector<double> forward, backward, weights, recompute = {};
  double exchange = 0;
};

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::k1F1B;
  int64_t stages = 1, repeats = 1, microbatches = 1;
  bool has_forward_of_last = true;
  bool has_backward = true;
  bool has_recompute = false;  // of gpipe
  // Of zero-bubble: what passes are ordered by (empty: all alike), and whether gradients of weights
  // of several micro-batches may be put off, which keeps what they need.
  PassTimes times = {};
  bool puts_off_weights = true;
};
Schedule MakeSchedule(const ScheduleOptions& options);

struct SimulatedPass {
  ScheduledPass what;
  double start = 0, end = 0;
};
struct Simulation {
  std::vector<std::vector<SimulatedPass>> devices;
  double span = 0;             // from the first pass to the end of the last
  // Idle time over K times the span; of a shifting buffer padding over its ticks, as gshard-cost
  // counts it: layers outside it have none.
  double bubble_fraction = 0;
};
// Every device runs its passes in order, each as soon as what it needs is there; exchanges take no
// time.
Simulation Simulate(const Schedule& schedule, const PassTimes& times);
// The same, tick by tick: at the end of each those who exchange at ticks of its phase wait for each
// other, and for the exchange. What the printed program does.
Simulation SimulateTicks(const Schedule& schedule, const PassTimes& times);

// By virtual stage: most micro-batches at a time whose forward pass has begun and whose last
// backward pass has not ended.
std::vector<int64_t> MicrobatchesInFlight(const Schedule& schedule);

// By virtual stage: most micro-batches at a time whose gradients of weights are put off.
std::vector<int64_t> MicrobatchesDelayed(const Schedule& schedule);

// Rows of one buffer that all chunks of a device share: values of chunks live unequally long, so as
// many as there are at a time are fewer than each chunk's most together.
struct SharedRows {
  int64_t count = 0;         // most on any device
  std::vector<int64_t> row;  // by virtual stage * M + micro-batch; empty: nothing is shared
};

// Most micro-batches at a time whose value lives from one pass to another, over virtual stages:
// what is stored by micro-batch modulo that number is never overwritten too early. With several
// chunks a device that which takes most has shared rows instead: what forward passes save, or, where
// they save nothing (not has_forward_of_last), the inputs of stages.
struct BufferDepths {
  int64_t forward_input = 1;   // from the arrival of a stage's input to its last use
  int64_t backward_input = 1;  // from the arrival of a cotangent to its use
  int64_t saved = 1;           // from the forward pass to the backward pass
  int64_t delayed = 1;         // from the backward pass to the gradients of weights
  SharedRows forward_rows, saved_rows;
};
BufferDepths DepthsOf(const Schedule& schedule);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PLAN_SCHEDULE_H_
