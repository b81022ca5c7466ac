// scan: a loop over the scanned dim, differentiated as such.

#include "core/autodiff/combiners.h"
#include "core/autodiff/emit.h"
#include "core/autodiff/expansion.h"
#include "core/autodiff/reverse_scope.h"

namespace gshard {
namespace {

// x with `dimension` in front.
Instruction* ToFront(Builder& b, Instruction* x, int64_t dimension) {
  std::vector<int64_t> permutation = {dimension};
  for (int64_t d = 0; d < x->shape()->rank(); ++d) {
    if (d != dimension) permutation.push_back(d);
  }
  return b.Transpose(x, permutation);
}

Instruction* FromFront(Builder& b, Instruction* x, int64_t dimension) {
  std::vector<int64_t> permutation;
  for (int64_t d = 1; d < x->shape()->rank(); ++d) permutation.push_back(d);
  permutation.insert(permutation.begin() + dimension, 0);
  return b.Transpose(x, permutation);
}

Computation* CopyOf(Module& module, const Computation& original) {
  Computation* copy = module.AddComputation(original.name());
  std::unordered_map<const Instruction*, Instruction*> value;
  for (const Instruction* x : original.instructions()) {
    std::vector<Instruction*> operands;
    for (const Instruction* operand : x->operands()) operands.push_back(value.at(operand));
    value[x] = module.Clone(copy, x, operands, module.UniqueName(x->name()));
  }
  copy->set_root(value.at(original.root()));
  return copy;
}

}  // namespace

Expected<void> GradScan(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  const auto& scan = x->attributes<ScanAttributes>();
  const size_t carries = At(scan.num_carries);
  const size_t inputs = At(x->operand_count()) - carries;
  const std::vector<const Shape*> results = LeafShapes(x->shape());
  const size_t outputs = results.size() - carries;
  if (inputs == 0) return {};
  const int64_t length = x->operand(0)->shape()->dim(scan.dimension);
  return scope.DifferentiateExpansion(
      x, adjoints,
      [&](Builder& b, std::span<const std::vector<Instruction*>> operands)
          -> Expected<std::vector<Instruction*>> {
        // State: carries, outputs so far, inputs.
        std::vector<Instruction*> state;
        for (size_t k = 0; k < carries; ++k) state.push_back(operands[inputs + k][0]);
        for (size_t k = 0; k < outputs; ++k) {
          state.push_back(ToFront(b, b.Zero(results[k]->bare()), scan.dimension));
        }
        for (size_t k = 0; k < inputs; ++k) {
          state.push_back(ToFront(b, operands[k][0], scan.dimension));
        }
        auto body = [&](Builder& inside, Instruction* i,
                        std::span<Instruction* const> s) -> Expected<std::vector<Instruction*>> {
          Instruction* at = i;
          if (scan.is_reverse) {
            at = inside.Subtract(inside.ScalarInt(DType::kS32, length - 1), i);
          }
          std::vector<Instruction*> arguments;
          for (size_t k = 0; k < inputs; ++k) {
            arguments.push_back(ElementAt(inside, s[carries + outputs + k], at));
          }
          arguments.insert(arguments.end(), s.begin(),
                           s.begin() + static_cast<std::ptrdiff_t>(carries));
          Computation* called[] = {CopyOf(inside.module(), *x->called(0))};
          Instruction* result = inside.Add(Opcode::kCall, arguments, CallAttributes{},
                                           called[0]->root()->shape(), called);
          std::vector<Instruction*> leaves = LeafValues(inside, result);
          std::vector<Instruction*> next(leaves.begin() + static_cast<std::ptrdiff_t>(outputs),
                                         leaves.end());
          for (size_t k = 0; k < outputs; ++k) {
            next.push_back(WithElementAt(inside, s[carries + k], leaves[k], at));
          }
          next.insert(next.end(), s.begin() + static_cast<std::ptrdiff_t>(carries + outputs),
                      s.end());
          return next;
        };
        auto values = BuildLoop(b, length, state, body);
        if (!values) return values;
        std::vector<Instruction*> leaves;
        for (size_t k = 0; k < outputs; ++k) {
          leaves.push_back(FromFront(b, (*values)[carries + k], scan.dimension));
        }
        leaves.insert(leaves.end(), values->begin(),
                      values->begin() + static_cast<std::ptrdiff_t>(carries));
        return leaves;
      });
}

}  // namespace gshard
