// Rules for operations that move elements without changing them.
#include <algorithm>

#include "core/transforms/algebraic_simplifier.h"
#include "ir/dims.h"
#include "ir/equality.h"

namespace gshard {
namespace {

Instruction* Refilled(SimplifyContext& context, Instruction* scalar, const Instruction* x) {
  return context.builder.BroadcastScalar(scalar, x->shape()->dims());
}

Instruction* SimplifyReshape(SimplifyContext& context, Instruction* x) {
  Instruction* operand = x->operand(0);
  if (Compatible(operand->shape(), x->shape())) return operand;
  if (operand->opcode() == Opcode::kReshape) {
    return context.builder.Reshape(operand->operand(0), x->shape()->dims());
  }
  if (operand->opcode() == Opcode::kBroadcast) {
    if (Instruction* scalar = FillingScalar(operand)) return Refilled(context, scalar, x);
  }
  return x;
}

Instruction* SimplifyTranspose(SimplifyContext& context, Instruction* x) {
  Instruction* operand = x->operand(0);
  Dims permutation = x->attributes<DimensionsAttributes>().dimensions;
  if (std::is_sorted(permutation.begin(), permutation.end())) return operand;
  if (operand->opcode() == Opcode::kTranspose) {
    Dims inner = operand->attributes<DimensionsAttributes>().dimensions;
    std::vector<int64_t> both;
    for (int64_t dim : permutation) both.push_back(inner[At(dim)]);
    return context.builder.Transpose(operand->operand(0), both);
  }
  if (operand->opcode() == Opcode::kBroadcast) {
    if (Instruction* scalar = FillingScalar(operand)) return Refilled(context, scalar, x);
  }
  return x;
}

Instruction* SimplifyBroadcast(SimplifyContext& context, Instruction* x) {
  Instruction* operand = x->operand(0);
  Dims dimensions = x->attributes<DimensionsAttributes>().dimensions;
  if (Compatible(operand->shape(), x->shape()) &&
      std::is_sorted(dimensions.begin(), dimensions.end())) {
    return operand;
  }
  if (operand->opcode() == Opcode::kBroadcast) {
    std::vector<int64_t> both;
    for (int64_t dim : operand->attributes<DimensionsAttributes>().dimensions) {
      both.push_back(dimensions[At(dim)]);
    }
    return context.builder.Broadcast(operand->operand(0), x->shape()->dims(), both);
  }
  if (operand->opcode() == Opcode::kReshape && operand->operand(0)->shape()->IsScalar()) {
    return Refilled(context, operand->operand(0), x);
  }
  return x;
}

// The dims of a slice in terms of what `inner` slices.
Instruction* SliceOfSlice(SimplifyContext& context, Instruction* x) {
  const auto& outer = x->attributes<SliceAttributes>();
  const auto& inner = x->operand(0)->attributes<SliceAttributes>();
  std::vector<int64_t> starts, limits, strides;
  for (size_t d = 0; d < outer.starts.size(); ++d) {
    const int64_t last = std::max(outer.starts[d], outer.limits[d] - 1);
    starts.push_back(inner.starts[d] + outer.starts[d] * inner.strides[d]);
    limits.push_back(x->shape()->dim(static_cast<int64_t>(d)) == 0
                         ? starts.back()
                         : inner.starts[d] + last * inner.strides[d] + 1);
    strides.push_back(outer.strides[d] * inner.strides[d]);
  }
  return context.builder.Slice(x->operand(0)->operand(0), starts, limits, strides);
}

// A slice that sees nothing of the padding.
Instruction* SliceOfPad(SimplifyContext& context, Instruction* x) {
  const auto& slice = x->attributes<SliceAttributes>();
  Instruction* pad = x->operand(0);
  Instruction* inner = pad->operand(0);
  std::vector<int64_t> starts, limits;
  for (int64_t d = 0; d < x->shape()->rank(); ++d) {
    const PadDim& padding = pad->attributes<PadAttributes>().padding[At(d)];
    starts.push_back(slice.starts[At(d)] - padding.low);
    limits.push_back(slice.limits[At(d)] - padding.low);
    if (padding.interior != 0 || starts.back() < 0 || limits.back() > inner->shape()->dim(d)) {
      return x;
    }
  }
  return context.builder.Slice(inner, starts, limits, slice.strides);
}

// A slice that sees one of the parts.
Instruction* SliceOfConcatenate(SimplifyContext& context, Instruction* x) {
  const auto& slice = x->attributes<SliceAttributes>();
  Instruction* parts = x->operand(0);
  const int64_t dim = parts->attributes<DimensionsAttributes>().dimensions[0];
  int64_t begin = 0;
  for (Instruction* part : parts->operands()) {
    const int64_t end = begin + part->shape()->dim(dim);
    if (slice.starts[At(dim)] >= begin && slice.limits[At(dim)] <= end) {
      std::vector<int64_t> starts(slice.starts.begin(), slice.starts.end());
      std::vector<int64_t> limits(slice.limits.begin(), slice.limits.end());
      starts[At(dim)] -= begin;
      limits[At(dim)] -= begin;
      return context.builder.Slice(part, starts, limits, slice.strides);
    }
    begin = end;
  }
  return x;
}

Instruction* SimplifySlice(SimplifyContext& context, Instruction* x) {
  Instruction* operand = x->operand(0);
  if (Compatible(operand->shape(), x->shape())) return operand;
  switch (operand->opcode()) {
    case Opcode::kSlice:
      return SliceOfSlice(context, x);
    case Opcode::kPad:
      return SliceOfPad(context, x);
    case Opcode::kConcatenate:
      return SliceOfConcatenate(context, x);
    case Opcode::kBroadcast:
      if (Instruction* scalar = FillingScalar(operand)) return Refilled(context, scalar, x);
      return x;
    default:  // no simpler form is known
      return x;
  }
}

Instruction* SimplifyPad(SimplifyContext& context, Instruction* x) {
  if (Compatible(x->operand(0)->shape(), x->shape())) {
    const auto padding = x->attributes<PadAttributes>().padding;
    const bool is_none = std::all_of(padding.begin(), padding.end(), [](const PadDim& dim) {
      return dim.low == 0 && dim.high == 0;
    });
    if (is_none) return x->operand(0);
  }
  Instruction* scalar = FillingScalar(x->operand(0));
  if (scalar != nullptr && (scalar == x->operand(1) || SameConstant(*scalar, *x->operand(1))))
    return Refilled(context, scalar, x);
  return x;
}

// Slices of one value, in order and without gaps.
Instruction* ConcatenateOfSlices(SimplifyContext& context, Instruction* x, int64_t dim) {
  Instruction* source = nullptr;
  std::vector<int64_t> starts, limits;
  for (const Instruction* part : x->operands()) {
    if (part->opcode() != Opcode::kSlice) return x;
    const auto& slice = part->attributes<SliceAttributes>();
    for (int64_t stride : slice.strides) {
      if (stride != 1) return x;
    }
    if (source == nullptr) {
      source = part->operand(0);
      starts.assign(slice.starts.begin(), slice.starts.end());
    } else {
      if (part->operand(0) != source || slice.starts[At(dim)] != limits[At(dim)]) return x;
      for (size_t d = 0; d < starts.size(); ++d) {
        if (d != At(dim) && (slice.starts[d] != starts[d] || slice.limits[d] != limits[d])) {
          return x;
        }
      }
    }
    limits.assign(slice.limits.begin(), slice.limits.end());
  }
  return context.builder.Slice(source, starts, limits);
}

Instruction* SimplifyConcatenate(SimplifyContext& context, Instruction* x) {
  const int64_t dim = x->attributes<DimensionsAttributes>().dimensions[0];
  if (x->operand_count() == 1) return x->operand(0);
  std::vector<Instruction*> parts;
  for (Instruction* part : x->operands()) {
    if (part->shape()->dim(dim) != 0) parts.push_back(part);
  }
  if (!parts.empty() && parts.size() < x->operands().size()) {
    return context.builder.Concatenate(parts, dim);
  }
  Instruction* scalar = FillingScalar(x->operand(0));
  if (scalar != nullptr && std::ranges::all_of(x->operands(), [&](Instruction* part) {
        return FillingScalar(part) == scalar;
      })) {
    return Refilled(context, scalar, x);
  }
  return ConcatenateOfSlices(context, x, dim);
}

Instruction* SimplifyReverse(Instruction* x) {
  Dims dimensions = x->attributes<DimensionsAttributes>().dimensions;
  Instruction* operand = x->operand(0);
  if (std::ranges::all_of(dimensions, [&](int64_t d) { return x->shape()->dim(d) <= 1; })) {
    return operand;
  }
  if (operand->opcode() == Opcode::kReverse &&
      std::ranges::is_permutation(dimensions,
                                  operand->attributes<DimensionsAttributes>().dimensions)) {
    return operand->operand(0);
  }
  return x;
}

Instruction* SimplifyDynamicSlice(SimplifyContext& context, Instruction* x) {
  Instruction* operand = x->operand(0);
  if (Compatible(operand->shape(), x->shape())) return operand;
  if (operand->opcode() == Opcode::kBroadcast) {
    if (Instruction* scalar = FillingScalar(operand)) return Refilled(context, scalar, x);
  }
  std::vector<int64_t> starts, limits;
  for (int64_t d = 0; d < x->shape()->rank(); ++d) {
    const int64_t room = operand->shape()->dim(d) - x->shape()->dim(d);
    int64_t start = 0;
    if (room > 0) {
      std::optional<DeviceFunction> f = context.devices.Of(x->operand(d + 1));
      if (!f || !f->IsConstant()) return x;
      start = std::clamp<int64_t>(f->bias, 0, room);
    }
    starts.push_back(start);
    limits.push_back(start + x->shape()->dim(d));
  }
  return context.builder.Slice(operand, starts, limits);
}

Instruction* SimplifyTuple(Instruction* x) {
  Instruction* source = nullptr;
  for (int64_t i = 0; i < x->operand_count(); ++i) {
    const Instruction* element = x->operand(i);
    if (element->opcode() != Opcode::kGetTupleElement) return x;
    if (element->attributes<GetTupleElementAttributes>().index != i) return x;
    if (source != nullptr && element->operand(0) != source) return x;
    source = element->operand(0);
  }
  return source != nullptr && Compatible(source->shape(), x->shape()) ? source : x;
}

}  // namespace

Instruction* SimplifyMovement(SimplifyContext& context, Instruction* x) {
  switch (x->opcode()) {
    case Opcode::kReshape:
      return SimplifyReshape(context, x);
    case Opcode::kTranspose:
      return SimplifyTranspose(context, x);
    case Opcode::kBroadcast:
      return SimplifyBroadcast(context, x);
    case Opcode::kSlice:
      return SimplifySlice(context, x);
    case Opcode::kPad:
      return SimplifyPad(context, x);
    case Opcode::kConcatenate:
      return SimplifyConcatenate(context, x);
    case Opcode::kReverse:
      return SimplifyReverse(x);
    case Opcode::kDynamicSlice:
      return SimplifyDynamicSlice(context, x);
    case Opcode::kDynamicUpdateSlice:
      return Compatible(x->operand(1)->shape(), x->shape()) ? x->operand(1) : x;
    case Opcode::kTuple:
      return SimplifyTuple(x);
    case Opcode::kGetTupleElement:
      return x->operand(0)->opcode() == Opcode::kTuple
                 ? x->operand(0)->operand(x->attributes<GetTupleElementAttributes>().index)
                 : x;
    default:  // moves nothing
      return x;
  }
}

}  // namespace gshard
