// One call of a library each, in plain operations, for library_call_expander.h.
#ifndef GSHARD_CORE_TRANSFORMS_EXPAND_LIBRARY_CALLS_H_
#define GSHARD_CORE_TRANSFORMS_EXPAND_LIBRARY_CALLS_H_

#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ir/builder.h"
#include "ir/call_config.h"
#include "ir/shape_inference.h"

namespace gshard {

// The results in order, each with the dims of the call's but of any type; fewer than the call has
// where the rest is workspace. Nothing: the call is not one of these, or does not fit its
// configuration. What has been made by then is dead.
using LibraryResults = std::optional<std::vector<Instruction*>>;

LibraryResults ExpandProduct(const Instruction& call, Builder& builder);
LibraryResults ExpandConvolution(const Instruction& call, Builder& builder);
LibraryResults ExpandAttention(const Instruction& call, Builder& builder);
LibraryResults ExpandNorm(const Instruction& call, Builder& builder);
// Of XLA's compiler for TPUs: ConcatBitcast, AsyncCollectiveStart, AsyncCollectiveDone.
LibraryResults ExpandPieces(const Instruction& call, Builder& builder);
LibraryResults ExpandCollectiveStart(const Instruction& call, Builder& builder);
LibraryResults ExpandCollectiveDone(const Instruction& call, Builder& builder);

// A bitcast that changes the order of elements, by reshapes and transposes; null: it does not.
Instruction* PlainBitcast(const Instruction& x, Builder& builder);

// Of a copy of a collective that another fusion has started: the parameter that has its result.
// Null: it is none that is known.
Instruction* BufferOfStep(const Instruction& collective);

// The first array of the call's results.
const Shape* FirstResult(const Instruction& call);

// The type that a library computes in if its results have this one.
DType WorkingType(DType result);

// An operation on these operands with a result of `type`; null if their shapes or types do not fit.
template <typename T>
Instruction* AddIfFits(Builder& builder, Opcode opcode,
                       std::initializer_list<Instruction*> operands, const T& attributes,
                       DType type, std::string_view name = {}) {
  std::vector<const Shape*> shapes;
  for (const Instruction* operand : operands) shapes.push_back(operand->shape());
  const OpView op = {opcode, shapes, &attributes, {}, nullptr};
  const auto own = InferShape(builder.context(), op);
  if (!own) return nullptr;
  OpView typed = op;
  typed.declared = builder.context().WithDType(*own, type);
  const auto shape = InferShape(builder.context(), typed);
  if (!shape || (*shape)->dtype() != type) return nullptr;
  return builder.Add(opcode, std::span<Instruction* const>(operands.begin(), operands.size()),
                     attributes, *shape, {}, name);
}

DotAttributes DotAttributesOf(Builder& builder, const ConfiguredDot& dims);

// `factor` times every element; x itself if the factor is 1.
Instruction* Scaled(Builder& builder, Instruction* x, double factor);

Instruction* Relu(Builder& builder, Instruction* x);

// The largest magnitude in x.
Instruction* LargestMagnitude(Builder& builder, Instruction* x);

// Within the range of `type`, an f8: libraries saturate where a convert gives NaN or infinity.
Instruction* Saturated(Builder& builder, Instruction* x, DType type);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_EXPAND_LIBRARY_CALLS_H_
