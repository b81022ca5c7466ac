#include "core/partition/scope/dim_range.h"

#include <algorithm>

#include "core/partition/scope/masking.h"

namespace gshard {

namespace {

// A range in terms of elements: shard i reads `width` of them from Start(i) on.
struct ElementRange {
  HaloRequest request;
  // Position of element Start(i) minus the first position read, where the same for all shards.
  int64_t phase = 0;
  bool has_one_phase = true;
};

ElementRange ElementsOf(const DimRange& range, int64_t shards, int64_t tile) {
  ElementRange result;
  HaloRequest& request = result.request;
  int64_t b = range.dilation;
  request.shards = shards;
  request.tile = tile;
  request.begin = std::min(range.first, range.size);
  request.size = range.size;
  if (range.end < range.size * b) request.size = std::max<int64_t>(0, CeilOfRatio(range.end, b));
  request.scale = range.scale;
  request.bias = range.bias + b - 1;
  request.divisor = b;
  if (shards == 1) request.scale = 0;
  if (range.scale % b == 0 || shards == 1) {  // exact: no floor is needed
    request.scale /= b;
    request.bias = FloorOfRatio(request.bias, b);
    request.divisor = 1;
  } else {
    result.has_one_phase = false;
  }
  result.phase = request.Start(0) * b - range.bias;
  int64_t phases = result.has_one_phase ? 1 : std::min(shards, b);
  for (int64_t i = 0; i < phases; ++i) {
    int64_t first = range.scale * i + range.bias;
    int64_t count = FloorOfRatio(first + range.length - 1, b) - request.Start(i) + 1;
    request.width = std::max(request.width, count);
  }
  request.needs = range.needs;
  if (!result.has_one_phase && request.needs.empty()) {
    // One width serves all, but at some phases the range holds an element less.
    for (int64_t i = 0; i < shards; ++i) {
      int64_t first = range.scale * i + range.bias;
      request.needs.emplace_back(CeilOfRatio(std::max<int64_t>(0, first), b),
                                 FloorOfRatio(first + range.length - 1, b) + 1);
    }
  }
  if (request.width < 1) {  // nobody reads an element
    request.width = 1;
    result.has_one_phase = false;
  }
  return result;
}

// Does a shard read fill before the first element, after the last one?
std::pair<bool, bool> NeedsFill(const DimRange& range, const HaloRequest& request) {
  bool low = false, high = false;
  for (int64_t i = 0; i < request.shards; ++i) {
    int64_t first = range.scale * i + range.bias;
    int64_t last = std::min(first + range.length, range.end) - 1;
    if (last < first) continue;
    low |= request.Start(i) < 0;
    high |= last >= range.size * range.dilation && request.Start(i) + request.width > range.size;
  }
  return {low, high};
}

// Are the positions before element 0 and behind the last one zeros after the exchange? They are
// where they stand in pieces of tiles that do not exist: devices that no one sends to get zeros.
bool OutsideIsZero(const HaloRequest& request) {
  bool is_static = request.scale == request.tile && request.divisor == 1 && !request.ring;
  if (!is_static || request.begin != 0 || request.size != request.shards * request.tile) {
    return false;
  }
  HaloPlan plan = PlanHalo(request);
  if (plan.form != HaloPlan::Form::kNeighbours || plan.pieces.empty()) return false;
  const HaloPiece& first = plan.pieces.front();
  const HaloPiece& last = plan.pieces.back();
  return first.distance * request.tile + first.low <= request.bias &&
         request.bias + request.width <= last.distance * request.tile + last.high;
}

}  // namespace

HaloPlan PlanRange(const DimRange& range, int64_t shards, double row_bytes, int64_t tile) {
  if (tile == 0) tile = CeilOfRatio(range.size, shards);
  HaloRequest request = ElementsOf(range, shards, tile).request;
  request.row_bytes = row_bytes;
  return PlanHalo(request);
}

FetchedRange FetchRange(PartitionScope& scope, Instruction* local, const ShardedDim& sharded,
                        bool is_cut, const DimRange& range, Instruction* fill,
                        const ReshardCause& cause) {
  const int64_t dim = sharded.dim;
  const AxisSpan axes = sharded.axes;
  Builder& builder = scope.builder();
  ShardGeometry& geometry = scope.geometry();
  int64_t shards = AxesSize(axes);
  int64_t tile = local->shape()->dim(dim);
  ElementRange elements = ElementsOf(range, shards, tile);
  HaloRequest& request = elements.request;
  if (tile > 0) {
    request.row_bytes =
        static_cast<double>(local->shape()->byte_size()) / static_cast<double>(tile);
  }
  DType index =
      std::max(range.size, std::abs(range.scale) * shards) > INT32_MAX ? DType::kS64 : DType::kS32;
  auto start = [&] {
    return geometry.AffineFloor(axes, sharded.layout->order, request.scale, request.bias,
                                request.divisor, index);
  };
  if (tile == 0) {
    local = SliceRange(scope, local, dim, {}, request.width, fill);
  } else if (!is_cut) {
    // Starts further out read fill only, as those at the bounds do.
    auto bounded = [&](int64_t i) {
      return std::clamp(request.Start(i), -request.width, range.size);
    };
    int64_t least = std::min(bounded(0), bounded(shards - 1));
    int64_t greatest = std::max(bounded(0), bounded(shards - 1));
    local =
        SliceRange(scope, local, dim, {least == greatest ? nullptr : start(), 0, least, greatest},
                   request.width, fill);
  } else {
    local = ExchangeHalo(scope, local, sharded, request, cause);
    bool is_filled = fill == nullptr || (HasZeroBits(fill) && OutsideIsZero(request));
    if (!is_filled) {
      auto [low, high] = NeedsFill(range, request);
      local = MaskRange(scope, local, dim, start(), low ? 0 : std::numeric_limits<int64_t>::min(),
                        high ? range.size : std::numeric_limits<int64_t>::max(), fill);
    }
  }
  FetchedRange fetched{local, 0, 0, 1};
  int64_t b = range.dilation;
  if (elements.has_one_phase) {
    fetched.pad_low = elements.phase;
    fetched.pad_high = range.length - elements.phase - ((request.width - 1) * b + 1);
    fetched.dilation = b;
    return fetched;
  }
  // The first element falls at different places: dilate here, then cut.
  std::vector<PadDim> padding(static_cast<size_t>(local->shape()->rank()));
  int64_t dilated = (request.width - 1) * b + 1;
  padding[static_cast<size_t>(dim)] = {b - 1, std::max<int64_t>(0, range.length - dilated), b - 1};
  CheckInternal(fill != nullptr, "a dilated range without a fill value");
  local = builder.Pad(local, fill, padding);
  // From position (b - 1) - (Start * b - first position) of the padded array on.
  Instruction* first =
      geometry.Affine(axes, sharded.layout->order, range.scale, range.bias + b - 1, index);
  Instruction* behind = builder.Add(Opcode::kMultiply, {start(), geometry.Int(b, index)});
  Instruction* from = builder.Add(Opcode::kSubtract, {first, behind});
  fetched.local = SliceRange(scope, local, dim, {from, 0, 0, b - 1}, range.length, nullptr);
  return fetched;
}

Instruction* FetchPositions(PartitionScope& scope, Instruction* local, const ShardedDim& dim,
                            bool is_cut, const DimRange& range, Instruction* fill,
                            const ReshardCause& cause) {
  FetchedRange fetched = FetchRange(scope, local, dim, is_cut, range, fill, cause);
  if (fetched.pad_low == 0 && fetched.pad_high == 0 && fetched.dilation == 1) return fetched.local;
  std::vector<PadDim> padding(static_cast<size_t>(local->shape()->rank()));
  padding[static_cast<size_t>(dim.dim)] = {fetched.pad_low, fetched.pad_high, fetched.dilation - 1};
  CheckInternal(fill != nullptr, "a padded range without a fill value");
  return scope.builder().Pad(fetched.local, fill, padding);
}

}  // namespace gshard
