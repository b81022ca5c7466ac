#include "core/partition/halo.h"

#include <algorithm>

namespace gshard {

namespace {

// The position with digits `coordinate` on `axes` and the digits of `position` elsewhere.
int64_t WithCoordinate(AxisSpan axes, int64_t position, int64_t coordinate) {
  for (size_t i = axes.size(); i-- > 0;) {
    const DeviceAxis& axis = axes[i];
    int64_t digit = (position / axis.stride) % axis.size;
    position += (coordinate % axis.size - digit) * axis.stride;
    coordinate /= axis.size;
  }
  return position;
}

}  // namespace

Instruction* ExchangeHalo(PartitionScope& scope, Instruction* local, int64_t dim,
                          const MeshLayout* layout, AxisSpan axes, const HaloRequest& request,
                          const ReshardCause& cause) {
  Builder& builder = scope.builder();
  HaloPlan plan = PlanHalo(request);
  auto slice = [&](Instruction* x, int64_t low, int64_t high) {
    std::vector<int64_t> starts(static_cast<size_t>(x->shape()->rank()), 0);
    std::vector<int64_t> limits(x->shape()->dims().begin(), x->shape()->dims().end());
    starts[static_cast<size_t>(dim)] = low;
    limits[static_cast<size_t>(dim)] = high;
    return builder.Slice(x, starts, limits);
  };
  // The buffer is contiguous from `origin` (relative to the own tile's start): between the first
  // and the last piece whole tiles are taken.
  int64_t origin = 0, end = 0;
  std::vector<Instruction*> parts;
  for (size_t k = 0; k < plan.pieces.size(); ++k) {
    const HaloPiece& piece = plan.pieces[k];
    int64_t low = k == 0 ? piece.low : 0;
    int64_t high = k + 1 == plan.pieces.size() ? piece.high : request.tile;
    int64_t begin = piece.distance * request.tile + low;
    if (k == 0) {
      origin = end = begin;
    }
    CheckInternal(begin == end, "halo pieces with a gap between them");
    end = piece.distance * request.tile + high;
    Instruction* part = slice(local, low, high);
    if (piece.distance != 0) {
      std::vector<uint8_t> receives(static_cast<size_t>(request.shards), 0);
      for (int64_t i : piece.receivers) receives[static_cast<size_t>(i)] = 1;
      std::vector<DevicePair> pairs;
      for (int64_t position = 0; position < scope.device_count(); ++position) {
        int64_t i = CoordinateOnAxes(axes, position);
        if (receives[static_cast<size_t>(i)] == 0) continue;
        DevicePair pair{WithCoordinate(axes, position, i + piece.distance), position};
        if (layout->order != nullptr) {
          pair.source = layout->order->devices[static_cast<size_t>(pair.source)];
          pair.target = layout->order->devices[static_cast<size_t>(pair.target)];
        }
        pairs.push_back(pair);
      }
      std::sort(pairs.begin(), pairs.end(),
                [](const DevicePair& a, const DevicePair& b) { return a.source < b.source; });
      part = scope.CollectivePermute(part, pairs, cause);
    }
    parts.push_back(part);
  }
  if (parts.empty()) {  // nobody needs data
    parts.push_back(slice(local, 0, std::min<int64_t>(1, request.tile)));
    end = origin + std::min<int64_t>(1, request.tile);
  }
  Instruction* buffer = builder.Concatenate(parts, dim);

  // Where the wanted range starts in the buffer, for each shard; padded so that it fits.
  int64_t least = INT64_MAX, greatest = INT64_MIN;
  for (int64_t i = 0; i < request.shards; ++i) {
    int64_t at = request.Start(i) - i * request.tile - origin;
    least = std::min(least, at);
    greatest = std::max(greatest, at);
  }
  int64_t length = end - origin;
  std::vector<PadDim> padding(static_cast<size_t>(local->shape()->rank()));
  PadDim& pad = padding[static_cast<size_t>(dim)];
  pad.low = std::max<int64_t>(0, -least);
  pad.high = std::max<int64_t>(0, greatest + request.width - length);
  if (least == greatest) pad.low = -least;  // may crop
  if (least == greatest) pad.high = least + request.width - length;
  DType dtype = local->shape()->dtype();
  if (pad.low != 0 || pad.high != 0) {
    if (pad.low <= 0 && pad.high <= 0) {
      buffer = slice(buffer, -pad.low, length + pad.high);
    } else {
      buffer = builder.Pad(buffer, scope.geometry().Number(dtype, 0), padding);
    }
  }
  if (least == greatest) return buffer;
  // start = Start(i) - i * tile - origin + pad.low, with the i * tile under the floor.
  Instruction* start = scope.geometry().AffineFloor(
      axes, layout->order, request.scale - request.tile * request.divisor,
      request.bias + (pad.low - origin) * request.divisor, request.divisor);
  std::vector<Instruction*> starts(static_cast<size_t>(local->shape()->rank()),
                                   scope.geometry().Int(0));
  starts[static_cast<size_t>(dim)] = start;
  std::vector<int64_t> sizes(buffer->shape()->dims().begin(), buffer->shape()->dims().end());
  sizes[static_cast<size_t>(dim)] = request.width;
  return builder.DynamicSlice(buffer, starts, sizes);
}

}  // namespace gshard
