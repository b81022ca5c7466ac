#include "core/pipeline/plan/instruction_times.h"

#include <algorithm>

#include "core/analysis/kernels/aliases.h"
#include "core/analysis/trip_count.h"
#include "core/cost/kernel_time.h"
#include "ir/op_traits.h"

namespace gshard::pipeline {
namespace {

FusionOptions OptionsFor(const Chip& chip, const ModuleAttention& attention) {
  FusionOptions options = FusionOptionsOf(chip);
  options.attention = &attention;
  return options;
}

}  // namespace

InstructionTimes::InstructionTimes(const Module& module, const Chip& chip)
    : chip_(chip),
      users_(module),
      attention_(module, users_, ModuleAttention::MaskedShares::kFound),
      fusion_(*module.entry(), users_, OptionsFor(chip, attention_)) {}

double InstructionTimes::SecondsOf(const Instruction* x, const FusionModel& fusion) const {
  switch (x->opcode()) {
    case Opcode::kWhile:
      return SecondsOf(*x->called(1)) * static_cast<double>(TripCount(*x).value_or(1));
    case Opcode::kCall:
      return SecondsOf(*x->called(0));
    case Opcode::kConditional: {
      double longest = 0;
      for (const Computation* branch : x->called()) longest = std::max(longest, SecondsOf(*branch));
      return longest;
    }
    default:  // by its kernel, below
      break;
  }
  const FusionKernel* kernel = fusion.KernelOf(x);
  if (kernel == nullptr || kernel->root != x) return 0;
  return KernelSeconds(WorkOf(fusion, *kernel), chip_);
}

bool InstructionTimes::IsWrittenByProduct(const Instruction* x) const {
  if (!FusionOptionsOf(chip_).for_tpu) return false;
  const int64_t elements = x->shape()->IsArray() ? x->shape()->element_count() : 0;
  std::vector<const Instruction*> chain = {x};
  for (size_t i = 0; i < chain.size(); ++i) {
    const Opcode opcode = chain[i]->opcode();
    const FusionKernel* kernel = fusion_.KernelOf(chain[i]);
    if (kernel != nullptr && kernel->attention >= 0) return false;
    if (IsProduct(opcode)) return true;
    if (!IsElementwise(opcode) && !IsAlias(chain[i], fusion_.is_compiled())) continue;
    for (const Instruction* operand : chain[i]->operands()) {
      if (operand->shape()->element_count() != elements || users_.of(operand).size() != 1) continue;
      chain.push_back(operand);
    }
  }
  return false;
}

double InstructionTimes::SecondsOf(const Computation& computation) const {
  const FusionModel fusion(computation, users_, OptionsFor(chip_, attention_));
  double seconds = 0;
  for (const Instruction* x : computation.instructions()) seconds += SecondsOf(x, fusion);
  return seconds;
}

}  // namespace gshard::pipeline
