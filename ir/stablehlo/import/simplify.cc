#include "ir/stablehlo/import/simplify.h"

#include <algorithm>
#include <optional>

#include "ir/literal.h"
#include "ir/shape_inference.h"
#include "ir/stablehlo/import/fold_constants.h"

namespace gshard::stablehlo {
namespace {

// The constant of one element that `x` is, or repeats; null: none, one that was left out of the
// text, or one that is laid out.
const Instruction* ConstantOf(const Instruction* x) {
  while (x->sharding() == nullptr &&
         (x->opcode() == Opcode::kBroadcast || x->opcode() == Opcode::kReshape)) {
    x = x->operand(0);
  }
  const bool is_one = x->opcode() == Opcode::kConstant && x->sharding() == nullptr &&
                      x->shape()->IsArray() && x->shape()->element_count() == 1 &&
                      !x->attributes<ConstantAttributes>().literal->elided;
  return is_one ? x : nullptr;
}

const Literal* ScalarOf(const Instruction* x) {
  const Instruction* constant = ConstantOf(x);
  return constant == nullptr ? nullptr : constant->attributes<ConstantAttributes>().literal;
}

bool IsReal(DType dtype) { return dtype == DType::kPred || IsInteger(dtype) || IsFloat(dtype); }

bool Is(const Literal* literal, double value) {
  return literal != nullptr && IsReal(literal->shape->dtype()) &&
         ElementAsDouble(*literal, 0) == value;
}

bool AllBitsSet(const Literal* literal) {
  if (literal == nullptr) return false;
  const DType dtype = literal->shape->dtype();
  if (dtype == DType::kPred) return ElementAsInt64(*literal, 0) != 0;
  return ClassOf(dtype) == DTypeClass::kSigned && ElementAsInt64(*literal, 0) == -1;
}

Instruction* SimplifiedBinary(Instruction* x) {
  if (HasFlag(x->opcode(), kCommutative) && ScalarOf(x->operand(0)) != nullptr &&
      ScalarOf(x->operand(1)) == nullptr) {
    Instruction* constant = x->operand(0);
    x->set_operand(0, x->operand(1));
    x->set_operand(1, constant);
  }
  const Literal* constant = ScalarOf(x->operand(1));
  if (constant == nullptr) return x;
  const bool is_float = IsFloat(constant->shape->dtype());
  switch (x->opcode()) {
    case Opcode::kAdd:
    case Opcode::kSubtract:
    case Opcode::kOr:
    case Opcode::kXor:
      return Is(constant, 0) ? x->operand(0) : x;
    case Opcode::kMultiply:
      if (Is(constant, 1)) return x->operand(0);
      return !is_float && Is(constant, 0) ? x->operand(1) : x;
    case Opcode::kAnd:
      if (AllBitsSet(constant)) return x->operand(0);
      return Is(constant, 0) ? x->operand(1) : x;
    default:
      return x;
  }
}

Instruction* SimplifiedSelect(Instruction* x) {
  if (x->operand(1) == x->operand(2)) return x->operand(1);
  Instruction* predicate = x->operand(0);
  if (const Literal* known = ScalarOf(predicate)) {
    Instruction* taken = x->operand(ElementAsInt64(*known, 0) != 0 ? 1 : 2);
    return taken->shape() == x->shape() ? taken : x;
  }
  if (predicate->opcode() != Opcode::kNot) return x;
  Instruction* on_true = x->operand(1);
  x->set_operand(0, predicate->operand(0));
  x->set_operand(1, x->operand(2));
  x->set_operand(2, on_true);
  return x;
}

bool IsIdentity(Dims dimensions) {
  for (size_t d = 0; d < dimensions.size(); ++d) {
    if (dimensions[d] != static_cast<int64_t>(d)) return false;
  }
  return true;
}

class Simplifier {
 public:
  Simplifier(Module& module, Computation* computation, Instruction* x)
      : module_(module), computation_(computation), x_(x) {}

