// Why a value has its sharding: the chain of causes from the recorder, back to the annotations.
#ifndef GSHARD_CORE_REPORT_SHARDING_HISTORY_H_
#define GSHARD_CORE_REPORT_SHARDING_HISTORY_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/explain/recorder.h"
#include "core/json.h"
#include "ir/module.h"

namespace gshard {

// One value (leaf of an instruction's result) at the moment it got a sharding.
struct ExplainStep {
  const Instruction* instruction = nullptr;
  int64_t leaf = 0;                    // 0 for arrays
  const Sharding* sharding = nullptr;  // of that leaf after the change; null: none
  const ShardingChange* change = nullptr;
  // Earlier steps this one follows from: what it came from, and what it was merged with.
  std::vector<size_t> causes;
};

// Steps of the present sharding of `leaf` of `x`, the present one first; empty if it never got one.
// Each step stands once, so the result is a graph of at most `limit` steps.
std::vector<ExplainStep> ExplainSharding(const ExplainRecorder& recorder, const Instruction* x,
                                         int64_t leaf = 0, size_t limit = 200);

// All leaves, as indented text with source lines, for a terminal; shardings by the axes of `mesh`
// (core/analysis/axis_text.h) if it is not null. Of several values one after the other; a step that
// an earlier history told is not told again.
std::string ShardingHistoryText(const ExplainRecorder& recorder, Module& module,
                                std::span<const Instruction* const> values, const Mesh* mesh);
// Adds the members of gshard.explain/1 that tell of `x` (docs/json.md).
void AddShardingHistory(Json& object, const ExplainRecorder& recorder, const Module& module,
                        const Instruction* x);

// "operand", "user", ..
const char* EdgeName(ShardingEdge edge);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_SHARDING_HISTORY_H_
