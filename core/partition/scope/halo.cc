#include "core/partition/scope/halo.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/partition/layout/device_permutation.h"
#include "core/partition/scope/masking.h"

namespace gshard {

namespace {

// s32 unless positions may leave it.
DType IndexType(const HaloRequest& request) {
  int64_t reach = std::max({request.scale * request.shards, -request.scale * request.shards,
                            request.tile * request.shards});
  reach = (reach + std::max(request.bias, -request.bias) + 2 * request.width) *
          std::max<int64_t>(1, request.divisor);
  return reach > INT32_MAX ? DType::kS64 : DType::kS32;
}

// Emits one exchange.
class Exchange {
 public:
  Exchange(PartitionScope& scope, Instruction* local, const ShardedDim& dim,
           const HaloRequest& request, const ReshardCause& cause)
      : scope_(scope),
        builder_(scope.builder()),
        geometry_(scope.geometry()),
        local_(local),
        dim_(dim.dim),
        layout_(dim.layout),
        axes_(dim.axes),
        request_(request),
        cause_(cause),
        index_type_(IndexType(request)) {}

  Instruction* Run(const HaloPlan& plan) {
    switch (plan.form) {
      case HaloPlan::Form::kNeighbours:
        return Neighbours(plan);
      case HaloPlan::Form::kRounds:
        return Rounds(plan);
      case HaloPlan::Form::kOneTile:
        return OneTile(plan);
      case HaloPlan::Form::kGather:
        break;
    }
    Instruction* all = scope_.AllGather(local_, dim_, layout_, axes_, cause_);
    return Wanted(all, 0, 0);
  }

 private:
  // --- scalar arithmetic
  Instruction* Int(int64_t value) { return geometry_.Int(value, index_type_); }
  Instruction* Op(Opcode opcode, Instruction* a, Instruction* b) {
    return builder_.Add(opcode, {a, b});
  }
  Instruction* Op(Opcode opcode, Instruction* a, int64_t b) { return Op(opcode, a, Int(b)); }
  // floor(x / divisor), where x >= least.
  Instruction* FloorDivide(Instruction* x, int64_t divisor, int64_t least) {
    if (divisor == 1) return x;
    int64_t shift = least < 0 ? CeilOfRatio(-least, divisor) : 0;
    if (shift > 0) x = Op(Opcode::kAdd, x, shift * divisor);
    x = Op(Opcode::kDivide, x, divisor);
    return shift > 0 ? Op(Opcode::kSubtract, x, shift) : x;
  }
  // request.Start(i).
  Instruction* StartOf(Instruction* i) {
    Instruction* x = i;
    if (request_.scale != 1) x = Op(Opcode::kMultiply, x, request_.scale);
    if (request_.bias != 0) x = Op(Opcode::kAdd, x, request_.bias);
    int64_t last = request_.bias + request_.scale * (request_.shards - 1);
    return FloorDivide(x, request_.divisor, std::min(request_.bias, last));
  }

  // --- movement
  Instruction* Permute(Instruction* x, const std::vector<int64_t>& source_of) {
    return PermuteTiles(scope_, x, layout_, axes_, source_of, cause_);
  }

  // The edge [low, high) of the tiles that `source_of` names. Operations that read the same value
  // share it (a convolution and the gradient of its kernel, for one).
  Instruction* Edge(int64_t low, int64_t high, const std::vector<int64_t>& source_of) {
    std::vector<int64_t> key = {reinterpret_cast<int64_t>(local_),
                                reinterpret_cast<int64_t>(layout_->order), dim_, low, high};
    for (const DeviceAxis& axis : axes_) {
      key.push_back(axis.size);
      key.push_back(axis.stride);
    }
    key.insert(key.end(), source_of.begin(), source_of.end());
    Instruction*& known = scope_.Exchanged(key);
    if (known == nullptr) known = Permute(builder_.SliceDim(local_, dim_, low, high), source_of);
    return known;
  }

