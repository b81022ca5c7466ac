#include "core/partition/scope/range_cut.h"

#include <algorithm>
#include <limits>

namespace gshard {

namespace {

constexpr size_t kMaxAxisChoices = 64;

size_t Combinations(const std::vector<std::vector<RangeCut>>& alternatives) {
  size_t count = 1;
  for (const std::vector<RangeCut>& list : alternatives) {
    count = std::min(count * list.size(), 2 * kMaxAxisChoices);
  }
  return count;
}

// Largest value of an integer type that an int64 holds.
int64_t LargestOf(DType dtype) {
  int bits = DTypeBits(dtype) - (ClassOf(dtype) == DTypeClass::kSigned ? 1 : 0);
  return bits >= 63 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << bits) - 1;
}

}  // namespace

CutChoice ChooseCuts(PartitionContext& rule, std::span<PartitionedValue* const> operands,
                     std::vector<std::vector<RangeCut>> alternatives,
                     std::span<const MeshLayout* const> wanted,
                     const std::function<Labels(std::span<const RangeCut>)>& labels_of) {
  for (std::vector<RangeCut>& list : alternatives) {
    if (Combinations(alternatives) <= kMaxAxisChoices) break;
    if (list.size() > 1) list.resize(1);
  }
  CutChoice best;
  std::vector<RangeCut> cuts(alternatives.size());
  size_t combinations = Combinations(alternatives);
  for (size_t n = 0; n < combinations; ++n) {
    size_t rest = n;
    for (size_t d = 0; d < cuts.size(); ++d) {
      cuts[d] = alternatives[d][rest % alternatives[d].size()];
      rest /= alternatives[d].size();
    }
    Strategy strategy =
        ChooseStrategy(rule.scope(), labels_of(cuts), operands, rule.ResultShapes(), wanted);
    if (n == 0 || strategy.cost < best.strategy.cost) best = {cuts, std::move(strategy)};
    if (best.strategy.cost == 0) break;  // all in place
  }
  return best;
}

int64_t MostTiles(const PartitionedValue& value, int64_t dim) {
  int64_t most = 1;
  auto consider = [&](const MeshLayout* layout) {
    if (layout == nullptr || layout->kind != MeshLayout::Kind::kTiled) return;
    most = std::max(most, layout->Count(dim));
  };
  consider(value.layout);
  for (const PartitionedValue::Variant& variant : value.variants) consider(variant.layout);
  return most;
}

bool IsEverCut(const PartitionedValue& value, int64_t dim) { return MostTiles(value, dim) > 1; }

double RowBytes(const PartitionedValue& value, int64_t dim) {
  const MeshLayout* layout = value.layout;
  if (!value.variants.empty()) layout = value.variants[0].layout;
  bool is_tiled = layout != nullptr && layout->kind == MeshLayout::Kind::kTiled &&
                  layout->rank() == value.shape->rank();
  double row = static_cast<double>(DTypeBits(value.shape->dtype())) / 8;
  for (int64_t d = 0; d < value.shape->rank(); ++d) {
    if (d == dim) continue;
    row *= static_cast<double>(CeilOfRatio(value.shape->dim(d), is_tiled ? layout->Count(d) : 1));
  }
  return row;
}

double HaloCost(PartitionScope& scope, const PartitionedValue& operand, int64_t dim,
                const DimRange& range, int64_t shards) {
  if (range.size == 0) return 0;
  double row = RowBytes(operand, dim);
  HaloPlan plan = PlanRange(range, shards, row);
  return row * static_cast<double>(plan.elements_received) +
         scope.run().options.bytes_per_message * static_cast<double>(plan.messages);
}

Instruction* ReductionIdentity(PartitionScope& scope, DType dtype) {
  return scope.builder().Scalar(dtype, IsFloat(dtype) ? -0.0 : 0.0);
}

Opcode DisjointCombiner(DType dtype) { return dtype == DType::kPred ? Opcode::kOr : Opcode::kAdd; }

bool CanMerge(DType dtype) {
  switch (dtype) {
    case DType::kPred:
    case DType::kF16:
    case DType::kBF16:
    case DType::kF32:
    case DType::kF64:
    case DType::kC64:
    case DType::kC128:
      return true;
    default:
      return IsInteger(dtype) && DTypeBits(dtype) >= 8;
  }
}

OwnWindow FindOwnWindow(PartitionScope& scope, Instruction* delta, int64_t width, int64_t tile) {
  Builder& builder = scope.builder();
  DType index = delta->shape()->dtype();
  auto number = [&](int64_t value) { return scope.geometry().Int(value, index); };
  OwnWindow own;
  own.width = std::min(width, tile);
  own.from =
      own.width == tile ? number(0) : builder.Clamp(number(0), delta, number(tile - own.width));
  own.shift = builder.Binary(Opcode::kSubtract, delta, own.from);
  own.is_in =
      builder.Binary(Opcode::kAnd, builder.Compare(ComparisonDirection::kGe, delta, number(0)),
                     builder.Compare(ComparisonDirection::kLt, delta, number(tile)));
  return own;
}

Instruction* ClampedIndex(PartitionScope& scope, Instruction* index, int64_t bound) {
  Builder& builder = scope.builder();
  ShardGeometry& geometry = scope.geometry();
  DType dtype = index->shape()->dtype();
  std::span<const int64_t> dims = index->shape()->dims();
  auto number = [&](int64_t value) {
    return builder.BroadcastScalar(geometry.Int(value, dtype), dims);
  };
  if (ClassOf(dtype) == DTypeClass::kSigned) {
    index = builder.Binary(Opcode::kMaximum, index, number(0));
  }
  if (bound < LargestOf(dtype)) index = builder.Binary(Opcode::kMinimum, index, number(bound));
  return builder.Convert(index, bound > INT32_MAX ? DType::kS64 : DType::kS32);
}

}  // namespace gshard
