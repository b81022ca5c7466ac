#include "core/partition/ops/sort_order.h"

#include <tsl/robin_map.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "core/analysis/combiner.h"
#include "core/partition/scope/masking.h"
#include "ir/dims.h"
#include "ir/literal.h"

namespace gshard {

namespace {

DType IndexType(int64_t size) {
  // Tiles may reach beyond the end, by less than the size.
  return size > std::numeric_limits<int32_t>::max() / 2 ? DType::kS64 : DType::kS32;
}

// Does the sort order single values by one comparison that tells all different ones apart? Then
// its direction.
std::optional<ComparisonDirection> PlainDirection(const Instruction& sort) {
  if (sort.operand_count() != 1) return std::nullopt;
  const std::optional<CompareAttributes> compare = ComparisonOf(*sort.called(0));
  const DType dtype = sort.operand(0)->shape()->dtype();
  if (!compare || IsComplex(dtype)) return std::nullopt;
  if (IsFloat(dtype) && compare->type != ComparisonType::kTotalOrder) return std::nullopt;
  const bool tells_apart = compare->direction == ComparisonDirection::kLt ||
                           compare->direction == ComparisonDirection::kGt;
  return tells_apart ? std::optional(compare->direction) : std::nullopt;
}

bool IsIotaAlong(const Instruction& operand, int64_t dim) {
  if (operand.opcode() != Opcode::kIota || operand.attributes<IotaAttributes>().dimension != dim) {
    return false;
  }
  DType dtype = operand.shape()->dtype();
  return IsInteger(dtype) && DTypeBits(dtype) >= DTypeBits(IndexType(operand.shape()->dim(dim)));
}

// What `computation` returns for the arguments, computed in the builder's computation.
Instruction* Inlined(Builder& builder, const Computation& computation,
                     std::span<Instruction* const> arguments) {
  tsl::robin_map<const Instruction*, Instruction*> made;
  for (const Instruction* x : computation.instructions()) {
    if (x->opcode() == Opcode::kParameter) {
      made[x] = arguments[At(x->attributes<ParameterAttributes>().number)];
      continue;
    }
    std::vector<Instruction*> operands;
    for (const Instruction* operand : x->operands()) operands.push_back(made.at(operand));
    made[x] = builder.CloneWith(x, operands, x->shape());
  }
  return made.at(computation.root());
}

}  // namespace

SortOrder::SortOrder(const Instruction& sort, TieOrder ties, bool has_padding)
    : sort_(sort), dim_(sort.attributes<SortAttributes>().dimension) {
  size_ = sort.operand(0)->shape()->dim(dim_);
  std::optional<ComparisonDirection> plain = PlainDirection(sort);
  if (ties == TieOrder::kTotal && !plain.has_value()) {
    for (int64_t i = 0; i < sort.operand_count() && index_ == kNoIndex; ++i) {
      if (IsIotaAlong(*sort.operand(i), dim_)) index_ = i;
    }
    adds_index_ = index_ == kNoIndex;
    if (adds_index_) index_ = sort.operand_count();
  }
  if (!has_padding) return;
  bool has_last = plain.has_value() && HasLastInOrder(sort.operand(0)->shape()->dtype());
  padding_ = index_ != kNoIndex ? Padding::kByIndex
             : has_last         ? Padding::kLastValue
                                : Padding::kFlag;
}

int64_t SortOrder::extra_bytes() const {
  if (padding_ == Padding::kFlag) return 1;
  return adds_index_ ? StorageBytes(IndexType(size_)) : 0;
}

std::vector<Instruction*> SortOrder::Prepare(PartitionScope& scope,
                                             std::span<Instruction* const> locals,
                                             const Shape* base, const MeshLayout* layout,
                                             int64_t tile) const {
  Builder& builder = scope.builder();
  std::vector<Instruction*> values(locals.begin(), locals.end());
  int64_t more = tile - locals[0]->shape()->dim(dim_);
  for (size_t i = 0; i < values.size(); ++i) {
    DType dtype = values[i]->shape()->dtype();
    Instruction* fill = nullptr;
    if (padding_ == Padding::kLastValue) {
      fill = LastInOrder(scope, dtype, PlainDirection(sort_) == ComparisonDirection::kGt);
      const int64_t dims[] = {dim_};
      values[i] = MaskPadding(scope, values[i], base, layout, dims, fill);
    } else if (static_cast<int64_t>(i) == index_) {
      fill = scope.geometry().Int(size_, dtype);
    } else if (more > 0) {
      fill = scope.geometry().Number(dtype, 0);
    }
    if (more > 0) values[i] = builder.PadDimension(values[i], fill, dim_, 0, more);
  }
  if (extra_bytes() > 0) values.push_back(Extra(scope, base, layout, tile));
  return values;
}

Instruction* SortOrder::Extra(PartitionScope& scope, const Shape* base, const MeshLayout* layout,
                              int64_t tile) const {
  Builder& builder = scope.builder();
  ShardGeometry& geometry = scope.geometry();
  std::vector<int64_t> dims = LocalDims(base, layout);
  Instruction* positions = geometry.Positions(dims, dim_, geometry.Offset(base, layout, dim_));
  int64_t more = tile - dims[At(dim_)];
  if (adds_index_) {
    positions = builder.Convert(positions, IndexType(size_));
    Instruction* fill = geometry.Int(size_, IndexType(size_));
    return builder.PadDimension(positions, fill, dim_, 0, more);
  }
  Instruction* limit = geometry.Int(size_, positions->shape()->dtype());
  Instruction* flags =
      builder.Compare(ComparisonDirection::kGe, positions, builder.BroadcastScalar(limit, dims));
  return builder.PadDimension(flags, geometry.Int(1, DType::kPred), dim_, 0, more);
}

Computation* SortOrder::Comparator(PartitionScope& scope) const {
  Computation* given = sort_.called(0);
  if (index_ == kNoIndex && padding_ != Padding::kFlag) return given;
  Module& module = scope.run().module;
  Builder builder(module, module.AddComputation(given->name()));
  std::vector<const Shape*> types;
  for (const Instruction* operand : sort_.operands()) {
    types.push_back(scope.context().Scalar(operand->shape()->dtype()));
  }
  if (extra_bytes() > 0) {
    types.push_back(scope.context().Scalar(adds_index_ ? IndexType(size_) : DType::kPred));
  }
  std::vector<Instruction*> arguments, swapped;
  for (size_t i = 0; i < types.size(); ++i) {
    auto number = static_cast<int64_t>(2 * i);
    arguments.push_back(builder.Parameter(number, types[i], "a"));
    arguments.push_back(builder.Parameter(number + 1, types[i], "b"));
    swapped.push_back(arguments[2 * i + 1]);
    swapped.push_back(arguments[2 * i]);
  }
  auto is_unlike = [&](Instruction* a, Instruction* b) {
    return builder.Compare(ComparisonDirection::kNe, a, b);
  };
  Instruction* less = Inlined(builder, *given, arguments);
  if (index_ != kNoIndex) {
    Instruction* greater = Inlined(builder, *given, swapped);
    Instruction* is_before = builder.Compare(ComparisonDirection::kLt, arguments[At(2 * index_)],
                                             arguments[At(2 * index_ + 1)]);
    less = builder.Select(is_unlike(less, greater), less, is_before);
  }
  if (padding_ == Padding::kByIndex || padding_ == Padding::kFlag) {
    Instruction* is_padding[2] = {arguments[arguments.size() - 2], arguments.back()};
    if (padding_ == Padding::kByIndex) {
      for (size_t side = 0; side < 2; ++side) {
        Instruction* index = arguments[At(2 * index_) + side];
        Instruction* size = builder.ScalarInt(index->shape()->dtype(), size_);
        is_padding[side] = builder.Compare(ComparisonDirection::kGe, index, size);
      }
    }
    less = builder.Select(is_unlike(is_padding[0], is_padding[1]), is_padding[1], less);
  }
  builder.computation()->set_root(less);
  return builder.computation();
}

std::vector<Instruction*> SortTogether(Builder& builder, std::span<Instruction* const> values,
                                       const SortAttributes& attributes, Computation* comparator) {
  std::vector<const Shape*> shapes;
  for (Instruction* value : values) shapes.push_back(value->shape()->bare());
  Computation* called[] = {comparator};
  bool is_one = shapes.size() == 1;
  const Shape* shape = is_one ? shapes[0] : builder.context().Tuple(shapes);
  Instruction* sorted = builder.Add(Opcode::kSort, values, attributes, shape, called);
  if (is_one) return {sorted};
  std::vector<Instruction*> elements;
  for (int64_t i = 0; i < static_cast<int64_t>(shapes.size()); ++i) {
    elements.push_back(builder.GetTupleElement(sorted, i));
  }
  return elements;
}

Instruction* LastInOrder(PartitionScope& scope, DType dtype, bool largest_first) {
  if (!IsFloat(dtype)) {
    return Identity(scope, largest_first ? Opcode::kMaximum : Opcode::kMinimum, dtype);
  }
  // A NaN with all bits set below the sign, which is set if it comes lowest.
  std::vector<std::byte> bits(At(StorageBytes(dtype)), std::byte{0xff});
  if (!largest_first) bits.back() = std::byte{0x7f};  // little endian: the sign is in the last byte
  const Shape* scalar = scope.context().Scalar(dtype);
  return scope.builder().Constant(RawLiteral(scope.run().module.arena(), scalar, bits));
}

bool HasLastInOrder(DType dtype) {
  switch (dtype) {
    case DType::kF16:
    case DType::kBF16:
    case DType::kF32:
    case DType::kF64:
      return true;
    default:
      return IsInteger(dtype) && DTypeBits(dtype) >= 8;
  }
}

}  // namespace gshard
