// Which pass of which micro-batch each device runs at each clock tick.
//
// A pass of a stage is the forward, backward, weight-gradient or recompute work of one virtual
// stage on one micro-batch. Devices, chunks and virtual stages are as in options.h: virtual stage
// v = r * K + k is chunk r of device k. At a tick a device runs one pass or none; what it hands on
// is at its neighbour before the next tick. Orders: GPipe (Huang et al. 2019), 1F1B
// (PipeDream-Flush: Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training", 2021),
// interleaved 1F1B (Narayanan et al., "Efficient Large-Scale Language Model Training on GPU
// Clusters Using Megatron-LM", 2021), ZB-H1 (Qi et al. 2023), the shifting buffer and its circular
// form (GSPMD paper, section 3.3).
//
// Devices that exchange values at the end of a tick wait for each other, so passes are given ticks
// such that none waits for a longer one without need (backward passes are longer than forward):
//
//   gpipe         no backward pass in a tick before the last forward pass; where recomputation is a
//                 pass of its own, ticks as 1f1b's with it in the place of forward passes
//   1f1b          forward passes of stage k at ticks of k's parity, backward at the others: pairs
//                 (k, k + 1) exchange at ticks of k's parity only, one a micro-batch onward, the
//                 other one back, both just made
//   interleaved   forward passes at even ticks, backward passes at odd ones, on all devices: what
//                 one hands on is needed two ticks later, so it is on its way while a pass runs
//   zero-bubble   as 1f1b, and gradients of weights at any; or those have every second tick to
//                 themselves, after the exchange, and nobody waits for them; or forward passes of
//                 stage k at ticks t with t - k = 0 modulo 3, backward passes where it is 1; or all
//                 passes at any tick; or what backward passes hand on is held for a tick, so that
//                 stages k and k + 1 meet at every fourth tick only, as under 1f1b with gradients
//                 of weights on either side of the meeting
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
  int64_t stage = 0;  // virtual stage
  bool operator==(const ScheduledPass&) const = default;
};

struct Schedule {
  ScheduleKind kind = ScheduleKind::k1F1B;
  int64_t stages = 1;   // K devices
  int64_t repeats = 1;  // R chunks each
  int64_t microbatches = 1;
  bool has_forward_of_last = true;  // false: the last stage's backward pass contains its forward
  bool has_backward = true;
  // Recomputation is a pass of its own, kRecompute. On the last virtual stage, if that has no
  // forward pass (has_forward_of_last is false), it is the only forward computation.
  bool has_recompute = false;
  std::vector<std::vector<ScheduledPass>> order;  // by device
  std::vector<std::vector<ScheduledPass>> ticks;  // by tick, then device; a multiple of `period`
  int64_t period = 1;             // who hands on to whom depends on the tick modulo this
  bool holds_cotangents = false;  // what a backward pass hands on leaves after the next tick
  // What a pass hands on is on its way while the next tick's pass runs, and at its neighbour before
  // the tick after that.
  bool overlaps_transfers = false;

  int64_t virtual_stages() const { return stages * repeats; }
  // The ticks by which what a backward pass hands on leaves late.
  int64_t ticks_held() const { return holds_cotangents ? 1 : 0; }
  // The ticks for which what is handed on is on its way.
  int64_t ticks_on_the_way() const { return overlaps_transfers ? 1 : 0; }
};

// Devices that hand on a value at ticks of one phase (the tick modulo the schedule's period).
struct Senders {
  std::vector<bool> forward, backward;  // by device: to the next one, to the one before
};
Senders SendersOf(const Schedule& schedule, int64_t phase);
// Returns the number of ticks in whose phase some device hands on a value.
int64_t ExchangesOf(const Schedule& schedule);

// Seconds of each pass on one micro-batch, by virtual stage (PipelinePlan::flops keeps FLOPs here
// instead). `weights`: of the passes that compute weight gradients. `exchange`: of a tick's
// exchange between neighbours, for which both wait.
struct PassTimes {
  std::vector<double> forward, backward, weights, recompute = {};
  double exchange = 0;
};

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::k1F1B;
  int64_t stages = 1, repeats = 1, microbatches = 1;
  bool has_forward_of_last = true;
  bool has_backward = true;
  bool has_recompute = false;  // for gpipe only
  // For zero-bubble only: times that passes are ordered by (empty: all alike), and whether weight
  // gradients of several micro-batches may be delayed, which keeps in memory what they need.
  PassTimes times = {};
  bool puts_off_weights = true;
};
Schedule MakeSchedule(const ScheduleOptions& options);

struct SimulatedPass {
  ScheduledPass what;
  double start = 0, end = 0;
};
// Times are in seconds.
struct Simulation {
  std::vector<std::vector<SimulatedPass>> devices;
  double span = 0;  // from the first pass to the end of the last
  // Sum of the idle seconds of all devices, divided by (number of devices x span). Of a shifting
  // buffer idle means computing on padding, and the span is that of its ticks, without the layers
  // outside it.
  double bubble_fraction = 0;
};
// Simulates a run in which every device runs its passes in order, each as soon as what it needs is
// there, and exchanges take no time.
Simulation Simulate(const Schedule& schedule, const PassTimes& times);
// Simulates the printed program, tick by tick: at the end of each tick the devices that exchange at
// ticks of its phase wait for each other, and for the exchange.
Simulation SimulateTicks(const Schedule& schedule, const PassTimes& times);

// Returns by virtual stage the largest number of micro-batches at a time whose forward pass has
// begun and whose last backward pass has not ended.
std::vector<int64_t> MicrobatchesInFlight(const Schedule& schedule);

// Returns by virtual stage the largest number of micro-batches at a time whose weight gradients are
// delayed.
std::vector<int64_t> MicrobatchesDelayed(const Schedule& schedule);

// Rows of one buffer that all chunks of a device share. The largest number of values at a time over
// all chunks is smaller than the sum of each chunk's largest number, as their values live for
// different times.
struct SharedRows {
  int64_t count = 0;         // most on any device
  std::vector<int64_t> row;  // by virtual stage * M + micro-batch; empty: nothing is shared
};

// Depths of the buffers for values that live from one pass to another: the largest number of
// micro-batches at a time that have such a value, over virtual stages. What is stored by
// micro-batch modulo that number is never overwritten too early. With several chunks per device the
// values that take most have shared rows instead: what forward passes save or, if they save nothing
// (not has_forward_of_last), the inputs of stages.
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
