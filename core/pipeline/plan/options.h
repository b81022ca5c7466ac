// What a caller asks of the pipeliner (docs/pipelining.md).
//
// Words of this folder and the ones beside it: a mesh with K stages has K groups of devices along
// the stage axis. Group k is also called device k, or stage k. Each has R chunks of layers
// (`repeats`); virtual stage v = r * K + k is chunk r of group k, so consecutive virtual stages lie
// on neighbouring groups. With R = 1 virtual stages are stages. With the shifting buffer (kShift)
// virtual stage 0 has the layers before the repeated ones, 1 + r * K + k is chunk r of group k, and
// the last has the layers after.
#ifndef GSHARD_CORE_PIPELINE_PLAN_OPTIONS_H_
#define GSHARD_CORE_PIPELINE_PLAN_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/cost/chip.h"
#include "ir/diagnostic.h"

namespace gshard::pipeline {

// Order of forward and backward passes on each stage.
enum class ScheduleKind : uint8_t {
  kGPipe,        // all forward, then all backward (GPipe)
  k1F1B,         // one forward, one backward (PipeDream-Flush)
  kInterleaved,  // 1F1B over several chunks of layers a device (Megatron-LM)
  kZeroBubble,   // 1F1B with gradients of weights put off (ZB-H1)
  kShift,        // GSPMD's vectorised shifting buffer: every device computes at every tick
};

// What the backward pass of a stage computes again from the stage's input.
enum class Remat : uint8_t {
  kNone,     // nothing
  kProgram,  // what the step itself computes again, as jax.checkpoint has it
  kStage,    // the stage once
  kAll,      // the stage up to the inputs of its layers, then each layer from its input
};
// True if forward values that the backward pass needs are kept.
inline bool KeepsValues(Remat remat) { return remat == Remat::kNone || remat == Remat::kProgram; }
// Number of times that the backward pass of a stage computes the forward pass of one of its layers.
// With kAll once less for the last layer, above which no layer needs its output.
double ForwardsInBackward(Remat remat, bool is_last_of_stage);

// Where a stage's weights lie between steps.
enum class WeightPlacement : uint8_t { kSharded, kReplicated };

// REGEX=DIM: dim of a parameter that counts examples.
struct BatchRule {
  std::string pattern;  // RE2, partial match on name, op_name or "param:K"
  int64_t dimension = 0;
  std::string text;  // as written
};

struct PipelineOptions {
  int64_t stages = 1;        // K
  int64_t microbatches = 1;  // M
  ScheduleKind schedule = ScheduleKind::k1F1B;
  int64_t repeats = 0;  // R, chunks per device; 0: interleaved 2, others 1
  std::string axis = "stage";
  std::vector<BatchRule> batch;  // empty: dim 0 of parameters neither updated nor scalar
  std::string cut;               // RE2: the first instruction of each layer; empty: found
  std::string balance = "cost";  // cost, layers, gpipe, or the first layer of each stage
  // Zero-bubble, --remat none: gradients of weights may wait for gaps, and what they need is kept.
  bool puts_off_weights = true;
  // Shifting buffer: what begins the backward pass of its last stage is handed to it, as cotangents
  // are to the others (CopyEnteringCotangents). PipelineModule sets it where stages are unlike
  // otherwise.
  bool copies_cotangents = false;
  std::optional<Remat> remat;  // unset: kProgram where the step has checkpoints, else kStage
  WeightPlacement weights = WeightPlacement::kSharded;
  Chip chip = *BuiltInChip("tpu-v3");  // whose times and links layers are balanced by
  // Memory of one device. PipelineModule reads it for balance "cost" only; 0: no limit.
  // PipelineByBest also compares whole programs with it; 0: with the chip's memory.
  int64_t memory_limit_bytes = 0;
};

// Number of chunks of layers per device: more than one if interleaved, or in a shifting buffer that
// is circular.
int64_t StagesOfDevice(const PipelineOptions& options);

Expected<ScheduleKind> ParseSchedule(std::string_view text);
Expected<Remat> ParseRemat(std::string_view text);
Expected<WeightPlacement> ParseWeights(std::string_view text);
Expected<BatchRule> ParseBatchRule(std::string_view text);
std::string_view NameOf(ScheduleKind kind);
std::string_view NameOf(Remat remat);
std::string_view NameOf(WeightPlacement weights);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PLAN_OPTIONS_H_
