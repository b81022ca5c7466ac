// reduce-window: sums go back through the window seen from the other side, extrema of whole windows
// are select-and-scatter (the first of equals takes all); everything else is a loop over the
// positions in the window. select-and-scatter: a gather at the selected positions.
//
//   y = reduce-window(x, 0), window={size=3 stride=2}, add
//   x += reduce-window(c, 0), window={size=3 pad=2_2 lhs_dilate=2}, add

#include <algorithm>

#include "core/autodiff/combiners.h"
#include "core/autodiff/emit.h"
#include "core/autodiff/expansion.h"
#include "core/autodiff/reverse_scope.h"
#include "ir/convolution_gradients.h"

namespace gshard {
namespace {

void GradWindowSum(Instruction* x, Instruction* c, ReverseScope& scope) {
  Builder& b = scope.builder();
  const Emit e(b);
  const Shape* shape = x->operand(0)->shape();
  std::vector<WindowDim> window;
  const auto& forward = x->attributes<WindowAttributes>().window;
  for (size_t d = 0; d < forward.size(); ++d) {
    window.push_back(TowardsBase(forward[d], shape->dims()[d], x->shape()->dims()[d]));
    window.back().reversal = false;
  }
  const DType dtype = shape->dtype();
  Instruction* operands[] = {c, b.Scalar(dtype, 0)};
  Computation* add[] = {b.BinaryComputation(Opcode::kAdd, dtype)};
  Instruction* back = b.Add(Opcode::kReduceWindow, operands,
                            WindowAttributes{scope.module().arena().Copy(window)}, nullptr, add);
  if (scope.Wants(x->operand(0))) scope.Add(x->operand(0), back);
  if (scope.Wants(x->operand(1))) scope.Add(x->operand(1), e.SumAll(c));
}

bool IsUndilated(std::span<const WindowDim> window) {
  return std::ranges::all_of(window, [](const WindowDim& dim) {
    return dim.base_dilation == 1 && dim.window_dilation == 1 && dim.pad_low >= 0 &&
           dim.pad_high >= 0 && dim.pad_low < dim.size && dim.pad_high < dim.size && !dim.reversal;
  });
}

Computation* Selector(Module& module, DType dtype, ComparisonDirection direction) {
  Computation* select =
      module.AddComputation(direction == ComparisonDirection::kGe ? "select_ge" : "select_le");
  Builder body(module, select);
  const Shape* scalar = module.context().Scalar(dtype);
  Instruction* a = body.Parameter(0, scalar, "a");
  Instruction* b = body.Parameter(1, scalar, "b");
  select->set_root(body.Compare(direction, a, b));
  return select;
}

void GradWindowExtremum(Instruction* x, Instruction* c, ReverseScope& scope, Opcode combiner) {
  Builder& b = scope.builder();
  const DType dtype = x->shape()->dtype();
  Instruction* operands[] = {scope.Value(x->operand(0)), c, b.Scalar(dtype, 0)};
  Computation* called[] = {
      Selector(scope.module(), dtype,
               combiner == Opcode::kMaximum ? ComparisonDirection::kGe : ComparisonDirection::kLe),
      b.BinaryComputation(Opcode::kAdd, dtype)};
  scope.Add(x->operand(0), b.Add(Opcode::kSelectAndScatter, operands,
                                 x->attributes<WindowAttributes>(), nullptr, called));
}

bool HasGaps(std::span<const WindowDim> window) {
  return std::ranges::any_of(window, [](const WindowDim& dim) {
    return dim.pad_low > 0 || dim.pad_high > 0 || dim.base_dilation > 1;
  });
}

// for every position in the window, row-major: accumulators = f(accumulators, elements there).
// Padding and holes are skipped.
Expected<void> GradWindowFold(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  const size_t count = At(x->operand_count() / 2);
  const std::span<const WindowDim> window = x->attributes<WindowAttributes>().window;
  std::vector<const Shape*> leaves = LeafShapes(x->shape());
  Dims result = leaves[0]->dims();
  int64_t positions = 1;
  for (const WindowDim& dim : window) positions *= dim.size;
  if (positions == 0) return {};
  return scope.DifferentiateExpansion(
      x, adjoints,
      [&](Builder& b, std::span<const std::vector<Instruction*>> operands)
          -> Expected<std::vector<Instruction*>> {
        std::vector<PadDim> padding;
        std::vector<int64_t> sizes, strides;
        for (size_t d = 0; d < window.size(); ++d) {
          padding.push_back({window[d].pad_low, window[d].pad_high, window[d].base_dilation - 1});
          sizes.push_back(DilatedSize(result[d], window[d].stride));
          strides.push_back(window[d].stride);
        }
        std::vector<Instruction*> state;
        for (size_t k = 0; k < count; ++k) {
          state.push_back(b.BroadcastScalar(operands[count + k][0], result));
        }
        for (size_t k = 0; k < count; ++k) {
          state.push_back(b.Pad(operands[k][0], operands[count + k][0], padding));
        }
        if (HasGaps(window)) {
          Instruction* inside =
              b.BroadcastScalar(b.Scalar(DType::kPred, 1), x->operand(0)->shape()->dims());
          state.push_back(b.Pad(inside, b.Scalar(DType::kPred, 0), padding));
        }
        auto body = [&](Builder& inside, Instruction* i,
                        std::span<Instruction* const> s) -> Expected<std::vector<Instruction*>> {
          std::vector<Instruction*> starts(window.size());
          Instruction* rest = i;
          for (size_t d = window.size(); d-- > 0;) {
            Instruction* size = inside.ScalarInt(DType::kS32, window[d].size);
            Instruction* at = inside.Binary(Opcode::kRemainder, rest, size);
            rest = inside.Binary(Opcode::kDivide, rest, size);
            starts[d] =
                inside.Multiply(at, inside.ScalarInt(DType::kS32, window[d].window_dilation));
          }
          std::vector<Instruction*> arguments(s.begin(),
                                              s.begin() + static_cast<std::ptrdiff_t>(count));
          const std::vector<int64_t> zeros(window.size(), 0);
          auto elements = [&](Instruction* of) {
            return inside.Slice(inside.DynamicSlice(of, starts, sizes), zeros, sizes, strides);
          };
          for (size_t k = 0; k < count; ++k) arguments.push_back(elements(s[count + k]));
          auto next = LiftComputation(inside, *x->called(0), arguments);
          if (!next) return next;
          if (HasGaps(window)) {
            Instruction* counts = elements(s[2 * count]);
            for (size_t k = 0; k < count; ++k) {
              (*next)[k] = inside.Select(counts, (*next)[k], s[k]);
            }
          }
          next->insert(next->end(), s.begin() + static_cast<std::ptrdiff_t>(count), s.end());
          return next;
        };
        auto results = BuildLoop(b, positions, state, body);
        if (results) results->resize(count);
        return results;
      });
}

// Of two candidates (value, index) the selected one; index -1 is none.
Expected<Computation*> IndexedSelector(Module& module, const Computation& select, DType dtype) {
  Computation* reducer = module.AddComputation("select_position");
  Builder b(module, reducer);
  const Shape* value = module.context().Scalar(dtype);
  const Shape* index = module.context().Scalar(DType::kS32);
  Instruction* a = b.Parameter(0, value, "a");
  Instruction* at_a = b.Parameter(1, index, "at_a");
  Instruction* c = b.Parameter(2, value, "b");
  Instruction* at_c = b.Parameter(3, index, "at_b");
  Instruction* arguments[] = {a, c};
  Expected<std::vector<Instruction*>> keeps = LiftComputation(b, select, arguments);
  if (!keeps) return Fail(std::move(keeps.error()));
  Instruction* zero = b.ScalarInt(DType::kS32, 0);
  Instruction* first = b.Compare(ComparisonDirection::kGe, at_a, zero);
  Instruction* second = b.Compare(ComparisonDirection::kLt, at_c, zero);
  Instruction* chosen = b.Binary(Opcode::kOr, second, b.And(first, (*keeps)[0]));
  Instruction* root[] = {b.Select(chosen, a, c), b.Select(chosen, at_a, at_c)};
  reducer->set_root(b.Tuple(root));
  return reducer;
}

}  // namespace

Expected<void> GradReduceWindow(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  if (x->operand_count() == 2) {
    const std::optional<Opcode> combiner = ReductionOf(*x->called(0));
    const std::span<const WindowDim> window = x->attributes<WindowAttributes>().window;
    if (combiner == Opcode::kAdd) return GradWindowSum(x, adjoints[0], scope), Expected<void>();
    const bool is_extremum = combiner == Opcode::kMaximum || combiner == Opcode::kMinimum;
    if (is_extremum && IsUndilated(window) && IsIdentityOf(x->operand(1), *combiner)) {
      return GradWindowExtremum(x, adjoints[0], scope, *combiner), Expected<void>();
    }
  }
  return GradWindowFold(x, adjoints, scope);
}

// Positions by a reduce-window over (value, index), then a scatter of the source.
Expected<void> GradSelectAndScatter(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  return scope.DifferentiateExpansion(
      x, adjoints,
      [&](Builder& b, std::span<const std::vector<Instruction*>> operands)
          -> Expected<std::vector<Instruction*>> {
        const Shape* shape = x->operand(0)->shape();
        const DType dtype = shape->dtype();
        Expected<Computation*> reducer = IndexedSelector(b.module(), *x->called(0), dtype);
        if (!reducer) return Fail(std::move(reducer.error()));
        const int64_t count = shape->element_count();
        const int64_t flat[] = {count};
        Instruction* index =
            b.Reshape(b.Iota(b.context().Array(DType::kS32, flat), 0), shape->dims());
        Instruction* inputs[] = {operands[0][0], index, b.Scalar(dtype, 0),
                                 b.ScalarInt(DType::kS32, -1)};
        Computation* called[] = {*reducer};
        Instruction* found = b.Add(Opcode::kReduceWindow, inputs, x->attributes<WindowAttributes>(),
                                   nullptr, called);
        const int64_t windows = x->operand(1)->shape()->element_count();
        const int64_t rows[] = {windows, 1}, line[] = {windows};
        Instruction* positions = b.Reshape(b.GetTupleElement(found, 1), rows);
        // An array of its own to add to, in the dims of a line.
        Instruction* scattered[] = {b.BroadcastScalar(operands[2][0], flat), positions,
                                    b.Reshape(operands[1][0], line)};
        ScatterAttributes attributes;
        const int64_t zero[] = {0};
        attributes.inserted_window_dims = b.Copy(zero);
        attributes.scatter_dims_to_operand_dims = b.Copy(zero);
        attributes.index_vector_dim = 1;
        Computation* combiner[] = {x->called(1)};
        Instruction* result = b.Add(Opcode::kScatter, scattered, attributes, nullptr, combiner);
        return std::vector<Instruction*>{b.Reshape(result, shape->dims())};
      });
}

}  // namespace gshard
