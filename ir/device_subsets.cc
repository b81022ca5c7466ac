#include "ir/device_subsets.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "ir/sharding.h"

namespace gshard {
namespace {

// The leaves of a sharding of a tuple, or the sharding itself.
std::span<const Sharding* const> Leaves(const Sharding* const& sharding) {
  if (sharding->IsTuple()) return sharding->elements;
  return {&sharding, 1};
}

template <typename Visit>  // bool(const Instruction*, const Sharding*): go on?
void ForEachTiledLeaf(const Module& module, Visit visit) {
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      const Sharding* sharding = x->sharding();
      if (sharding == nullptr) continue;
      for (const Sharding* leaf : Leaves(sharding)) {
        if (leaf->IsTiled() && !visit(x, leaf)) return;
      }
    }
  }
}

}  // namespace

std::optional<int64_t> FirstRepeated(std::span<const int64_t> devices) {
  std::vector<int64_t> sorted(devices.begin(), devices.end());
  std::ranges::sort(sorted);
  const auto repeated = std::ranges::adjacent_find(sorted);
  if (repeated == sorted.end()) return std::nullopt;
  return *repeated;
}

int64_t DeviceLimit(const TileAssignment& tiles) {
  return tiles.has_axes() ? tiles.device_count() : std::ranges::max(tiles.ToList()) + 1;
}

bool HaveSameDevices(const TileAssignment& a, const TileAssignment& b) {
  if (a.device_count() != b.device_count()) return false;
  if (a.has_axes() && b.has_axes()) return true;
  std::vector<int64_t> devices_a = a.ToList(), devices_b = b.ToList();
  std::ranges::sort(devices_a);
  std::ranges::sort(devices_b);
  return devices_a == devices_b;
}

bool HasDeviceSubsets(const Module& module) {
  const int64_t devices = module.DeviceCount();
  bool found = false;
  ForEachTiledLeaf(module, [&](const Instruction*, const Sharding* leaf) {
    found = leaf->device_count() < devices && (leaf->spelling == Spelling::kDeviceList ||
                                               DeviceLimit(leaf->tiles) > leaf->device_count());
    return !found;
  });
  return found;
}

Expected<void> RefuseDeviceSubsets(const Module& module, int64_t devices) {
  const Instruction* at = nullptr;
  const Sharding* subset = nullptr;
  ForEachTiledLeaf(module, [&](const Instruction* x, const Sharding* leaf) {
    if (leaf->device_count() < devices) at = x, subset = leaf;
    return subset == nullptr;
  });
  if (subset == nullptr) return {};
  const Instruction* elsewhere = nullptr;  // is sharded over other devices
  ForEachTiledLeaf(module, [&](const Instruction* x, const Sharding* leaf) {
    if (!HaveSameDevices(leaf->tiles, subset->tiles)) elsewhere = x;
    return elsewhere == nullptr;
  });
  const int64_t count = subset->device_count();
  Diagnostic error = module.ErrorAt(
      at, "E-PARTITION-009",
      fmt::format("'{}' is sharded over {} of {} devices: all devices run the program of one, and "
                  "{} of them would have no part of it",
                  at->name(), count, devices, devices - count));
  if (elsewhere == nullptr) {
    error.hint = fmt::format(
        "all shardings are over the same devices: number them 0 to {} and partition for {}",
        count - 1, count);
  } else {
    Diagnostic note =
        module.ErrorAt(elsewhere, "", fmt::format("'{}' is on other devices", elsewhere->name()));
    note.severity = Severity::kNote;
    error.notes.push_back(std::move(note));
    error.hint =
        "give the others copies (last_tile_dim_replicate), or make a program of each set of "
        "devices";
  }
  return Fail(std::move(error));
}

}  // namespace gshard