  Instruction* Run() {
    const Shape* shape = x_->shape();
    const auto is_array = [](const Instruction* operand) {
      return operand->shape()->IsArray() && !operand->shape()->HasDynamicDims();
    };
    if (!shape->IsArray() || shape->HasDynamicDims() || x_->operand_count() == 0 ||
        !std::ranges::all_of(x_->operands(), is_array)) {
      return x_;
    }
    if (Moves() || IsElementwise(x_->opcode())) {
      if (shape->element_count() == 0) return Nothing();
      if (Instruction* splat = Splat()) return splat;
    }
    switch (x_->opcode()) {
      case Opcode::kConvert:
        return x_->operand(0)->shape() == x_->shape() ? x_->operand(0) : x_;
      case Opcode::kSelect:
        return SimplifiedSelect(x_);
      case Opcode::kReshape:
        return Reshape();
      case Opcode::kTranspose:
        return Transpose();
      case Opcode::kBroadcast:
        return Broadcast();
      case Opcode::kSlice:
        return Slice();
      case Opcode::kDynamicSlice:
        return DynamicSlice();
      case Opcode::kDynamicUpdateSlice:
        return x_->operand(1)->shape() == x_->shape() ? x_->operand(1) : x_;
      case Opcode::kPad:
        return Pad();
      case Opcode::kReverse:
        return Reverse();
      default:
        return x_->operand_count() == 2 && IsElementwise(x_->opcode()) ? SimplifiedBinary(x_) : x_;
    }
  }

 private:
  template <typename T>
  Instruction* Make(Opcode opcode, Instruction* operand, const T& attributes) {
    Instruction* const operands[] = {operand};
    Instruction* y = module_.Add(computation_, opcode, module_.UniqueName(x_->name()), x_->shape(),
                                 operands, attributes);
    y->set_source(x_->source());
    y->set_metadata(x_->metadata());
    return y;
  }

  // Its elements are some of its first operand's.
  bool Moves() const {
    switch (x_->opcode()) {
      case Opcode::kBroadcast:
      case Opcode::kReshape:
      case Opcode::kReverse:
      case Opcode::kSlice:
      case Opcode::kTranspose:
        return true;
      default:
        return false;
    }
  }

  Instruction* MakeConstant(const Literal* literal) {
    Instruction* y = module_.Add(computation_, Opcode::kConstant, module_.UniqueName(x_->name()),
                                 literal->shape, {}, ConstantAttributes{literal});
    y->set_source(x_->source());
    y->set_metadata(x_->metadata());
    return y;
  }

  // A constant without elements.
  Instruction* Nothing() { return MakeConstant(RawLiteral(module_.arena(), x_->shape(), {})); }

  // Of operands that repeat a number: that which follows, repeated. Null: another operand.
  Instruction* Splat() {
    std::vector<const Literal*> scalars;
    for (const Instruction* operand : x_->operands()) {
      const Literal* scalar = ScalarOf(operand);
      if (scalar == nullptr) return nullptr;
      scalars.push_back(scalar);
    }
    const Literal* literal = scalars[0];
    if (Moves()) {
      const Instruction* operand = x_->operand(0);
      const bool is_constant = operand->opcode() == Opcode::kConstant;
      if (is_constant &&
          (x_->opcode() == Opcode::kBroadcast || x_->shape()->element_count() == 1)) {
        return nullptr;
      }
      literal = RawLiteral(module_.arena(), module_.context().Scalar(x_->shape()->dtype()),
                           literal->data);
    } else {
      literal = FoldScalars(module_.arena(), module_.context(), *x_, scalars);
      if (literal == nullptr) return nullptr;
    }
    Instruction* scalar = MakeConstant(literal);
    if (x_->shape()->rank() == 0) return scalar;
    return Make(Opcode::kBroadcast, scalar, DimensionsAttributes{});
  }

  // x reads `inner`, which nothing hinders from being passed by.
  bool May(const Instruction* inner, Opcode opcode) const {
    return inner->opcode() == opcode && inner->sharding() == nullptr &&
           inner->frontend_attributes().empty();
  }

  Instruction* Reshape() {
    Instruction* inner = x_->operand(0);
    while (May(inner, Opcode::kReshape)) inner = inner->operand(0);
    if (inner->shape() == x_->shape()) return inner;
    x_->set_operand(0, inner);
    return x_;
  }

  Instruction* Transpose() {
    const Dims outer = x_->attributes<DimensionsAttributes>().dimensions;
    if (IsIdentity(outer)) return x_->operand(0);
    Instruction* inner = x_->operand(0);
    if (!May(inner, Opcode::kTranspose)) return x_;
    std::vector<int64_t> both;
    for (const int64_t d : outer) {
      both.push_back(inner->attributes<DimensionsAttributes>().dimensions[static_cast<size_t>(d)]);
    }
    if (IsIdentity(both)) return inner->operand(0);
    DimensionsAttributes attributes;
    attributes.dimensions = module_.arena().Copy(both);
    return Make(Opcode::kTranspose, inner->operand(0), attributes);
  }

