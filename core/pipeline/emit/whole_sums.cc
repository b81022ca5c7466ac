#include "core/pipeline/emit/whole_sums.h"

#include <algorithm>

#include "core/analysis/combiner.h"
#include "core/pipeline/plan/clone.h"

namespace gshard::pipeline {
namespace {

// The instructions behind `from`, operands first, and among them what comes from outside.
struct Behind {
  std::vector<Instruction*> inside, outside;
};

Behind BehindOf(Instruction* from, const WholeSumInputs& in) {
  Behind behind;
  std::unordered_set<const Instruction*> seen;
  std::vector<std::pair<Instruction*, int64_t>> stack = {{from, 0}};
  while (!stack.empty()) {
    auto& [x, next] = stack.back();
    if (next == 0 && !seen.insert(x).second) {
      stack.pop_back();
      continue;
    }
    const bool given = x->opcode() == Opcode::kParameter || (*in.value)[x->id()] != nullptr;
    if (given || next == x->operand_count()) {
      (given ? behind.outside : behind.inside).push_back(x);
      stack.pop_back();
      continue;
    }
    Instruction* operand = x->operand(next++);
    stack.emplace_back(operand, 0);
  }
  return behind;
}

}  // namespace

Instruction* MicrobatchRows(Builder& b, Instruction* whole, const DataForm& form, int64_t count,
                            Instruction* index) {
  std::vector<int64_t> dims(whole->shape()->dims().begin(), whole->shape()->dims().end());
  size_t d = static_cast<size_t>(form.dimension);
  int64_t rows = dims[d] / form.shards / count;
  std::vector<int64_t> result = dims;
  result[d] = dims[d] / count;
  dims[d] = form.shards;
  dims.insert(dims.begin() + form.dimension + 1, {count, rows});
  Instruction* split = b.Reshape(whole, dims);
  std::vector<Instruction*> starts(dims.size(), b.ScalarInt(DType::kS32, 0));
  starts[d + 1] = index;
  dims[d + 1] = 1;
  return b.Reshape(b.DynamicSlice(split, starts, dims), result);
}

Instruction* EmitWholeSum(Builder& b, const WholeSumInputs& in, Instruction* sum) {
  Behind behind = BehindOf(sum->operand(0), in);
  const Opcode combiner = *CombinerOf(sum->called(0));
  Instruction* first = IdentityArray(b, sum->shape()->bare(), combiner);
  std::vector<Instruction*> inits = {b.ScalarInt(DType::kS32, 0), first};
  for (Instruction* x : behind.outside) inits.push_back((*in.value)[x->id()]);
  Instruction* init = b.Tuple(inits);

  Computation* body = in.module->AddComputation("sum_of_microbatches");
  Builder inner(*in.module, body);
  Instruction* state = inner.Parameter(0, init->shape(), "state");
  std::vector<Instruction*> next;
  for (int64_t i = 0; i < init->operand_count(); ++i) {
    next.push_back(inner.GetTupleElement(state, i));
  }
  std::unordered_map<const Instruction*, Instruction*> local;
  for (size_t i = 0; i < behind.outside.size(); ++i) {
    Instruction* x = behind.outside[i];
    auto data = in.data.find(x);
    local[x] = data == in.data.end()
                   ? next[i + 2]
                   : MicrobatchRows(inner, next[i + 2], data->second, in.microbatches, next[0]);
  }
  for (Instruction* x : behind.inside) {
    if (x->opcode() == Opcode::kPartitionId) {
      local[x] = inner.Convert(next[0], DType::kU32);
      continue;
    }
    std::vector<Instruction*> operands;
    for (Instruction* operand : x->operands()) {
      operands.push_back(in.borders->OperandOf(inner, x, operand, local.at(operand)));
    }
    local[x] = CloneInto(*in.module, body, x, operands, /*take_name=*/false);
    SeparateCalled(*in.module, local[x]);  // the micro-batches run it in their manual region
    const Sharding* s = in.annotation(x);
    local[x]->set_sharding(s == nullptr ? nullptr : in.borders->Here(x->shape(), s));
  }
  next[1] = inner.Binary(combiner, next[1], local.at(sum->operand(0)));
  next[0] = inner.Add(next[0], inner.ScalarInt(DType::kS32, 1));
  body->set_root(inner.Tuple(next));

  Computation* condition = in.module->AddComputation("microbatches_left");
  Builder test(*in.module, condition);
  Instruction* counted = test.Parameter(0, init->shape(), "state");
  condition->set_root(test.Compare(ComparisonDirection::kLt, test.GetTupleElement(counted, 0),
                                   test.ScalarInt(DType::kS32, in.microbatches)));
  Computation* const called[] = {condition, body};
  Instruction* const operands[] = {init};
  Instruction* loop =
      b.Add(Opcode::kWhile, operands, NoAttributes{}, init->shape(), called, "whole_batch");
  return b.GetTupleElement(loop, 1);
}

}  // namespace gshard::pipeline
