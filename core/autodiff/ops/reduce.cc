// reduce: sums spread the adjoint, extrema give it to the elements that are as large, products
// multiply it with the others.
//
//   y = reduce(x, 0), add        x += broadcast(c)
//   y = reduce(x, -inf), maximum x += (x == y) * c / (how many are)     JAX shares evenly
//
// Other reducers are loops over the elements in order, differentiated as such.

#include <algorithm>

#include "core/autodiff/combiners.h"
#include "core/autodiff/emit.h"
#include "core/autodiff/expansion.h"
#include "core/autodiff/reverse_scope.h"

namespace gshard {
namespace {

void GradSum(Instruction* x, Instruction* c, ReverseScope& scope) {
  const Emit e(scope.builder());
  Dims dimensions = x->attributes<DimensionsAttributes>().dimensions;
  if (scope.Wants(x->operand(0))) {
    scope.Add(x->operand(0), e.Spread(c, x->operand(0)->shape()->dims(), dimensions));
  }
  if (scope.Wants(x->operand(1))) scope.Add(x->operand(1), e.SumAll(c));
}

void GradExtremum(Instruction* x, Instruction* c, ReverseScope& scope, Opcode combiner) {
  Builder& b = scope.builder();
  const Emit e(b);
  Dims dimensions = x->attributes<DimensionsAttributes>().dimensions;
  Instruction* operand = x->operand(0);
  Dims dims = operand->shape()->dims();
  Instruction* y = scope.Value(x);
  const DType dtype = y->shape()->dtype();
  Instruction* best =
      b.Convert(e.Equal(scope.Value(operand), e.Spread(y, dims, dimensions)), dtype);
  Instruction* count = e.Sum(best, dimensions);
  // The initial value is one more element, unless it can only be smaller.
  Instruction* init_best = nullptr;
  if (!IsIdentityOf(x->operand(1), combiner)) {
    init_best = b.Convert(
        e.Equal(b.BroadcastScalar(scope.Value(x->operand(1)), y->shape()->dims()), y), dtype);
    count = e.Add(count, init_best);
  }
  Instruction* share = e.Div(c, count);
  if (scope.Wants(operand)) scope.Add(operand, e.Mul(best, e.Spread(share, dims, dimensions)));
  if (init_best != nullptr && scope.Wants(x->operand(1))) {
    scope.Add(x->operand(1), e.SumAll(e.Mul(init_best, share)));
  }
}

// The product of the others: y / x without zeros; with one zero, only it has a derivative.
void GradProduct(Instruction* x, Instruction* c, ReverseScope& scope) {
  Builder& b = scope.builder();
  const Emit e(b);
  Dims dimensions = x->attributes<DimensionsAttributes>().dimensions;
  Instruction* operand = x->operand(0);
  Dims dims = operand->shape()->dims();
  Instruction* value = scope.Value(operand);
  const DType dtype = value->shape()->dtype();
  Instruction* is_zero = e.Equal(value, e.Like(value, 0));
  Instruction* zeros = e.Sum(b.Convert(is_zero, DType::kF32), dimensions);
  Instruction* nonzero = b.Select(is_zero, e.Like(value, 1), value);
  Instruction* init = scope.Value(x->operand(1));
  Instruction* product =
      b.Reduce(nonzero, init, dimensions, b.BinaryComputation(Opcode::kMultiply, dtype));
  Instruction* scaled = e.Mul(c, product);
  Instruction* none = e.Where(e.Equal(zeros, e.Like(zeros, 0)), scaled);
  Instruction* one = e.Where(e.Equal(zeros, e.Like(zeros, 1)), scaled);
  if (scope.Wants(operand)) {
    scope.Add(operand, b.Select(is_zero, e.Spread(one, dims, dimensions),
                                e.Div(e.Spread(none, dims, dimensions), nonzero)));
  }
  if (scope.Wants(x->operand(1))) {
    Instruction* all = b.Reduce(value, b.Scalar(dtype, 1), dimensions,
                                b.BinaryComputation(Opcode::kMultiply, dtype));
    scope.Add(x->operand(1), e.SumAll(e.Mul(c, all)));
  }
}

// for (i = 0; i < n; ++i) accumulators = f(accumulators, elements i), on whole arrays.
Expected<void> GradFold(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  const size_t count = At(x->operand_count() / 2);
  Dims reduced = x->attributes<DimensionsAttributes>().dimensions;
  const Shape* shape = x->operand(0)->shape();
  std::vector<int64_t> permutation, result_dims, sorted(reduced.begin(), reduced.end());
  std::ranges::sort(sorted);
  int64_t length = 1;
  for (int64_t d : sorted) {
    permutation.push_back(d);
    length *= shape->dim(d);
  }
  for (int64_t d = 0; d < shape->rank(); ++d) {
    if (Contains(reduced, d)) continue;
    permutation.push_back(d);
    result_dims.push_back(shape->dim(d));
  }
  return scope.DifferentiateExpansion(
      x, adjoints,
      [&](Builder& b, std::span<const std::vector<Instruction*>> operands)
          -> Expected<std::vector<Instruction*>> {
        std::vector<int64_t> line = {length};
        line.insert(line.end(), result_dims.begin(), result_dims.end());
        std::vector<Instruction*> state;
        for (size_t k = 0; k < count; ++k) {
          state.push_back(b.BroadcastScalar(operands[count + k][0], result_dims));
        }
        for (size_t k = 0; k < count; ++k) {
          state.push_back(b.Reshape(b.Transpose(operands[k][0], permutation), line));
        }
        auto body = [&](Builder& inside, Instruction* i,
                        std::span<Instruction* const> s) -> Expected<std::vector<Instruction*>> {
          std::vector<Instruction*> arguments(s.begin(),
                                              s.begin() + static_cast<std::ptrdiff_t>(count));
          for (size_t k = 0; k < count; ++k) {
            arguments.push_back(ElementAt(inside, s[count + k], i));
          }
          auto next = LiftComputation(inside, *x->called(0), arguments);
          if (!next) return next;
          next->insert(next->end(), s.begin() + static_cast<std::ptrdiff_t>(count), s.end());
          return next;
        };
        auto results = BuildLoop(b, length, state, body);
        if (results) results->resize(count);
        return results;
      });
}

}  // namespace

Expected<void> GradReduce(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  if (x->operand_count() == 2) {
    const std::optional<Opcode> combiner = ReductionOf(*x->called(0));
    if (combiner == Opcode::kAdd) return GradSum(x, adjoints[0], scope), Expected<void>();
    if (combiner == Opcode::kMultiply) return GradProduct(x, adjoints[0], scope), Expected<void>();
    if (combiner == Opcode::kMaximum || combiner == Opcode::kMinimum) {
      return GradExtremum(x, adjoints[0], scope, *combiner), Expected<void>();
    }
  }
  return GradFold(x, adjoints, scope);
}

}  // namespace gshard
