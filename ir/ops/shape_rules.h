// Shape rules of all op families and what they share. Private to ir/: users call InferShape.
//
// A rule sees operand shapes, attributes and the declared shape; arity, the number of called
// computations and their completeness were checked before (ir/shape_inference.cc). It builds text
// only to report a problem. Rules follow docs/text-format.md and docs/semantics.md.
#ifndef GSHARD_IR_OPS_SHAPE_RULES_H_
#define GSHARD_IR_OPS_SHAPE_RULES_H_

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "ir/attributes.h"
#include "ir/context.h"
#include "ir/dims.h"
#include "ir/module.h"
#include "ir/shape_inference.h"

namespace gshard {

using ShapeResult = tl::expected<const Shape*, std::string>;
using ShapeRule = ShapeResult (*)(Context&, const OpView&);
using Problem = std::optional<std::string>;  // what is wrong; nothing if all is well

template <typename... Args>
tl::unexpected<std::string> Wrong(fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<std::string>(fmt::format(format, std::forward<Args>(args)...));
}
inline tl::unexpected<std::string> Wrong(Problem problem) {
  return tl::unexpected<std::string>(*std::move(problem));
}
template <typename... Args>
Problem ProblemOf(fmt::format_string<Args...> format, Args&&... args) {
  return fmt::format(format, std::forward<Args>(args)...);
}

inline std::string Text(const Shape* shape) { return ToString(shape, /*layouts=*/false); }
std::string DimsText(Dims dims);  // "{0,2}"

// Collects the dims of a result without touching the heap for the ranks that occur.
class ResultDims {
 public:
  ResultDims() = default;
  explicit ResultDims(const Shape* shape) { AppendAll(shape); }
  ResultDims(const ResultDims&) = delete;
  ResultDims& operator=(const ResultDims&) = delete;

  void Append(int64_t size, bool dynamic = false) {
    sizes_.push_back(size);
    dynamic_.push_back(dynamic ? 1 : 0);
    any_dynamic_ |= dynamic;
  }
  void AppendDim(const Shape* shape, int64_t i) { Append(shape->dim(i), shape->IsDynamic(i)); }
  void AppendAll(const Shape* shape) {
    for (int64_t i = 0; i < shape->rank(); ++i) AppendDim(shape, i);
  }
  void Set(int64_t i, int64_t size, bool dynamic) {
    sizes_[static_cast<size_t>(i)] = size;
    dynamic_[static_cast<size_t>(i)] = dynamic ? 1 : 0;
    any_dynamic_ |= dynamic;
  }
  int64_t rank() const { return static_cast<int64_t>(sizes_.size()); }
  const Shape* Make(Context& ctx, DType dtype) const;