  // The wanted range from a buffer whose first element is at `origin` + ordinal * `stride`.
  Instruction* Wanted(Instruction* buffer, int64_t origin, int64_t stride) {
    int64_t least = std::numeric_limits<int64_t>::max();
    int64_t greatest = std::numeric_limits<int64_t>::min();
    for (int64_t i = 0; i < request_.shards; ++i) {
      int64_t at = request_.Start(i) - i * stride - origin;
      bool reads =
          request_.Start(i) < request_.size && request_.Start(i) + request_.width > request_.begin;
      if (!reads && !request_.ring) continue;
      least = std::min(least, at);
      greatest = std::max(greatest, at);
    }
    if (least > greatest) least = greatest = 0;  // nobody reads
    Instruction* start = nullptr;
    int64_t shift = std::max<int64_t>(0, -least);
    if (least != greatest) {  // the shift is folded into the affine function
      start = geometry_.AffineFloor(
          axes_, layout_->order, request_.scale - stride * request_.divisor,
          request_.bias + (shift - origin) * request_.divisor, request_.divisor, index_type_);
    }
    return SliceRange(scope_, buffer, dim_, {start, -shift, least, greatest}, request_.width,
                      nullptr);
  }

  Instruction* Neighbours(const HaloPlan& plan) {
    std::vector<Instruction*> parts;
    for (const HaloPiece& piece : plan.pieces) {
      Instruction* part = nullptr;
      if (piece.distance == 0) {
        part = builder_.SliceDim(local_, dim_, piece.low, piece.high);
      } else {
        std::vector<int64_t> source_of(static_cast<size_t>(request_.shards), -1);
        for (int64_t i : piece.receivers) {
          int64_t source = i + piece.distance;
          if (request_.ring) {
            source -= FloorOfRatio(source, request_.shards) * request_.shards;
          }
          source_of[static_cast<size_t>(i)] = source;
        }
        part = Edge(piece.low, piece.high, source_of);
      }
      parts.push_back(part);
    }
    if (parts.empty()) {  // nobody needs data
      parts.push_back(builder_.SliceDim(local_, dim_, 0, std::min<int64_t>(1, request_.tile)));
      return Wanted(parts[0], 0, 0);
    }
    const HaloPiece& first = plan.pieces.front();
    return Wanted(builder_.Concatenate(parts, dim_), first.distance * request_.tile + first.low,
                  request_.tile);
  }

  Instruction* OneTile(const HaloPlan& plan) {
    std::vector<int64_t> source_of(static_cast<size_t>(request_.shards), -1);
    for (auto [source, receiver] : plan.rounds[0].pairs) {
      source_of[static_cast<size_t>(receiver)] = source;
    }
    const HaloPiece& piece = plan.pieces[0];
    auto [source, receiver] = plan.rounds[0].pairs[0];
    int64_t place = request_.Start(receiver) - source * request_.tile - piece.low;
    return SliceRange(scope_, Edge(piece.low, piece.high, source_of), dim_,
                      {nullptr, 0, place, place}, request_.width, nullptr);
  }

  Instruction* Rounds(const HaloPlan& plan);
  // The lowest shard that reads from the own tile, if any does.
  Instruction* LowestReader(Instruction* own);
  // result[p] = part[p - place] for the positions of the mask; `least`, `greatest`: of place.
  void Place(Instruction*& result, Instruction* part, Instruction* place, int64_t least,
             int64_t greatest, Instruction* low, Instruction* high);

