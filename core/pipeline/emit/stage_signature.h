// Which stages compute the same, told before their computations are made: of a hundred alike stages
// one computation is made.
#ifndef GSHARD_CORE_PIPELINE_EMIT_STAGE_SIGNATURE_H_
#define GSHARD_CORE_PIPELINE_EMIT_STAGE_SIGNATURE_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "core/pipeline/emit/stages.h"

namespace gshard::pipeline {

struct StageFunctionInputs;

// Numbers for instructions: equal ones do the same with their operands.
class OperationClasses {
 public:
  int64_t Of(const Instruction* x);

 private:
  std::vector<int32_t> known_;  // by id; 0: not yet asked for
  std::unordered_map<size_t, std::vector<const Instruction*>> by_hash_;
};

class StageSignatures {
 public:
  // `inputs` as MakeStageFunction takes them, and must live as long as this.
  explicit StageSignatures(const StageFunctionInputs& inputs) : in_(inputs) {}

  // All that MakeStageFunction(inputs, pass, v) depends on but for names and notes: equal ones make
  // equal computations. Empty where that is not known: in manual regions.
  std::vector<int64_t> Of(Pass pass, int64_t v);

 private:
  class Writer;

  const StageFunctionInputs& in_;
  OperationClasses classes_;
};

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_EMIT_STAGE_SIGNATURE_H_
