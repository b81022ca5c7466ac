#include "core/pipeline/second_pass.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/resize/example_dims.h"
#include "fmt/format.h"
#include "ir/dims.h"
#include "ir/op_traits.h"

namespace gshard::pipeline {
namespace {

// What is known of a value of the entry.
struct Origin {
  bool has_examples = false;             // a dim of it counts them
  bool follows_examples = false;         // it depends on them
  bool is_weight = false;                // of a weight alone, element by element
  const Instruction* changed = nullptr;  // the changed weight that it follows from
};

// A matrix at least: statistics over the batch, which have a value for each channel, change others.
bool IsMatrix(const Shape* shape) {
  return shape->IsArray() &&
         std::ranges::count_if(shape->dims(), [](int64_t size) { return size > 1; }) > 1;
}

class Origins {
 public:
  Origins(const Module& module, const BatchDims& batch, const ExampleDims& examples)
      : batch_(batch), examples_(examples), origin_(module.instruction_limit()) {}

  // Of an instruction behind its operands.
  const Origin& Find(const Instruction* x) {
    Origin& own = origin_[x->id()];
    own.has_examples = HasExamples(x);
    if (x->opcode() == Opcode::kParameter) {
      own.follows_examples = batch_.dimension.contains(x->attributes<ParameterAttributes>().number);
      own.is_weight = !own.follows_examples && IsMatrix(x->shape());
      return own;
    }
    const auto any = [&](const auto& holds) { return std::ranges::any_of(x->operands(), holds); };
    own.follows_examples = any([&](const Instruction* y) { return Of(y).follows_examples; });
    const bool meets_weight = IsElementwise(x->opcode()) && any([&](const Instruction* y) {
                                return Of(y).is_weight && SameDims(y->shape(), x->shape());
                              });
    own.is_weight = meets_weight && !own.follows_examples;
    for (const Instruction* operand : x->operands()) {
      if (own.changed == nullptr) own.changed = Of(operand).changed;
    }
    const bool changes = meets_weight && own.follows_examples && !own.has_examples;
    if (own.changed == nullptr && changes) own.changed = x;
    return own;
  }

 private:
  const Origin& Of(const Instruction* x) const { return origin_[x->id()]; }

  bool HasExamples(const Instruction* x) const {
    int64_t leaf = 0;
    for (const Shape* shape : LeafShapes(x->shape())) {
      for (int64_t d = 0; shape->IsArray() && d < shape->rank(); ++d) {
        if (examples_.Of(*x, leaf, d).count > 0) return true;
      }
      ++leaf;
    }
    return false;
  }

  const BatchDims& batch_;
  const ExampleDims& examples_;
  std::vector<Origin> origin_;  // by id
};

}  // namespace

std::optional<Diagnostic> FindSecondPass(const Module& module, const BatchDims& batch) {
  const Expected<ExampleDims> examples = ExampleDims::Find(module, batch.dimension);
  if (!examples) return std::nullopt;
  Origins origins(module, batch, *examples);
  for (const Instruction* x : module.entry()->instructions()) {
    const Origin& own = origins.Find(x);
    const bool meets = own.changed != nullptr && own.changed != x && own.has_examples &&
                       x->opcode() != Opcode::kTuple;
    if (!meets) continue;
    Diagnostic error = module.ErrorAt(
        own.changed, "E-PIPELINE-003",
        fmt::format(
            "'{}' changes a weight by a sum over the examples, which '{}' ({}) takes through "
            "it again: these are two passes over the batch, one after the other, and a "
            "pipeline is one",
            own.changed->name(), x->name(), OpcodeName(x->opcode())));
    error.hint =
        "make two steps of it: one that returns the changed weights, and one that takes them";
    return error;
  }
  return std::nullopt;
}

}  // namespace gshard::pipeline