  PartitionScope& scope_;
  Builder& builder_;
  ShardGeometry& geometry_;
  Instruction* local_;
  int64_t dim_;
  const MeshLayout* layout_;
  AxisSpan axes_;
  const HaloRequest& request_;
  const ReshardCause& cause_;
  DType index_type_;
};

Instruction* Exchange::LowestReader(Instruction* own) {
  const HaloRequest& r = request_;
  Instruction* numerator = nullptr;
  int64_t least = 0;
  if (r.scale > 0) {
    // start(i) + width > what is first to arrive from the own tile.
    Instruction* first = Op(Opcode::kMultiply, own, r.tile);
    if (r.begin > 0) first = Op(Opcode::kMaximum, first, r.begin);
    numerator = r.divisor == 1 ? first : Op(Opcode::kMultiply, first, r.divisor);
    int64_t rest = r.divisor * (1 - r.width) - r.bias + r.scale - 1;
    numerator = Op(Opcode::kAdd, numerator, rest);
    least = rest;
  } else {
    // start(i) < end of the own tile's data.
    Instruction* end = Op(Opcode::kMultiply, Op(Opcode::kAdd, own, 1), r.tile);
    end = Op(Opcode::kMinimum, end, r.size);
    int64_t rest = r.bias + 1 - r.scale - 1;
    numerator = Op(Opcode::kSubtract, Int(rest), Op(Opcode::kMultiply, end, r.divisor));
    least = rest - r.size * r.divisor;
  }
  Instruction* lowest = FloorDivide(numerator, std::max(r.scale, -r.scale), least);
  return Op(Opcode::kMaximum, lowest, Int(0));
}

void Exchange::Place(Instruction*& result, Instruction* part, Instruction* place, int64_t least,
                     int64_t greatest, Instruction* low, Instruction* high) {
  // p - place: reads the part from -place on.
  Instruction* start = least == greatest ? nullptr : Op(Opcode::kSubtract, Int(0), place);
  Instruction* placed =
      SliceRange(scope_, part, dim_, {start, 0, -greatest, -least}, request_.width, nullptr);
  if (result == nullptr) {
    result = placed;
    return;
  }
  std::span<const int64_t> dims = placed->shape()->dims();
  Instruction* positions = geometry_.Positions(dims, dim_, Int(0));
  Instruction* mask = builder_.Binary(
      Opcode::kAnd,
      builder_.Compare(ComparisonDirection::kGe, positions, builder_.BroadcastScalar(low, dims)),
      builder_.Compare(ComparisonDirection::kLt, positions, builder_.BroadcastScalar(high, dims)));
  result = builder_.Select(mask, placed, result);
}

Instruction* Exchange::Rounds(const HaloPlan& plan) {
  const HaloRequest& r = request_;
  auto period = static_cast<int64_t>(plan.rounds.size());
  // A multiple of the period that keeps differences of shard numbers positive.
  int64_t lift = CeilOfRatio(2 * r.shards + period, period) * period;
  Instruction* own = geometry_.Ordinal(axes_, layout_->order, index_type_);
  Instruction* start = StartOf(own);
  Instruction* begin = Op(Opcode::kMaximum, start, r.begin);
  Instruction* end = Op(Opcode::kMinimum, Op(Opcode::kAdd, start, r.width), r.size);

  Instruction* result = nullptr;
  if (plan.reads_own) {
    Instruction* at = Op(Opcode::kMultiply, own, r.tile);
    Instruction* place = Op(Opcode::kSubtract, at, start);
    int64_t least = std::numeric_limits<int64_t>::max();
    int64_t greatest = std::numeric_limits<int64_t>::min();
    for (int64_t i = 0; i < r.shards; ++i) {
      int64_t where = i * r.tile - r.Start(i);
      if (where >= r.width || where + r.tile <= 0) continue;
      least = std::min(least, where);
      greatest = std::max(greatest, where);
    }
    Place(result, local_, place, least, greatest, nullptr, nullptr);
  }
  Instruction* lowest = nullptr;
  Instruction* first = nullptr;
  for (int64_t t = 0; t < period; ++t) {
    const HaloRound& round = plan.rounds[static_cast<size_t>(t)];
    if (round.pairs.empty()) continue;
    int64_t slack = r.tile - round.length;
    // As sender: the reader of this round and what it wants of the own tile.
    Instruction* sent = local_;
    if (slack > 0) {
      if (lowest == nullptr) lowest = LowestReader(own);
      Instruction* turn = Op(Opcode::kSubtract, Int(t + lift), Op(Opcode::kAdd, own, lowest));
      Instruction* reader = Op(Opcode::kAdd, lowest, Op(Opcode::kRemainder, turn, period));
      Instruction* wanted = Op(Opcode::kMaximum, StartOf(reader), r.begin);
      Instruction* from = Op(Opcode::kSubtract, wanted, Op(Opcode::kMultiply, own, r.tile));
      from = builder_.Clamp(Int(0), from, Int(slack));
      sent = SliceRange(scope_, local_, dim_, {from, 0, 0, slack}, round.length, nullptr);
    }
    std::vector<int64_t> source_of(static_cast<size_t>(r.shards), -1);
    int64_t least = std::numeric_limits<int64_t>::max();
    int64_t greatest = std::numeric_limits<int64_t>::min();
    for (auto [source, receiver] : round.pairs) {
      source_of[static_cast<size_t>(receiver)] = source;
      int64_t wanted = std::max(r.Start(receiver), r.begin) - source * r.tile;
      int64_t where = source * r.tile + std::clamp<int64_t>(wanted, 0, slack) - r.Start(receiver);
      least = std::min(least, where);
      greatest = std::max(greatest, where);
    }
    Instruction* received = Permute(sent, source_of);
    // As receiver: which tile came, and where it belongs.
    if (first == nullptr) first = Op(Opcode::kDivide, begin, r.tile);
    Instruction* turn = Op(Opcode::kSubtract, Int(t + lift), Op(Opcode::kAdd, own, first));
    Instruction* source = Op(Opcode::kAdd, first, Op(Opcode::kRemainder, turn, period));
    Instruction* at = Op(Opcode::kMultiply, source, r.tile);
    Instruction* low = Op(Opcode::kMaximum, begin, at);
    Instruction* place = Op(Opcode::kMinimum, low, Op(Opcode::kAdd, at, slack));
    place = Op(Opcode::kSubtract, place, start);
    Instruction* high = Op(Opcode::kMinimum, end, Op(Opcode::kAdd, at, r.tile));
    if (plan.reads_own) {
      Instruction* is_own = builder_.Compare(ComparisonDirection::kEq, source, own);
      high = builder_.Select(is_own, low, high);
    }
    Place(result, received, place, least, greatest, Op(Opcode::kSubtract, low, start),
          Op(Opcode::kSubtract, high, start));
  }
  return result;
}

}  // namespace

Instruction* PermuteTiles(PartitionScope& scope, Instruction* x, const MeshLayout* layout,
                          AxisSpan axes, std::span<const int64_t> source_of,
                          const ReshardCause& cause) {
  std::vector<DevicePair> pairs =
      PermutationAlong(axes, source_of, layout->order, scope.device_count());
  return scope.CollectivePermute(x, pairs, cause);
}

Instruction* SliceRange(PartitionScope& scope, Instruction* local, int64_t dim,
                        const RangeStart& from, int64_t width, Instruction* fill) {
  Builder& builder = scope.builder();
  const auto [start, shift, least, greatest] = from;
  int64_t length = local->shape()->dim(dim);
  int64_t low = std::max<int64_t>(0, -least);
  int64_t high = std::max<int64_t>(0, greatest + width - length);
  auto rank = static_cast<size_t>(local->shape()->rank());
  auto at = static_cast<size_t>(dim);
  if (fill == nullptr) fill = scope.geometry().Number(local->shape()->dtype(), 0);
  if (least == greatest) {
    // Crops what it can before padding.
    int64_t begin = std::clamp<int64_t>(least, 0, length);
    int64_t end = std::clamp<int64_t>(least + width, begin, length);
    local = builder.SliceDim(local, dim, begin, end);
    std::vector<PadDim> padding(rank);
    padding[at].low = std::clamp<int64_t>(-least, 0, width);
    padding[at].high = width - padding[at].low - (end - begin);
    return builder.Pad(local, fill, padding);
  }
  std::vector<PadDim> padding(rank);
  padding[at] = {low, high, 0};
  local = builder.Pad(local, fill, padding);
  const DType index = start->shape()->dtype();
  std::vector<Instruction*> starts(rank, scope.geometry().Int(0, index));
  starts[at] = shift + low == 0
                   ? start
                   : builder.Add(Opcode::kAdd, {start, scope.geometry().Int(shift + low, index)});
  std::vector<int64_t> sizes(local->shape()->dims().begin(), local->shape()->dims().end());
  sizes[at] = width;
  return builder.DynamicSlice(local, starts, sizes);
}

Instruction* ExchangeHalo(PartitionScope& scope, Instruction* local, const ShardedDim& dim,
                          const HaloRequest& request, const ReshardCause& cause) {
  ReshardCause told = cause;
  std::string note;
  if (cause.note.empty() && cause.user != nullptr) {
    const bool has_value = cause.value != nullptr && cause.value != cause.user;
    note = fmt::format("{} reads beyond its tile{}{}", cause.user->name(), has_value ? " of " : "",
                       has_value ? cause.value->name() : std::string_view());
    told.note = note;
  }
  return Exchange(scope, local, dim, request, told).Run(PlanHalo(request));
}

}  // namespace gshard
