#include "core/pipeline/plan/phases.h"

#include "core/analysis/combiner.h"

namespace gshard::pipeline {
namespace {

bool CallsPartitionId(const Instruction* x) {
  for (const Computation* called : x->called()) {
    for (const Instruction* y : called->instructions()) {
      if (y->opcode() == Opcode::kPartitionId || CallsPartitionId(y)) return true;
    }
  }
  return false;
}

bool HasIntegersOnly(const Shape* shape) {
  return shape->IsArray() && (IsInteger(shape->dtype()) || shape->dtype() == DType::kPred);
}

}  // namespace

Phases::Phases(const Module& module, const BatchDims& batch,
               const std::unordered_set<const Instruction*>& entering,
               const std::unordered_set<const Instruction*>& whole)
    : info_(module.instruction_limit()) {
  const Computation& entry = *module.entry();
  for (const Instruction* x : entry.instructions()) {
    Info& info = Of(x);
    if (x->opcode() == Opcode::kParameter) {
      bool data = batch.dimension.count(x->attributes<ParameterAttributes>().number) != 0;
      info.varies = info.examples = data;
      info.weights = !data;
      info.learned = !data && !HasIntegersOnly(x->shape());
      continue;
    }
    if (entering.count(x) != 0) {
      info.is_entering = info.weights = info.learned = info.varies = info.examples = true;
    }
    if (x->opcode() == Opcode::kPartitionId || CallsPartitionId(x)) {
      info.varies = info.examples = true;
    }
    for (const Instruction* operand : x->operands()) {
      const Info& from = Of(operand);
      info.varies = info.varies || from.varies;
      info.weights = info.weights || from.weights;
      info.learned = info.learned || from.learned;
      info.examples = info.examples || from.examples;
    }
    if (x->opcode() != Opcode::kAllReduce && !whole.contains(x)) continue;
    info.varies = false;
    // Of examples alone: the whole batch's, an input of the micro-batches like the weights.
    if (!info.learned) info.weights = true, info.examples = false;
  }
  FindPhases(entry);
  FindAccumulated(entry);
}

bool Phases::IsSum(const Instruction* x) {
  return x->opcode() == Opcode::kAllReduce && CombinerOf(x->called(0)) == Opcode::kAdd;
}

void Phases::FindPhases(const Computation& entry) {
  const Instruction* root = entry.root();
  std::span<Instruction* const> list = entry.instructions();
  for (size_t i = list.size(); i-- > 0;) {
    const Instruction* x = list[i];
    bool returns = Of(x).varies || Of(x).returns;
    if (x == root && x->opcode() == Opcode::kTuple) returns = false;
    if (!returns) continue;
    for (const Instruction* operand : x->operands()) Of(operand).returns = true;
  }
  for (const Instruction* x : list) {
    Info& info = Of(x);
    info.phase = !info.examples                ? Phase::kBefore
                 : info.varies || info.returns ? Phase::kMicrobatch
                                               : Phase::kAfter;
    if (x == root && x->opcode() == Opcode::kTuple) info.phase = Phase::kAfter;
    if (info.phase != Phase::kAfter || x->opcode() == Opcode::kAllReduce || x == root) continue;
    // What joins a value of the micro-batch's with another that depends on examples is the
    // micro-batch's, too: the mean of products is no product of means.
    // What takes a tuple of the micro-batch's is, too: the pipeline hands on arrays.
    int own = 0, dependent = 0;
    bool takes_tuple = false;
    for (const Instruction* operand : x->operands()) {
      const Info& from = Of(operand);
      const bool is_own = from.phase == Phase::kMicrobatch;
      own += is_own;
      dependent += from.examples;
      takes_tuple = takes_tuple || (is_own && operand->shape()->IsTuple());
    }
    if (takes_tuple || (own > 0 && dependent > 1)) info.phase = Phase::kMicrobatch;
  }
}

void Phases::FindAccumulated(const Computation& entry) {
  std::unordered_set<const Instruction*> seen;
  auto add = [&](Instruction* x) {
    if (PhaseOf(x) == Phase::kBefore || !seen.insert(x).second) return;
    if (x->opcode() == Opcode::kAllReduce) {
      Accumulated sum{x, x->operand(0), Accumulated::How::kSum, Opcode::kAdd};
      sum.combiner = *CombinerOf(x->called(0));
      if (sum.combiner != Opcode::kAdd) sum.how = Accumulated::How::kExtreme;
      accumulated_.push_back(sum);
    } else if (PhaseOf(x) == Phase::kMicrobatch && !Varies(x)) {
      // Predicates and integers have no mean: what one micro-batch finds true is.
      const bool has_mean = IsFloat(x->shape()->dtype()) || IsComplex(x->shape()->dtype());
      const auto how = has_mean ? Accumulated::How::kMean : Accumulated::How::kExtreme;
      accumulated_.push_back({x, x, how, has_mean ? Opcode::kAdd : Opcode::kMaximum});
    }
  };
  for (Instruction* x : entry.instructions()) {
    if (PhaseOf(x) != Phase::kAfter || x->opcode() == Opcode::kAllReduce) continue;
    for (Instruction* operand : x->operands()) add(operand);
  }
  if (entry.root()->opcode() != Opcode::kTuple) add(entry.root());
}

}  // namespace gshard::pipeline
