// What the loop over clock ticks carries on each device, and in which order.
#ifndef GSHARD_CORE_PIPELINE_EMIT_REGION_STATE_H_
#define GSHARD_CORE_PIPELINE_EMIT_REGION_STATE_H_

#include <vector>

#include "core/pipeline/emit/packs.h"
#include "core/pipeline/emit/slots.h"
#include "core/pipeline/emit/stages.h"

namespace gshard::pipeline {

// Numbers that a pass is told, s32[] each, in this order.
enum class PassNumber : uint8_t {
  kMicrobatch,
  kChunk,         // r of the virtual stage
  kForwardInput,  // rows of the buffers
  kBackwardInput,
  kSaved,
  kDelayed,
  // Of schedules that compute on padding:
  kIsValid,    // 0: what the pass adds up and writes does not count
  kOutputRow,  // of results with examples
};
inline constexpr int64_t kPassNumbers = 6;
inline constexpr int64_t kPaddedPassNumbers = 8;

using ValueSlots = SlotTable<const Instruction*>;
using TermSlots = SlotTable<size_t>;  // by index into Phases::accumulated()
using WeightPacks = PackTable<const Instruction*>;
using TermPacks = PackTable<size_t>;

struct Group {
  int64_t begin = 0, size = 0;
};

// All slots, and where the elements lie in the tuple that passes take (numbers first) and in the
// one that they return.
struct RegionState {
  ValueSlots forward, backward;  // by boundary
  ValueSlots saved, delayed;     // by virtual stage
  ValueSlots weights;            // by virtual stage; all but those that every stage shares
  TermSlots terms;               // by virtual stage
  ValueSlots outputs;            // by virtual stage: tiles of one micro-batch
  // Of weights and of sums, what not every stage has: behind the slots, as [repeats, length].
  WeightPacks weight_packs;
  TermPacks term_packs;
  std::vector<Instruction*> shared;  // weights that lie whole on every device
  std::vector<Instruction*> data;    // parameters with examples

  BufferDepths depths;
  int64_t repeats = 1, microbatches = 1;
  bool has_padding = false;  // passes are told whether they count
  int64_t number_count() const { return has_padding ? kPaddedPassNumbers : kPassNumbers; }

  // Operands of a pass.
  Group forward_in, backward_in, weights_in, shared_in, data_in, saved_in, delayed_in, terms_in,
      outputs_in;
  // Results of a pass.
  Group forward_out, backward_out, saved_out, delayed_out, terms_out, outputs_out;
  int64_t operand_count = 0, result_count = 0;

  void LayOut() {
    operand_count = number_count(), result_count = 0;
    auto take = [](Group& group, size_t size, int64_t& count) {
      group = {count, static_cast<int64_t>(size)};
      count += group.size;
    };
    take(forward_in, forward.size(), operand_count);
    take(backward_in, backward.size(), operand_count);
    take(weights_in, weights.size() + weight_packs.size(), operand_count);
    take(shared_in, shared.size(), operand_count);
    take(data_in, data.size(), operand_count);
    take(saved_in, saved.size(), operand_count);
    take(delayed_in, delayed.size(), operand_count);
    take(terms_in, terms.size() + term_packs.size(), operand_count);
    take(outputs_in, outputs.size(), operand_count);
    take(forward_out, forward.size(), result_count);
    take(backward_out, backward.size(), result_count);
    take(saved_out, saved.size(), result_count);
    take(delayed_out, delayed.size(), result_count);
    take(terms_out, terms.size() + term_packs.size(), result_count);
    take(outputs_out, outputs.size(), result_count);
  }
};

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_EMIT_REGION_STATE_H_
