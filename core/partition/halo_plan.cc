#include "core/partition/halo_plan.h"

#include <algorithm>
#include <map>

namespace gshard {

namespace {

int64_t FloorOfRatio(int64_t a, int64_t b) {
  int64_t quotient = a / b;
  return a % b < 0 ? quotient - 1 : quotient;
}

}  // namespace

int64_t HaloRequest::Start(int64_t i) const { return FloorOfRatio(scale * i + bias, divisor); }

HaloPlan PlanHalo(const HaloRequest& request) {
  std::map<int64_t, HaloPiece> pieces;
  for (int64_t i = 0; i < request.shards; ++i) {
    int64_t begin = std::max<int64_t>(request.Start(i), 0);
    int64_t end = std::min(request.Start(i) + request.width, request.size);
    if (begin >= end) continue;
    int64_t last = std::min((end - 1) / request.tile, request.shards - 1);
    for (int64_t source = begin / request.tile; source <= last; ++source) {
      int64_t low = std::max(begin - source * request.tile, int64_t{0});
      int64_t high = std::min(end - source * request.tile, request.tile);
      auto [found, added] = pieces.try_emplace(source - i);
      HaloPiece& piece = found->second;
      if (added) {
        piece = {source - i, low, high, {}};
      } else {
        piece.low = std::min(piece.low, low);
        piece.high = std::max(piece.high, high);
      }
      piece.receivers.push_back(i);
    }
  }
  HaloPlan plan;
  for (auto& [distance, piece] : pieces) {
    if (distance != 0) plan.elements_received += piece.high - piece.low;
    plan.pieces.push_back(std::move(piece));
  }
  return plan;
}

}  // namespace gshard
