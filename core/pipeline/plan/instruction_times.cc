#include "core/pipeline/plan/instruction_times.h"

#include <algorithm>
#include <memory>
#include <unordered_set>
#include <vector>

#include "core/analysis/kernels/aliases.h"
#include "core/analysis/trip_count.h"
#include "core/cost/kernel_time.h"
#include "core/transforms/expand/unrolled_random_bits.h"
#include "core/transforms/while_loop_simplifier.h"
#include "ir/builder.h"
#include "ir/op_traits.h"

namespace gshard::pipeline {
namespace {

FusionOptions OptionsFor(const Chip& chip, const ModuleAttention& attention) {
  FusionOptions options = FusionOptionsOf(chip);
  options.attention = &attention;
  return options;
}

using Instructions = std::vector<const Instruction*>;

bool IsElementOfLoop(const Instruction* x) {
  return x->opcode() == Opcode::kGetTupleElement && x->operand(0)->opcode() == Opcode::kWhile;
}

// What the forward pass needs, and its loops of which it does not need all.
struct ForwardProgram {
  Instructions results;  // arrays
  Instructions loops;
};
ForwardProgram ForwardProgramOf(const Module& module,
                                const std::function<bool(const Instruction*)>& is_forward,
                                const std::function<bool(const Instruction*)>& is_target) {
  const Users users(*module.entry());
  ForwardProgram program;
  std::unordered_set<const Instruction*> partly;
  for (const Instruction* x : module.entry()->instructions()) {
    if (!is_forward(x)) continue;
    if (!IsElementOfLoop(x)) {
      if (x->shape()->IsArray()) program.results.push_back(x);
      continue;
    }
    if (is_target(x)) {
      program.results.push_back(x);
    } else if (!std::ranges::any_of(users.of(x), is_forward)) {
      if (partly.insert(x->operand(0)).second) program.loops.push_back(x->operand(0));
    }
  }
  return program;
}

}  // namespace

InstructionTimes::InstructionTimes(const Module& module, const Chip& chip)
    : chip_(chip),
      users_(module),
      attention_(module, users_, MaskedOnOf(chip)),
      fusion_(*module.entry(), users_, OptionsFor(chip, attention_)) {}

double InstructionTimes::SecondsOf(const Instruction* x, const FusionModel& fusion) const {
  switch (x->opcode()) {
    case Opcode::kWhile:
      if (MakesRandomBits(x)) return 0;  // the kernels that use them do
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

std::unordered_map<const Instruction*, double> SecondsOfForwardLoops(
    const Module& module, const std::function<bool(const Instruction*)>& is_forward,
    const std::function<bool(const Instruction*)>& is_target, const Chip& chip) {
  const ForwardProgram program = ForwardProgramOf(module, is_forward, is_target);
  if (program.loops.empty()) return {};
  const std::unique_ptr<Module> alone = module.Clone();
  std::vector<Instruction*> by_id(alone->instruction_limit());  // ids are those of `module`
  for (Instruction* x : alone->entry()->instructions()) by_id[x->id()] = x;
  std::vector<Instruction*> results;
  for (const Instruction* x : program.results) results.push_back(by_id[x->id()]);
  alone->entry()->set_root(Builder(*alone, alone->entry()).Tuple(results));
  RemoveDeadLoopState(*alone);
  const InstructionTimes times(*alone, chip);
  const std::unordered_set<const Instruction*> left(alone->entry()->instructions().begin(),
                                                    alone->entry()->instructions().end());
  std::unordered_map<const Instruction*, double> seconds;
  for (const Instruction* loop : program.loops) {
    const Instruction* own = by_id[loop->id()];
    seconds[loop] = left.contains(own) ? times.Of(own) : 0;
  }
  return seconds;
}

}  // namespace gshard::pipeline
