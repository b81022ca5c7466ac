// Constants, broadcasts, reshapes, slices: operations that move data.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "ir/stablehlo/import/converters.h"
#include "ir/stablehlo/import/importer.h"
#include "ir/stablehlo/syntax/lexer.h"

namespace gshard::stablehlo {
namespace {

// One positional or keyed list of a slice: [0:8:2, 1:8].
bool ReadRanges(std::string_view text, std::vector<int64_t>& starts, std::vector<int64_t>& limits,
                std::vector<int64_t>& strides) {
  std::vector<std::string_view> ranges;
  if (!SplitList(text, ranges)) return false;
  for (std::string_view range : ranges) {
    int64_t numbers[3] = {0, 0, 1};
    size_t count = 0;
    while (count < 3) {
      const size_t colon = range.find(':');
      std::string_view part = range.substr(0, colon);
      while (part.starts_with(' ')) part.remove_prefix(1);
      while (part.ends_with(' ')) part.remove_suffix(1);
      if (!ReadInteger(part, numbers[count++])) return false;
      if (colon == range.npos) break;
      range.remove_prefix(colon + 1);
    }
    if (count < 2) return false;
    starts.push_back(numbers[0]);
    limits.push_back(numbers[1]);
    strides.push_back(numbers[2]);
  }
  return true;
}

// The operand dims that `dimensions` maps, grown to `result`, as XLA's export does it: dims of size
// 1 that grow are dropped by a reshape first.
Instruction* Broadcast(Importer& in, const Operation& op, Instruction* x, const Shape* result,
                       Dims dimensions) {
  const Dims from = x->shape()->dims();
  if (dimensions.size() != from.size()) {
    in.Fail(op, ParseError::kShape,
            fmt::format("{} maps {} dims of an operand with {}", op.name, dimensions.size(),
                        from.size()));
    return nullptr;
  }
  std::vector<int64_t> kept, kept_sizes;
  bool grows = false;
  bool same = static_cast<int64_t>(from.size()) == result->rank();
  int64_t previous = -1;
  bool in_order = true;
  for (size_t i = 0; i < from.size(); ++i) {
    const int64_t d = dimensions[i];
    if (d < 0 || d >= result->rank() || (from[i] != result->dim(d) && from[i] != 1)) {
      in.Fail(op, ParseError::kShape,
              fmt::format("dim {} of the operand, of size {}, does not fit the result {}", i,
                          from[i], ToString(result, /*layouts=*/false)));
      return nullptr;
    }
    same = same && d == static_cast<int64_t>(i) && from[i] == result->dim(d);
    in_order = in_order && d > previous;
    previous = d;
    if (from[i] != result->dim(d)) {
      grows = true;
    } else {
      kept.push_back(d);
      kept_sizes.push_back(from[i]);
    }
  }
  if (same) return x;
  Instruction* const operands[] = {x};
  // Only dims of size 1 are new: a reshape.
  if (!grows && in_order && result->element_count() == x->shape()->element_count()) {
    return in.Emit(op, Opcode::kReshape, operands, ReshapeAttributes{}, result);
  }
  DimensionsAttributes attributes;
  if (!grows) {
    attributes.dimensions = in.arena().Copy(dimensions);
    return in.Emit(op, Opcode::kBroadcast, operands, attributes, result);
  }
  attributes.dimensions = in.arena().Copy(kept);
  const Shape* dropped = in.context().Array(result->dtype(), kept_sizes);
  Instruction* reshaped = in.Emit(op, Opcode::kReshape, operands, ReshapeAttributes{}, dropped);
  Instruction* const reshaped_operands[] = {reshaped};
  return in.Emit(op, Opcode::kBroadcast, reshaped_operands, attributes, result);
}

// Does `x` have the type of `shape`, but no elements, since its size along the dim is 0?
bool IsWithoutDim(const Shape* x, const Shape* shape, int64_t dim) {
  if (!x->IsArray() || x->dtype() != shape->dtype() || x->rank() != shape->rank()) return false;
  for (int64_t d = 0; d < x->rank(); ++d) {
    if (x->dim(d) != (d == dim ? 0 : shape->dim(d))) return false;
  }
  return true;
}

// The result's type if it is static; else its element type with the dims that operand
// `shape_operand` holds. Null after an error.
const Shape* ShapeFrom(Importer& in, const Operation& op, size_t shape_operand) {
  if (const Shape* shape = in.ResultShape(op)) return shape;
  std::vector<int64_t> dims;
  if (!in.ConstantDims(op, shape_operand, dims)) return nullptr;
  return in.ArrayOf(op, op.results[0].type->dtype(), dims);
}

}  // namespace

bool ConvertConstant(Importer& in, const Operation& op) {
  const auto value = in.Find(op, {"value", "#0"});
  if (!value.has_value() || !in.WantResults(op, 1)) {
    return in.Fail(op, ParseError::kMissingAttribute, "a constant needs its value");
  }
  const Shape* shape = in.ResultShape(op);
  if (shape == nullptr || !shape->IsArray()) {
    return in.Fail(op, ParseError::kShape, "the type of a constant is a static tensor");
  }
  // A splat is a scalar and a broadcast: text and memory stay small.
  Lexer lexer(*value);
  const bool splat = shape->rank() > 0 && shape->element_count() > 1 && lexer.Consume("dense<") &&
                     lexer.Peek() != '[' && lexer.Raw() != '"' && lexer.Raw() != '>';
  const Shape* literal_shape = splat ? in.context().Scalar(shape->dtype()) : shape;
  DenseError error;
  const Literal* literal =
      ReadDense(in.arena(), *value, literal_shape, in.program().resources, error);
  if (literal == nullptr) {
    return in.errors().Fail(ParseError::kLiteral, error.where.empty() ? *value : error.where,
                            error.why);
  }
  Instruction* x = in.Emit(op, Opcode::kConstant, {}, ConstantAttributes{literal}, literal_shape);
  if (splat && x != nullptr) {
    Instruction* const operands[] = {x};
    x = in.Emit(op, Opcode::kBroadcast, operands, DimensionsAttributes{}, shape);
  }
  return in.Define(op, 0, x);
}

bool ConvertIota(Importer& in, const Operation& op) {
  IotaAttributes attributes;
  return in.WantResults(op, 1) && in.Int(op, {"iota_dimension", "dim"}, attributes.dimension) &&
         in.EmitResults(op, Opcode::kIota, {}, attributes);
}

bool ConvertDynamicIota(Importer& in, const Operation& op) {
  IotaAttributes attributes;
  if (!in.WantOperands(op, 1) || !in.WantResults(op, 1) ||
      !in.Int(op, {"iota_dimension", "dim"}, attributes.dimension)) {
    return false;
  }
  const Shape* shape = ShapeFrom(in, op, 0);
  return shape != nullptr && in.Define(op, 0, in.Emit(op, Opcode::kIota, {}, attributes, shape));
}

// stablehlo.broadcast: new dims in front.
bool ConvertBroadcast(Importer& in, const Operation& op) {
  Dims sizes;
  if (!in.WantOperands(op, 1) || !in.WantResults(op, 1) ||
      !in.Integers(op, {"broadcast_sizes", "sizes"}, sizes)) {
    return false;
  }
  Instruction* x = in.Operand(op, 0);
  std::vector<int64_t> dims(sizes.begin(), sizes.end());
  std::vector<int64_t> dimensions;
  for (const int64_t dim : x->shape()->dims()) {
    dimensions.push_back(static_cast<int64_t>(dims.size()));
    dims.push_back(dim);
  }
  if (std::ranges::any_of(dims, [](int64_t dim) { return dim < 0; })) {
    return in.BadValue(op, "broadcast_sizes", "");
  }
  return in.Define(op, 0,
                   Broadcast(in, op, x, in.context().Array(x->shape()->dtype(), dims), dimensions));
}

bool ConvertBroadcastInDim(Importer& in, const Operation& op) {
  Dims dimensions;
  if (!in.WantOperands(op, 1) || !in.WantResults(op, 1) ||
      !in.Integers(op, {"broadcast_dimensions", "dims"}, dimensions)) {
    return false;
  }
  const Shape* shape = in.ResultShape(op);
  if (shape == nullptr || !shape->IsArray()) {
    return in.Fail(op, ParseError::kShape, "the result of a broadcast is a static tensor");
  }
  return in.Define(op, 0, Broadcast(in, op, in.Operand(op, 0), shape, dimensions));
}

bool ConvertDynamicBroadcast(Importer& in, const Operation& op) {
  Dims dimensions;
  if (!in.WantOperands(op, 2) || !in.WantResults(op, 1) ||
      !in.Integers(op, {"broadcast_dimensions", "dims"}, dimensions)) {
    return false;
  }
  const Shape* shape = ShapeFrom(in, op, 1);
  return shape != nullptr &&
         in.Define(op, 0, Broadcast(in, op, in.Operand(op, 0), shape, dimensions));
}

bool ConvertReshape(Importer& in, const Operation& op) {
  return in.WantOperands(op, 1) && in.WantResults(op, 1) &&
         in.EmitResults(op, Opcode::kReshape, in.Operands(op), ReshapeAttributes{});
}

bool ConvertDynamicReshape(Importer& in, const Operation& op) {
  if (!in.WantOperands(op, 2) || !in.WantResults(op, 1)) return false;
  const Shape* shape = ShapeFrom(in, op, 1);
  if (shape == nullptr) return false;
  Instruction* const operands[] = {in.Operand(op, 0)};
  return in.Define(op, 0, in.Emit(op, Opcode::kReshape, operands, ReshapeAttributes{}, shape));
}

bool ConvertTranspose(Importer& in, const Operation& op) {
  DimensionsAttributes attributes;
  return in.WantOperands(op, 1) && in.WantResults(op, 1) &&
         in.Integers(op, {"permutation", "dims"}, attributes.dimensions) &&
         in.EmitResults(op, Opcode::kTranspose, in.Operands(op), attributes);
}

bool ConvertReverse(Importer& in, const Operation& op) {
  DimensionsAttributes attributes;
  return in.WantOperands(op, 1) && in.WantResults(op, 1) &&
         in.Integers(op, {"dimensions", "dims"}, attributes.dimensions) &&
         in.EmitResults(op, Opcode::kReverse, in.Operands(op), attributes);
}

// Without operands that have nothing to give, as XLA's export has it; one that is left is the
// result.
bool ConvertConcatenate(Importer& in, const Operation& op) {
  int64_t dimension = 0;
  if (!in.WantResults(op, 1) || !in.Int(op, {"dimension", "dim"}, dimension)) return false;
  const Shape* shape = in.ResultShape(op);
  std::vector<Instruction*> operands = in.Operands(op);
  // Operands that do not fit stay, for the verifier to refuse.
  if (shape != nullptr && shape->IsArray() && shape->element_count() > 0) {
    std::erase_if(operands, [&](const Instruction* operand) {
      return IsWithoutDim(operand->shape(), shape, dimension);
    });
    if (operands.size() == 1 && operands[0]->shape() == shape) return in.Define(op, 0, operands[0]);
  }
  DimensionsAttributes attributes;
  attributes.dimensions = in.arena().Copy(std::span<const int64_t>(&dimension, 1));
  return in.EmitResults(op, Opcode::kConcatenate, operands, attributes);
}

bool ConvertSlice(Importer& in, const Operation& op) {
  std::vector<int64_t> starts, limits, strides;
  SliceAttributes attributes;
  if (const auto ranges = in.Find(op, {"#0"})) {
    if (!ReadRanges(*ranges, starts, limits, strides)) return in.BadValue(op, "slice", *ranges);
    attributes = {in.arena().Copy(starts), in.arena().Copy(limits), in.arena().Copy(strides)};
  } else if (!in.Integers(op, {"start_indices"}, attributes.starts) ||
             !in.Integers(op, {"limit_indices"}, attributes.limits) ||
             !in.Integers(op, {"strides"}, attributes.strides)) {
    return false;
  }
  if (!in.WantOperands(op, 1) || !in.WantResults(op, 1)) return false;
  const size_t rank = in.Operand(op, 0)->shape()->dims().size();
  if (attributes.starts.size() != rank || attributes.limits.size() != rank ||
      attributes.strides.size() != rank) {
    return in.Fail(op, ParseError::kAttributeValue,
                   fmt::format("slice has ranges for {} dimensions, its operand has {}",
                               attributes.starts.size(), rank));
  }
  return in.EmitResults(op, Opcode::kSlice, in.Operands(op), attributes);
}

// The sizes of a slice whose start is computed, but whose limit is that start plus constants, in
// steps of 1: a dynamic-slice. Nothing for any other.
std::optional<std::vector<int64_t>> SizesFromComputedStart(Importer& in, const Operation& op) {
  std::vector<int64_t> starts, sizes, strides;
  const Operation* limit = op.operands[2]->definition;
  if (in.ConstantIntegers(*op.operands[1], starts) || limit == nullptr ||
      !limit->name.ends_with(".add") || limit->operands.size() != 2 ||
      !in.ConstantIntegers(*op.operands[3], strides) ||
      std::ranges::any_of(strides, [](int64_t stride) { return stride != 1; })) {
    return std::nullopt;
  }
  const size_t at = limit->operands[0] == op.operands[1] ? 0 : 1;
  const Shape* operand = in.Operand(op, 0)->shape();
  if (limit->operands[at] != op.operands[1] ||
      !in.ConstantIntegers(*limit->operands[1 - at], sizes) ||
      static_cast<int64_t>(sizes.size()) != operand->rank() || strides.size() != sizes.size()) {
    return std::nullopt;
  }
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] < 0 || sizes[d] > operand->dim(static_cast<int64_t>(d))) return std::nullopt;
  }
  return sizes;
}

