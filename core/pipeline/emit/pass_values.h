// What one pass of a stage computes, value by value.
//
// With --remat all a backward pass computes forward values of a layer for the layers above, and
// again for the layer's own gradients: from the layer's input, once a cotangent has come. So a
// value is an instruction and the layer for whose gradients it is computed. Example: a stage of
// layers 1 and 2. Layer 1's `h = tanh(d)` is computed as {h, -1}, which layer 2 reads, and as
// {h, 1}; layer 2's as {h, 2} only. Layer 2 reads {h, -1} as {h, 2} of layer 1's h: a layer input.
#ifndef GSHARD_CORE_PIPELINE_EMIT_PASS_VALUES_H_
#define GSHARD_CORE_PIPELINE_EMIT_PASS_VALUES_H_

#include <unordered_map>
#include <utility>
#include <vector>

#include "core/pipeline/emit/stages.h"
#include "ir/hash.h"

namespace gshard::pipeline {

// An instruction of the step, and the layer for whose gradients it is computed again; -1: of none.
using PassValue = std::pair<Instruction*, int64_t>;

struct HashOfPassValue {
  size_t operator()(const PassValue& value) const {
    return HashPointer(static_cast<size_t>(value.second), value.first);
  }
};

class PassValues {
 public:
  PassValues(const StageGraph& stages, Pass pass, int64_t v);

  // What the pass hands on and adds up of `x`.
  PassValue ResultOf(Instruction* x) const;
  std::vector<PassValue> OperandsOf(const PassValue& value) const;
  // Of the layer below, or examples: what is there already, tied to the cotangent (its two
  // operands).
  bool IsLayerInput(const PassValue& value) const;
  // Calls `make(value, operands)` for all that the result of `x` is computed from, operands first,
  // and for the result: each value for which `is_known(value)`, which is asked before, is false.
  template <typename IsKnown, typename Make>
  void ForEachBehind(Instruction* x, IsKnown is_known, Make make) const {
    struct Step {
      PassValue value;
      std::vector<PassValue> operands;
      size_t next = 0;
    };
    std::vector<Step> stack;
    const auto open = [&](const PassValue& value) {
      if (!is_known(value)) stack.push_back({value, OperandsOf(value)});
    };
    open(ResultOf(x));
    while (!stack.empty()) {
      Step& step = stack.back();
      if (step.next < step.operands.size()) {
        const PassValue operand = step.operands[step.next++];
        open(operand);
      } else {
        make(step.value, step.operands);
        stack.pop_back();
      }
    }
  }
  // All values of placed instructions that the pass computes, inputs excluded.
  std::vector<PassValue> Computed() const;

 private:
  void FindCotangents();
  bool IsRecomputable(const Instruction* x) const;

  const StageGraph& stages_;
  const LayerGraph& layers_;
  Pass pass_;
  int64_t v_;
  std::unordered_map<int64_t, Instruction*> cotangent_;  // by layer
};

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_EMIT_PASS_VALUES_H_