 private:
  std::byte buffer_[256];
  std::pmr::monotonic_buffer_resource resource_{buffer_, sizeof(buffer_)};
  std::pmr::vector<int64_t> sizes_{&resource_};
  std::pmr::vector<uint8_t> dynamic_{&resource_};
  bool any_dynamic_ = false;
};

// --- sizes
// Equal, or one of them is unbounded ("?").
inline bool SizesAgree(int64_t a, int64_t b) {
  return a == b || a == Shape::kUnbounded || b == Shape::kUnbounded;
}
// Has a dim, or for tuples a leaf with a dim, of no known size.
bool HasUnbounded(const Shape* shape);
// Same rank and sizes that agree; dynamic marks and element types ignored. Both arrays.
bool DimsAgree(const Shape* a, const Shape* b);
bool DimsAgree(const Shape* shape, Dims dims);
// At the border of a manual region: same types and ranks, for tuples of each element.
bool SameButForLengths(const Shape* a, const Shape* b);
// The type that operands of two types meet in: equal types, or the wider of two floats (of two
// equally wide ones that of the larger exponent). Nothing for other mixes.
std::optional<DType> CommonType(DType a, DType b);
// One dim seen from two shapes that agree: static beats unbounded, dynamic beats static.
void AppendMerged(ResultDims& result, const Shape* a, const Shape* b, int64_t i);

// --- checks: nothing if fine
// `what` names the attribute: "dimensions", "lhs_batch_dims".
Problem CheckDimIndex(std::string_view what, int64_t dim, int64_t rank);
Problem CheckDimList(std::string_view what, Dims dims, int64_t rank);  // in range, unique
Problem CheckSorted(std::string_view what, Dims dims);
Problem CheckArrays(const OpView& op);  // all operands are arrays
Problem CheckDeclaredArray(const OpView& op);

// --- called computations
Problem CheckParameterCount(const Computation* body, std::string_view role, size_t count);
// Parameter `index` of `body` (named by its role: "condition") takes a `wanted`.
Problem CheckParameter(const Computation* body, std::string_view role, size_t index,
                       const Shape* wanted);
Problem CheckRoot(const Computation* body, std::string_view role, const Shape* wanted);
// (acc 0..k-1, value 0..k-1) -> acc 0..k-1, all scalars: bodies of reduce, reduce-window, scatter,
// all-reduce. Values have the types given; accumulators may be of another float type. On success
// appends the accumulator types to `types`.
Problem CheckReducer(const Computation* body, std::string_view role,
                     std::span<const Shape* const> values, std::pmr::vector<DType>& types);
struct TypeList {
  std::byte buffer[32];
  std::pmr::monotonic_buffer_resource resource{buffer, sizeof(buffer)};
  std::pmr::vector<DType> list{&resource};
};
// n inputs of the same dims, then n scalars they start from.
Problem CheckInputsAndInits(const OpView& op);
// An array of `dims`, or a tuple of one per type.
const Shape* PerType(Context& ctx, const ResultDims& dims, std::span<const DType> types);

// The one array, or a tuple of several.
const Shape* OneOrTuple(Context& ctx, std::span<const Shape* const> shapes);

// Window geometry shared by convolution, reduce-window, select-and-scatter: sizes, strides and
// dilations are positive.
Problem CheckWindow(std::span<const WindowDim> window);

// --- rules by family
ShapeResult InferUnary(Context& ctx, const OpView& op);
ShapeResult InferCopy(Context& ctx, const OpView& op);
ShapeResult InferConvert(Context& ctx, const OpView& op);
ShapeResult InferBitcastConvert(Context& ctx, const OpView& op);
ShapeResult InferReducePrecision(Context& ctx, const OpView& op);
ShapeResult InferBinary(Context& ctx, const OpView& op);
ShapeResult InferComplex(Context& ctx, const OpView& op);
ShapeResult InferStochasticConvert(Context& ctx, const OpView& op);
ShapeResult InferCompare(Context& ctx, const OpView& op);
ShapeResult InferSelect(Context& ctx, const OpView& op);
ShapeResult InferClamp(Context& ctx, const OpView& op);
ShapeResult InferMap(Context& ctx, const OpView& op);

ShapeResult InferBroadcast(Context& ctx, const OpView& op);
ShapeResult InferReshape(Context& ctx, const OpView& op);
ShapeResult InferDynamicReshape(Context& ctx, const OpView& op);
ShapeResult InferBitcast(Context& ctx, const OpView& op);
ShapeResult InferTranspose(Context& ctx, const OpView& op);

ShapeResult InferSlice(Context& ctx, const OpView& op);
ShapeResult InferPad(Context& ctx, const OpView& op);
ShapeResult InferConcatenate(Context& ctx, const OpView& op);
ShapeResult InferReverse(Context& ctx, const OpView& op);
ShapeResult InferDynamicSlice(Context& ctx, const OpView& op);
ShapeResult InferDynamicUpdateSlice(Context& ctx, const OpView& op);
ShapeResult InferGetDimensionSize(Context& ctx, const OpView& op);
ShapeResult InferSetDimensionSize(Context& ctx, const OpView& op);

ShapeResult InferDot(Context& ctx, const OpView& op);
ShapeResult InferRaggedDot(Context& ctx, const OpView& op);
ShapeResult InferScaledDot(Context& ctx, const OpView& op);
ShapeResult InferConvolution(Context& ctx, const OpView& op);
// The result type of dot and convolution: the declared one where the operands' types can produce
// it, else their common type.
tl::expected<DType, std::string> ProductType(const OpView& op, DType lhs, DType rhs);

ShapeResult InferReduce(Context& ctx, const OpView& op);
ShapeResult InferScan(Context& ctx, const OpView& op);
ShapeResult InferBatchNormTraining(Context& ctx, const OpView& op);
ShapeResult InferBatchNormInference(Context& ctx, const OpView& op);
ShapeResult InferBatchNormGrad(Context& ctx, const OpView& op);
ShapeResult InferReduceWindow(Context& ctx, const OpView& op);
ShapeResult InferSelectAndScatter(Context& ctx, const OpView& op);

ShapeResult InferGather(Context& ctx, const OpView& op);
ShapeResult InferScatter(Context& ctx, const OpView& op);
ShapeResult InferSort(Context& ctx, const OpView& op);
ShapeResult InferTopK(Context& ctx, const OpView& op);

ShapeResult InferParameter(Context& ctx, const OpView& op);
ShapeResult InferConstant(Context& ctx, const OpView& op);
ShapeResult InferIota(Context& ctx, const OpView& op);
ShapeResult InferDeviceId(Context& ctx, const OpView& op);
ShapeResult InferRng(Context& ctx, const OpView& op);
ShapeResult InferRngBitGenerator(Context& ctx, const OpView& op);
ShapeResult InferRngState(Context& ctx, const OpView& op);

ShapeResult InferCholesky(Context& ctx, const OpView& op);
ShapeResult InferTriangularSolve(Context& ctx, const OpView& op);
ShapeResult InferFft(Context& ctx, const OpView& op);

ShapeResult InferWhile(Context& ctx, const OpView& op);
ShapeResult InferConditional(Context& ctx, const OpView& op);
ShapeResult InferCall(Context& ctx, const OpView& op);
ShapeResult InferFusion(Context& ctx, const OpView& op);
ShapeResult InferAsyncStart(Context& ctx, const OpView& op);
ShapeResult InferAsyncUpdate(Context& ctx, const OpView& op);
ShapeResult InferAsyncDone(Context& ctx, const OpView& op);

ShapeResult InferTuple(Context& ctx, const OpView& op);
ShapeResult InferGetTupleElement(Context& ctx, const OpView& op);
ShapeResult InferSameAsOperand(Context& ctx, const OpView& op);
ShapeResult InferAfterAll(Context& ctx, const OpView& op);
ShapeResult InferAddDependency(Context& ctx, const OpView& op);
ShapeResult InferCopyStart(Context& ctx, const OpView& op);
ShapeResult InferCopyDone(Context& ctx, const OpView& op);

ShapeResult InferAllReduce(Context& ctx, const OpView& op);
ShapeResult InferAllGather(Context& ctx, const OpView& op);
ShapeResult InferAllGatherStart(Context& ctx, const OpView& op);
ShapeResult InferReduceScatter(Context& ctx, const OpView& op);
ShapeResult InferAllToAll(Context& ctx, const OpView& op);
ShapeResult InferRaggedAllToAll(Context& ctx, const OpView& op);
ShapeResult InferCollectivePermute(Context& ctx, const OpView& op);
ShapeResult InferCollectivePermuteStart(Context& ctx, const OpView& op);
ShapeResult InferCollectiveBroadcast(Context& ctx, const OpView& op);
ShapeResult InferPairDone(Context& ctx, const OpView& op);
ShapeResult InferSend(Context& ctx, const OpView& op);
ShapeResult InferSendDone(Context& ctx, const OpView& op);
ShapeResult InferRecv(Context& ctx, const OpView& op);
ShapeResult InferRecvDone(Context& ctx, const OpView& op);
ShapeResult InferInfeed(Context& ctx, const OpView& op);
ShapeResult InferOutfeed(Context& ctx, const OpView& op);

ShapeResult InferCustomCall(Context& ctx, const OpView& op);

}  // namespace gshard

#endif  // GSHARD_IR_OPS_SHAPE_RULES_H_