bool EmitDynamicSlice(Importer& in, const Operation& op, const std::vector<int64_t>& sizes) {
  Instruction* starts = in.Operand(op, 1);
  const DType dtype = starts->shape()->dtype();
  std::vector<Instruction*> operands = {in.Operand(op, 0)};
  for (int64_t d = 0; d < static_cast<int64_t>(sizes.size()); ++d) {
    const std::vector<int64_t> begin = {d}, end = {d + 1}, step = {1};
    Instruction* one[] = {in.Emit(
        op, Opcode::kSlice, {&starts, 1},
        SliceAttributes{in.arena().Copy(begin), in.arena().Copy(end), in.arena().Copy(step)},
        in.context().Array(dtype, step))};
    operands.push_back(
        in.Emit(op, Opcode::kReshape, one, ReshapeAttributes{}, in.context().Array(dtype, {})));
  }
  return in.Define(
      op, 0,
      in.Emit(op, Opcode::kDynamicSlice, operands, DynamicSliceAttributes{in.arena().Copy(sizes)},
              in.context().Array(in.Operand(op, 0)->shape()->dtype(), sizes)));
}

bool ConvertRealDynamicSlice(Importer& in, const Operation& op) {
  std::vector<int64_t> starts, limits, strides;
  if (!in.WantOperands(op, 4) || !in.WantResults(op, 1)) return false;
  if (const auto sizes = SizesFromComputedStart(in, op)) return EmitDynamicSlice(in, op, *sizes);
  if (!in.ConstantDims(op, 1, starts) || !in.ConstantDims(op, 2, limits) ||
      !in.ConstantDims(op, 3, strides)) {
    return false;
  }
  const Shape* operand = in.Operand(op, 0)->shape();
  const size_t rank = operand->dims().size();
  std::vector<int64_t> dims;
  for (size_t i = 0; i < rank && i < starts.size() && i < limits.size() && i < strides.size();
       ++i) {
    if (starts[i] < 0 || limits[i] < starts[i] || strides[i] < 1) break;
    dims.push_back((limits[i] - starts[i]) / strides[i] +
                   ((limits[i] - starts[i]) % strides[i] != 0));
  }
  if (dims.size() != rank) {
    return in.Fail(op, ParseError::kShape, "the ranges of this slice do not fit its operand");
  }
  Instruction* const operands[] = {in.Operand(op, 0)};
  return in.Define(op, 0,
                   in.Emit(op, Opcode::kSlice, operands,
                           SliceAttributes{in.arena().Copy(starts), in.arena().Copy(limits),
                                           in.arena().Copy(strides)},
                           in.context().Array(operand->dtype(), dims)));
}