  Instruction* Broadcast() {
    Instruction* inner = x_->operand(0);
    const Dims outer = x_->attributes<DimensionsAttributes>().dimensions;
    if (inner->shape() == x_->shape() && IsIdentity(outer)) return inner;
    if (!May(inner, Opcode::kBroadcast)) return x_;
    std::vector<int64_t> both;
    for (const int64_t d : inner->attributes<DimensionsAttributes>().dimensions) {
      both.push_back(outer[static_cast<size_t>(d)]);
    }
    DimensionsAttributes attributes;
    attributes.dimensions = module_.arena().Copy(both);
    return Make(Opcode::kBroadcast, inner->operand(0), attributes);
  }

  Instruction* Slice() {
    const auto& slice = x_->attributes<SliceAttributes>();
    if (x_->operand(0)->shape() == x_->shape()) return x_->operand(0);
    Instruction* inner = x_->operand(0);
    if (!May(inner, Opcode::kConcatenate)) return x_;
    // Within one operand of a concatenate: of that.
    const auto dim = static_cast<size_t>(inner->attributes<DimensionsAttributes>().dimensions[0]);
    int64_t begin = 0;
    for (Instruction* part : inner->operands()) {
      const int64_t end = begin + part->shape()->dim(static_cast<int64_t>(dim));
      if (slice.starts[dim] >= begin && slice.limits[dim] <= end &&
          slice.starts[dim] < slice.limits[dim]) {
        std::vector<int64_t> starts(slice.starts.begin(), slice.starts.end());
        std::vector<int64_t> limits(slice.limits.begin(), slice.limits.end());
        starts[dim] -= begin;
        limits[dim] -= begin;
        if (part->shape() == x_->shape()) return part;
        SliceAttributes attributes = slice;
        attributes.starts = module_.arena().Copy(starts);
        attributes.limits = module_.arena().Copy(limits);
        return Make(Opcode::kSlice, part, attributes);
      }
      begin = end;
    }
    return x_;
  }

  // Starts that are known make it a slice; they are clamped as at run time.
  Instruction* DynamicSlice() {
    Instruction* operand = x_->operand(0);
    if (operand->shape() == x_->shape()) return operand;
    std::vector<int64_t> starts, limits, strides;
    for (int64_t d = 0; d < x_->shape()->rank(); ++d) {
      const Literal* start = d + 1 < x_->operand_count() ? ScalarOf(x_->operand(d + 1)) : nullptr;
      if (start == nullptr || !IsInteger(start->shape->dtype())) return x_;
      const int64_t most = operand->shape()->dim(d) - x_->shape()->dim(d);
      starts.push_back(
          std::clamp<int64_t>(ElementAsInt64(*start, 0), 0, std::max<int64_t>(most, 0)));
      limits.push_back(starts.back() + x_->shape()->dim(d));
      strides.push_back(1);
    }
    SliceAttributes attributes;
    attributes.starts = module_.arena().Copy(starts);
    attributes.limits = module_.arena().Copy(limits);
    attributes.strides = module_.arena().Copy(strides);
    return Make(Opcode::kSlice, operand, attributes);
  }

  Instruction* Pad() {
    if (x_->operand(0)->shape()->element_count() == 0) {
      return Make(Opcode::kBroadcast, x_->operand(1), DimensionsAttributes{});
    }
    const auto none = [](const PadDim& dim) {
      return dim.low == 0 && dim.high == 0 && dim.interior == 0;
    };
    return std::ranges::all_of(x_->attributes<PadAttributes>().padding, none) ? x_->operand(0) : x_;
  }

  Instruction* Reverse() {
    for (const int64_t d : x_->attributes<DimensionsAttributes>().dimensions) {
      if (x_->shape()->dim(d) > 1) return x_;
    }
    return x_->operand(0);
  }

  Module& module_;
  Computation* computation_;
  Instruction* x_;
};

}  // namespace

Instruction* Simplified(Module& module, Computation* computation, Instruction* x) {
  return Simplifier(module, computation, x).Run();
}

bool FitsItsOperands(Module& module, const Instruction& x) {
  std::vector<const Shape*> operands;
  for (const Instruction* operand : x.operands()) operands.push_back(operand->shape());
  const auto inferred = InferShape(
      module.context(), {x.opcode(), operands, x.raw_attributes(), x.called(), x.shape()});
  return inferred &&
         (x.shape()->bare() == (*inferred)->bare() || SameUpToDynamic(x.shape(), *inferred));
}

}  // namespace gshard::stablehlo
