#include "core/pipeline/emit/region_shardings.h"

#include <utility>

namespace gshard::pipeline {
namespace {

// A sharding as its dims and the axes of each; subgroups follow the data dims.
struct Parts {
  std::vector<int64_t> dims;
  std::vector<std::vector<DeviceAxis>> axes;
  std::vector<SubgroupType> subgroups;

  void Insert(size_t at, int64_t size, DeviceAxis axis) {
    dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(at), size);
    axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(at), {axis});
  }
  TileAssignment Tiles() const {
    std::vector<DeviceAxis> flat;
    for (const auto& of : axes) flat.insert(flat.end(), of.begin(), of.end());
    return TileAssignment::FromAxes(dims, std::move(flat));
  }
};

// Of a sharding over `devices` devices; what is not tiled by axes counts as replicated.
Parts PartsOf(int64_t rank, const Sharding* s, int64_t devices) {
  Parts parts;
  if (s != nullptr && s->IsTiled() && s->data_rank() == rank) {
    if (auto axes = s->tiles.AxesByDim()) {
      parts.dims.assign(s->tiles.dims().begin(), s->tiles.dims().end());
      parts.axes = std::move(*axes);
      parts.subgroups = s->subgroups;
      return parts;
    }
  }
  parts.dims.assign(static_cast<size_t>(rank), 1);
  parts.axes.resize(static_cast<size_t>(rank));
  if (devices > 1) {
    parts.Insert(parts.dims.size(), devices, {devices, 1});
    parts.subgroups.push_back(SubgroupType::kReplicated);
  }
  return parts;
}

}  // namespace

const Sharding* RegionShardings::Outside(int64_t rank, const Sharding* s, int64_t stage_dim) const {
  if (stages_ == 1) return s != nullptr ? s : context_->Replicated();
  if (s != nullptr && s->IsManual()) return s;
  Parts parts = PartsOf(rank, s, devices_);
  const DeviceAxis stage{stages_, devices_};
  if (stage_dim < 0) {
    parts.Insert(parts.dims.size(), stages_, stage);
    parts.subgroups.push_back(SubgroupType::kReplicated);
  } else {
    size_t d = static_cast<size_t>(stage_dim);
    parts.dims[d] *= stages_;
    parts.axes[d].insert(parts.axes[d].begin(), stage);
  }
  return context_->Tiled(parts.Tiles(), parts.subgroups);
}

std::optional<const Sharding*> RegionShardings::WithinStage(int64_t rank,
                                                            const Sharding* outside) const {
  if (rank == 0 || outside == nullptr || !outside->IsTiled()) return std::nullopt;
  Parts parts = PartsOf(rank, outside, device_count());
  const DeviceAxis stage{stages_, devices_};
  if (parts.axes[0].empty() || parts.axes[0].front() != stage) return std::nullopt;
  parts.dims[0] /= stages_;
  parts.axes[0].erase(parts.axes[0].begin());
  const Sharding* s =
      devices_ == 1 ? nullptr : context_->Tiled(parts.Tiles(), std::move(parts.subgroups));
  if (Outside(rank, s, 0) != outside) return std::nullopt;
  return s;
}

const Sharding* RegionShardings::Inside(int64_t rank, const Sharding* s) const {
  if (stages_ == 1) return s != nullptr ? s : context_->Replicated();
  if (is_fully_manual() || (s != nullptr && s->IsManual())) return context_->Manual();
  Parts parts = PartsOf(rank, s, devices_);
  parts.Insert(static_cast<size_t>(rank), stages_, {stages_, devices_});
  parts.subgroups.insert(parts.subgroups.begin(), SubgroupType::kManual);
  return context_->Tiled(parts.Tiles(), parts.subgroups);
}

}  // namespace gshard::pipeline