bool EmitPad(Importer& in, const Operation& op, Dims low, Dims high, Dims interior) {
  const size_t rank = in.Operand(op, 0)->shape()->dims().size();
  if (low.size() != rank || high.size() != rank || interior.size() != rank) {
    return in.Fail(op, ParseError::kAttributeValue,
                   fmt::format("the padding does not fit the operand's {} dims", rank));
  }
  std::vector<PadDim> padding(rank);
  for (size_t i = 0; i < rank; ++i) padding[i] = {low[i], high[i], interior[i]};
  Instruction* const operands[] = {in.Operand(op, 0), in.Operand(op, 1)};
  return in.WantResults(op, 1) &&
         in.Define(op, 0,
                   in.Emit(op, Opcode::kPad, operands, PadAttributes{in.arena().Copy(padding)},
                           in.ResultShape(op)));
}

bool ConvertPad(Importer& in, const Operation& op) {
  Dims low, high, interior;
  return in.WantOperands(op, 2) && in.Integers(op, {"edge_padding_low", "low"}, low) &&
         in.Integers(op, {"edge_padding_high", "high"}, high) &&
         in.Integers(op, {"interior_padding", "interior"}, interior) &&
         EmitPad(in, op, low, high, interior);
}

bool ConvertDynamicPad(Importer& in, const Operation& op) {
  std::vector<int64_t> low, high, interior;
  return in.WantOperands(op, 5) && in.ConstantDims(op, 2, low) && in.ConstantDims(op, 3, high) &&
         in.ConstantDims(op, 4, interior) && EmitPad(in, op, low, high, interior);
}

