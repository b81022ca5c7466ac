#include "core/pipeline/emit/pass_inputs.h"

#include <algorithm>

namespace gshard::pipeline {
namespace {

PassInput WeightInput(const RegionState& state, size_t v, Instruction* x) {
  const auto shared = std::find(state.shared.begin(), state.shared.end(), x);
  if (shared != state.shared.end()) {
    return {PassInput::Kind::kWhole, state.shared_in.begin + (shared - state.shared.begin())};
  }
  if (const auto* place = state.weight_packs.Find(v, x)) {
    const auto element = static_cast<int64_t>(state.weights.size() + place->pack);
    return {PassInput::Kind::kPiece, state.weights_in.begin + element, PassNumber::kChunk, place};
  }
  const auto slot = static_cast<int64_t>(state.weights.SlotOf(v, x));
  return {PassInput::Kind::kRow, state.weights_in.begin + slot, PassNumber::kChunk};
}

}  // namespace

PassInput FindPassInput(const StageGraph& stages, const RegionState& state, Pass pass, int64_t v,
                        Instruction* x) {
  const auto k = static_cast<size_t>(v);
  if (x->opcode() == Opcode::kParameter && stages.phases().UsesExamples(x)) {
    const auto at = std::find(state.data.begin(), state.data.end(), x);
    return {PassInput::Kind::kExamples, at - state.data.begin()};
  }
  if (x->opcode() == Opcode::kPartitionId) return {PassInput::Kind::kMicrobatch};
  if (stages.layers().WeightOf(x) == x) return WeightInput(state, k, x);
  if (!stages.IsInput(pass, v, x)) return {};
  auto row = [](const Group& group, size_t slot, PassNumber number) -> PassInput {
    return {PassInput::Kind::kRow, group.begin + static_cast<int64_t>(slot), number};
  };
  if (pass == Pass::kWeights && state.delayed.Has(k, x)) {
    return row(state.delayed_in, state.delayed.SlotOf(k, x), PassNumber::kDelayed);
  }
  if (v > 0 && state.forward.Has(k - 1, x)) {
    return row(state.forward_in, state.forward.SlotOf(k - 1, x), PassNumber::kForwardInput);
  }
  if (state.saved.Has(k, x)) {
    return row(state.saved_in, state.saved.SlotOf(k, x), PassNumber::kSaved);
  }
  return row(state.backward_in, state.backward.SlotOf(k, x), PassNumber::kBackwardInput);
}

}  // namespace gshard::pipeline
