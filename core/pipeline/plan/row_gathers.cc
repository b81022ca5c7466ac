#include "core/pipeline/plan/row_gathers.h"

#include <vector>

#include "core/pipeline/plan/phases.h"
#include "core/transforms/collective_groups.h"
#include "core/transforms/rewriter.h"
#include "ir/builder.h"

namespace gshard::pipeline {
namespace {

// [.., D * r, ..] as [.., D, 1, r, ..], or the whole [.., D * M * r, ..] as [.., D, M, r, ..].
std::vector<int64_t> ByMicrobatch(const Shape* shape, int64_t d, int64_t shards, int64_t count) {
  std::vector<int64_t> dims(shape->dims().begin(), shape->dims().end());
  dims[static_cast<size_t>(d)] = shards;
  dims.insert(dims.begin() + d + 1, {count, shape->dim(d) / shards / count});
  return dims;
}

// The sum that stands for the all-gather x.
Instruction* SumOfRows(Builder& b, const Instruction* x, int64_t shards) {
  const int64_t d = x->attributes<CollectiveAttributes>().dimension;
  Instruction* rows = x->operand(0);
  const int64_t count = x->shape()->dim(d) / rows->shape()->dim(d);
  const std::vector<int64_t> whole = ByMicrobatch(x->shape(), d, shards, count);
  std::vector<Instruction*> starts(whole.size(), b.ScalarInt(DType::kS32, 0));
  starts[static_cast<size_t>(d) + 1] = b.Convert(b.PartitionId(), DType::kS32);
  const DType type = x->shape()->dtype();
  Instruction* placed =
      b.DynamicUpdateSlice(b.Zero(b.context().Array(type, whole)),
                           b.Reshape(rows, ByMicrobatch(rows->shape(), d, shards, 1)), starts);
  const Opcode combiner = type == DType::kPred ? Opcode::kOr : Opcode::kAdd;
  return b.AllReduce(b.Reshape(placed, x->shape()->dims()), ReplicaGroups(),
                     b.BinaryComputation(combiner, type));
}

}  // namespace

void SumGatheredRows(Module& module, const BatchDims& batch, int64_t microbatches, int64_t shards) {
  const auto has_all_rows = [&](const Instruction* x) {
    const int64_t d = x->attributes<CollectiveAttributes>().dimension;
    const int64_t rows = x->operand(0)->shape()->dim(d);
    return rows % shards == 0 && x->shape()->dim(d) == rows * microbatches;
  };
  std::unordered_set<const Instruction*> gathers;
  for (const Instruction* x : module.entry()->instructions()) {
    if (IsPlainCollective(x, Opcode::kAllGather) && has_all_rows(x)) gathers.insert(x);
  }
  if (gathers.empty()) return;
  // With all of them ended, those that return are the ones that the micro-batch needs.
  const Phases phases(module, batch, {}, gathers);
  std::erase_if(gathers,
                [&](const Instruction* x) { return phases.PhaseOf(x) == Phase::kMicrobatch; });
  RewriteModule(module, [&](Instruction* x, Rewriter& rewriter) -> Instruction* {
    return gathers.contains(x) ? SumOfRows(rewriter.builder(), x, shards) : x;
  });
}

}  // namespace gshard::pipeline
