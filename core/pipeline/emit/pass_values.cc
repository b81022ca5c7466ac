#include "core/pipeline/emit/pass_values.h"

#include <unordered_set>

namespace gshard::pipeline {

namespace {

// Where examples and the number of the micro-batch come from.
bool IsSource(const Instruction* x) {
  return x->opcode() == Opcode::kParameter || x->opcode() == Opcode::kPartitionId;
}

}  // namespace

PassValues::PassValues(const StageGraph& stages, Pass pass, int64_t v)
    : stages_(stages), layers_(stages.layers()), pass_(pass), v_(v) {
  if (stages.recomputes_layers() && pass == Pass::kBackward) FindCotangents();
}

// Of each layer of the stage a cotangent that enters it: what the layer computes again waits for
// it.
void PassValues::FindCotangents() {
  for (const Instruction* x : stages_.module().entry()->instructions()) {
    if (!layers_.IsBackward(x) || stages_.StageOf(x) != v_) continue;
    for (Instruction* operand : x->operands()) {
      if (!layers_.IsBackward(operand) || !operand->shape()->IsArray() ||
          layers_.LayerOf(operand) <= layers_.LayerOf(x)) {
        continue;
      }
      Instruction*& best = cotangent_[layers_.LayerOf(x)];
      const bool larger =
          best == nullptr || operand->shape()->byte_size() > best->shape()->byte_size();
      if (larger) best = operand;
    }
  }
}

// Made by the forward pass, or by the backward pass of forward values alone; or of examples alone.
bool PassValues::IsRecomputable(const Instruction* x) const {
  if (!layers_.IsPlaced(x)) {
    return stages_.phases().UsesExamples(x) && !stages_.phases().UsesWeights(x);
  }
  if (stages_.StageOf(x) > v_) return false;
  return !layers_.IsBackward(x) || layers_.LayerOf(x) < 0;
}

bool PassValues::IsLayerInput(const PassValue& value) const {
  auto [x, layer] = value;
  return layer >= 0 && (IsSource(x) || (layers_.LayerOf(x) >= 0 && layers_.LayerOf(x) != layer));
}

PassValue PassValues::ResultOf(Instruction* x) const {
  const int64_t layer = layers_.LayerOf(x);
  const bool again = pass_ == Pass::kBackward && cotangent_.count(layer) != 0 &&
                     IsRecomputable(x) && stages_.StageOf(x) == v_;
  return {x, again ? layer : -1};
}

std::vector<PassValue> PassValues::OperandsOf(const PassValue& value) const {
  auto [x, of] = value;
  if (IsLayerInput(value)) return {{x, -1}, {cotangent_.at(of), -1}};
  int64_t inside = of;
  const int64_t layer = layers_.LayerOf(x);
  if (of < 0 && layer >= 0 && layers_.IsBackward(x) && cotangent_.count(layer) != 0) {
    inside = layer;
  }
  std::vector<PassValue> operands;
  for (Instruction* operand : x->operands()) {
    operands.emplace_back(operand, inside >= 0 && IsRecomputable(operand) ? inside : -1);
  }
  return operands;
}

std::vector<PassValue> PassValues::Computed() const {
  std::vector<PassValue> open, found;
  for (Instruction* x : stages_.TargetsOf(pass_, v_)) open.push_back(ResultOf(x));
  std::unordered_set<PassValue, HashOfPassValue> seen;
  while (!open.empty()) {
    const PassValue value = open.back();
    open.pop_back();
    auto [x, layer] = value;
    const bool is_given = !layers_.IsPlaced(x) || (layer < 0 && stages_.IsInput(pass_, v_, x));
    if (is_given || !seen.insert(value).second) continue;
    if (!IsLayerInput(value)) found.push_back(value);
    for (const PassValue& operand : OperandsOf(value)) open.push_back(operand);
  }
  return found;
}

}  // namespace gshard::pipeline