bool ConvertDynamicSlice(Importer& in, const Operation& op) {
  DynamicSliceAttributes attributes;
  if (op.operands.empty()) return in.WantOperands(op, 1);
  if (!in.Integers(op, {"slice_sizes", "sizes"}, attributes.slice_sizes)) return false;
  const Shape* shape = in.ResultShape(op);
  if (shape == nullptr && in.WantResults(op, 1)) {
    shape = in.ArrayOf(op, in.Operand(op, 0)->shape()->dtype(), attributes.slice_sizes);
  }
  return shape != nullptr && in.WantResults(op, 1) &&
         in.Define(op, 0, in.Emit(op, Opcode::kDynamicSlice, in.Operands(op), attributes, shape));
}

bool ConvertGetDimensionSize(Importer& in, const Operation& op) {
  int64_t dimension = 0;
  if (!in.WantOperands(op, 1) || !in.WantResults(op, 1) ||
      !in.Int(op, {"dimension", "dim"}, dimension)) {
    return false;
  }
  const Shape* operand = in.Operand(op, 0)->shape();
  if (dimension < 0 || dimension >= operand->rank()) return in.BadValue(op, "dimension", "");
  if (!operand->IsDynamic(dimension)) {
    Builder builder = in.BuilderFor(op);
    return in.Define(op, 0, builder.ScalarInt(DType::kS32, operand->dim(dimension)));
  }
  DimensionsAttributes attributes;
  attributes.dimensions = in.arena().Copy(std::span<const int64_t>(&dimension, 1));
  return in.EmitResults(op, Opcode::kGetDimensionSize, in.Operands(op), attributes);
}

bool ConvertSetDimensionSize(Importer& in, const Operation& op) {
  int64_t dimension = 0;
  if (!in.WantOperands(op, 2) || !in.WantResults(op, 1) ||
      !in.Int(op, {"dimension", "dim"}, dimension)) {
    return false;
  }
  DimensionsAttributes attributes;
  attributes.dimensions = in.arena().Copy(std::span<const int64_t>(&dimension, 1));
  return in.EmitResults(op, Opcode::kSetDimensionSize, in.Operands(op), attributes);
}

}  // namespace gshard::stablehlo
