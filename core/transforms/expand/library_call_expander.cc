#include "core/transforms/expand/library_call_expander.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "core/transforms/expand/library_calls.h"
#include "core/transforms/forward_tuple_elements.h"
#include "core/transforms/rewriter.h"
#include "ir/call_config.h"
#include "ir/custom_call.h"
#include "ir/linalg_call.h"
#include "ir/traversal.h"

namespace gshard {

const Shape* FirstResult(const Instruction& call) {
  const Shape* shape = call.shape();
  return shape->IsTuple() && !shape->elements().empty() ? shape->element(0) : shape;
}

DType WorkingType(DType result) {
  return IsFloat(result) && DTypeBits(result) < 32 ? DType::kF32 : result;
}

DotAttributes DotAttributesOf(Builder& builder, const ConfiguredDot& dims) {
  DotAttributes attributes;
  attributes.lhs_batch = builder.Copy(dims.lhs_batch);
  attributes.lhs_contracting = builder.Copy(dims.lhs_contracting);
  attributes.rhs_batch = builder.Copy(dims.rhs_batch);
  attributes.rhs_contracting = builder.Copy(dims.rhs_contracting);
  return attributes;
}

Instruction* Scaled(Builder& builder, Instruction* x, double factor) {
  if (factor == 1) return x;
  const Shape* shape = x->shape();
  return builder.Multiply(
      x, builder.BroadcastScalar(builder.Scalar(shape->dtype(), factor), shape->dims()));
}

Instruction* Relu(Builder& builder, Instruction* x) {
  return builder.Maximum(x, builder.Zero(x->shape()->bare()));
}

Instruction* LargestMagnitude(Builder& builder, Instruction* x) {
  const DType type = x->shape()->dtype();
  std::vector<int64_t> all;
  for (int64_t d = 0; d < x->shape()->rank(); ++d) all.push_back(d);
  return builder.Reduce(builder.Add(Opcode::kAbs, {x}), builder.Scalar(type, 0), all,
                        builder.BinaryComputation(Opcode::kMaximum, type));
}

Instruction* Saturated(Builder& builder, Instruction* x, DType type) {
  constexpr double kLargestF8E4M3FN = 448, kLargestF8E5M2 = 57344;
  const double largest = type == DType::kF8E5M2 ? kLargestF8E5M2 : kLargestF8E4M3FN;
  const auto bound = [&](double limit) {
    return builder.BroadcastScalar(builder.Scalar(x->shape()->dtype(), limit), x->shape()->dims());
  };
  return builder.Clamp(bound(-largest), x, bound(largest));
}

namespace {

LibraryResults ExpandTriangularSolve(const Instruction& call, Builder& builder) {
  if (call.operand_count() != 2) return std::nullopt;
  const std::string_view config = call.backend_config();
  TriangularSolveAttributes solve;
  solve.left_side = ConfigWord(config, "left_side") == "true";
  solve.lower = ConfigWord(config, "lower") == "true";
  solve.unit_diagonal = ConfigWord(config, "unit_diagonal") == "true";
  const std::string_view transpose = ConfigWord(config, "transpose_a");
  if (transpose == "TRANSPOSE") solve.transpose_a = TransposeKind::kTranspose;
  if (transpose == "ADJOINT") solve.transpose_a = TransposeKind::kAdjoint;
  const Shape* result = FirstResult(call);
  if (!result->IsArray()) return std::nullopt;
  Instruction* x = AddIfFits(builder, Opcode::kTriangularSolve, {call.operand(0), call.operand(1)},
                             solve, result->dtype(), call.name());
  if (x == nullptr) return std::nullopt;
  return std::vector{x};
}

// The k largest of the last dim; equal ones in the order of their positions.
LibraryResults ExpandTopK(const Instruction& call, Builder& builder) {
  const Shape* values = FirstResult(call);
  if (call.operand_count() != 1 || !values->IsArray() || values->rank() == 0) return std::nullopt;
  const Shape* operand = call.operand(0)->shape();
  if (!operand->IsArray() || operand->rank() != values->rank() ||
      operand->dims().back() < values->dims().back()) {
    return std::nullopt;
  }
  Instruction* largest =
      builder.Add(Opcode::kTopK, std::vector{call.operand(0)},
                  TopKAttributes{values->dims().back(), true, true}, nullptr, {}, call.name());
  return std::vector{builder.GetTupleElement(largest, 0), builder.GetTupleElement(largest, 1)};
}

// compare(a, b) of the keys, which come first; values, of the types that follow, are not looked at.
Computation* Comparator(Module& module, std::span<Instruction* const> operands, bool descending) {
  Computation* comparator = module.AddComputation("radix_order");
  Builder builder(module, comparator);
  std::vector<Instruction*> parameters;
  for (const Instruction* operand : operands) {
    const Shape* scalar = builder.context().Scalar(operand->shape()->dtype());
    for (int side = 0; side < 2; ++side) {
      parameters.push_back(
          builder.Parameter(static_cast<int64_t>(parameters.size()), scalar, "element"));
    }
  }
  const bool is_float = IsFloat(operands[0]->shape()->dtype());
  const CompareAttributes order = {
      descending ? ComparisonDirection::kGt : ComparisonDirection::kLt,
      is_float ? ComparisonType::kTotalOrder : ComparisonType::kDefault};
  comparator->set_root(
      builder.Add(Opcode::kCompare, std::vector{parameters[0], parameters[1]}, order));
  return comparator;
}

LibraryResults ExpandRadixSort(const Instruction& call, Builder& builder) {
  const LinalgOptions options = LinalgOptionsOf(call);
  const auto descending = options.find("descending");
  Computation* order = Comparator(builder.module(), call.operands(),
                                  descending != options.end() && descending->second != 0);
  Instruction* sorted = builder.Add(Opcode::kSort, call.operands(),
                                    SortAttributes{call.operand(0)->shape()->rank() - 1, true},
                                    nullptr, {&order, 1}, call.name());
  if (!sorted->shape()->IsTuple()) return std::vector{sorted};
  std::vector<Instruction*> results;
  for (int64_t i = 0; i < call.operand_count(); ++i) {
    results.push_back(builder.GetTupleElement(sorted, i));
  }
  return results;
}

LibraryResults ExpandCall(const Instruction& call, Builder& builder) {
  const std::string_view target = call.attributes<CustomCallAttributes>().target;
  if (target == "__gpu$TopK") return ExpandTopK(call, builder);
  if (IsRadixSortCall(call)) return ExpandRadixSort(call, builder);
  if (target == kConcatBitcastTarget) return ExpandPieces(call, builder);
  if (target == kAsyncCollectiveStartTarget) return ExpandCollectiveStart(call, builder);
  if (target == kAsyncCollectiveDoneTarget) return ExpandCollectiveDone(call, builder);
  if (target == "__cublas$triangularSolve") return ExpandTriangularSolve(call, builder);
  if (target.starts_with("__cublas$")) return ExpandProduct(call, builder);
  if (target.starts_with("__cudnn$conv")) return ExpandConvolution(call, builder);
  if (target == "__cudnn$norm") return ExpandNorm(call, builder);
  if (target.starts_with("__cudnn$fmha")) return ExpandAttention(call, builder);
  return std::nullopt;
}

// In the type and layout of the call's result; null if it has other dims.
Instruction* AsResult(Builder& builder, Instruction* value, const Shape* shape) {
  if (!shape->IsArray() || !std::ranges::equal(value->shape()->dims(), shape->dims())) {
    return nullptr;
  }
  Instruction* result = builder.Convert(value, shape->dtype());
  result->set_shape(shape);
  return result;
}

// What stands in for the call: its result, or a tuple of them; null if it stays.
Instruction* StandIn(const Instruction& call, Builder& builder) {
  const LibraryResults results = ExpandCall(call, builder);
  if (!results) return nullptr;
  const Shape* shape = call.shape();
  if (!shape->IsTuple()) return AsResult(builder, results->front(), shape);
  std::vector<Instruction*> elements;
  for (const Shape* element : shape->elements()) {
    const size_t i = elements.size();
    Instruction* value = i < results->size()  ? AsResult(builder, (*results)[i], element)
                         : element->IsArray() ? builder.Zero(element)
                                              : nullptr;
    if (value == nullptr) return nullptr;
    elements.push_back(value);
  }
  return elements.size() < results->size() ? nullptr : builder.Tuple(elements);
}

bool IsLibraryCall(const Instruction& x) {
  if (x.opcode() != Opcode::kCustomCall) return false;
  const std::string_view target = x.attributes<CustomCallAttributes>().target;
  return target.starts_with("__cublas$") || target.starts_with("__cudnn$") ||
         target == "__gpu$TopK" || target == kConcatBitcastTarget ||
         target == kAsyncCollectiveStartTarget || target == kAsyncCollectiveDoneTarget ||
         IsRadixSortCall(x);
}

using Channels = std::unordered_set<int64_t>;

// Of collectives that a fusion starts.
Channels StartedChannels(const Module& module) {
  Channels channels;
  for (const Computation* computation : module.computations()) {
    const Instruction* root = computation->root();
    if (!IsCustomCallTo(*root, kAsyncCollectiveStartTarget) || root->operand_count() != 1) continue;
    if (!IsCollective(root->operand(0)->opcode())) continue;
    channels.insert(root->operand(0)->attributes<CollectiveAttributes>().channel_id);
  }
  return channels;
}

// cuDNN's own gradient of an input, inside of a fusion for it: the kernel is turned around, though
// the window does not say so.
bool IsLibraryGradient(const Instruction& x) {
  return x.opcode() == Opcode::kConvolution &&
         x.attributes<ConvolutionAttributes>().convolution_kind == "dgrad";
}

// A bitcast between layouts with tiles, as those of TPUs.
bool IsTiledBitcast(const Instruction& x) {
  return x.opcode() == Opcode::kBitcast && x.shape()->IsArray() && x.shape()->layout() != nullptr &&
         x.shape()->layout()->tail.starts_with('T');
}

Instruction* PlainGradient(const Instruction& x, Builder& builder) {
  ConvolutionAttributes plain = x.attributes<ConvolutionAttributes>();
  std::vector<WindowDim> window(plain.window.begin(), plain.window.end());
  for (WindowDim& dim : window) dim.reversal = !dim.reversal;
  plain.window = builder.module().arena().Copy(std::span<const WindowDim>(window));
  plain.convolution_kind = {};
  return builder.Add(Opcode::kConvolution, x.operands(), plain, x.shape(), {}, x.name());
}

bool HasLibraryCalls(const Module& module) {
  return std::ranges::any_of(module.computations(), [](const Computation* computation) {
    return std::ranges::any_of(computation->instructions(), [](const Instruction* x) {
      return IsLibraryCall(*x) || IsLibraryGradient(*x) || IsTiledBitcast(*x);
    });
  });
}

bool ExpandCallsIn(Module& module, Computation* computation, const Channels& started) {
  const std::vector<Instruction*> old(computation->instructions().begin(),
                                      computation->instructions().end());
  Rewriter rewriter(module);
  rewriter.Begin(computation);
  bool changed = false;
  for (Instruction* x : old) {
    rewriter.RedirectOperands(x);
    rewriter.builder().set_origin(x);
    Instruction* by = IsLibraryCall(*x)       ? StandIn(*x, rewriter.builder())
                      : IsLibraryGradient(*x) ? PlainGradient(*x, rewriter.builder())
                      : IsTiledBitcast(*x)    ? PlainBitcast(*x, rewriter.builder())
                                              : nullptr;
    if (!started.empty() && IsCollective(x->opcode()) &&
        started.contains(x->attributes<CollectiveAttributes>().channel_id)) {
      by = BufferOfStep(*x);
    }
    if (by == nullptr) {
      rewriter.Keep(x);
    } else {
      rewriter.Replace(x, by);
      changed = true;
    }
  }
  rewriter.Finish();
  return changed;
}

}  // namespace

bool ExpandLibraryCalls(Module& module) {
  if (!HasLibraryCalls(module)) return false;
  bool changed = false;
  const std::vector<Computation*> all(module.computations().begin(), module.computations().end());
  const Channels started = StartedChannels(module);
  for (Computation* computation : all) changed |= ExpandCallsIn(module, computation, started);
  ForwardTupleElements(module);
  // Reducers that were made on the way come before what calls them.
  const std::vector<Computation*> order = CallPostOrder(module);
  module.SetComputations({order.begin(), order.end()});
  RemoveDeadCode(module);
  return changed;
}

}  // namespace gshard
