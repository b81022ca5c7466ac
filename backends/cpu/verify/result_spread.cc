#include "backends/cpu/verify/result_spread.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/verify/verify.h"
#include "ir/sharding_text.h"

namespace gshard::cpu {
namespace {

// N as a product of primes, the digits of the device number, major first.
std::vector<int64_t> PrimeDigits(int64_t n) {
  std::vector<int64_t> digits;
  for (int64_t p = 2; p * p <= n; ++p) {
    for (; n % p == 0; n /= p) digits.push_back(p);
  }
  if (n > 1) digits.push_back(n);
  return digits;
}

// Assigns digits of the device number to the tiled dims in every way, and the rest to replication.
class SpreadSearch {
 public:
  SpreadSearch(Context& context, int64_t partitions, std::span<const int64_t> tiles)
      : context_(context), digits_(PrimeDigits(partitions)), tiles_(tiles.begin(), tiles.end()) {
    used_.assign(digits_.size(), false);
  }

  std::vector<const Sharding*> Run() {
    Assign(0, tiles_.empty() ? 1 : tiles_[0]);
    return std::move(found_);
  }

 private:
  void Assign(size_t dim, int64_t left) {
    if (found_.size() >= kMaxSpreads || ++steps_ > kMaxSteps) return;
    if (left == 1) {
      if (dim + 1 < tiles_.size()) return Assign(dim + 1, tiles_[dim + 1]);
      return Add();
    }
    for (size_t i = 0; i < digits_.size(); ++i) {
      if (used_[i] || left % digits_[i] != 0) continue;
      used_[i] = true;
      order_.push_back(static_cast<int64_t>(i));
      Assign(dim, left / digits_[i]);
      order_.pop_back();
      used_[i] = false;
    }
  }

  void Add() {
    std::vector<int64_t> dims = tiles_;
    std::vector<int64_t> permutation = order_;
    int64_t rest = 1;
    for (size_t i = 0; i < digits_.size(); ++i) {
      if (used_[i]) continue;
      permutation.push_back(static_cast<int64_t>(i));
      rest *= digits_[i];
    }
    std::vector<SubgroupType> subgroups;
    if (rest > 1) {
      dims.push_back(rest);
      subgroups.push_back(SubgroupType::kReplicated);
    }
    const Sharding* sharding =
        context_.Tiled(TileAssignment::Iota(dims, digits_, permutation), subgroups);
    if (std::find(found_.begin(), found_.end(), sharding) == found_.end()) {
      found_.push_back(sharding);
    }
  }

  static constexpr int kMaxSteps = 100000;
  Context& context_;
  std::vector<int64_t> digits_, tiles_, order_;
  std::vector<bool> used_;
  std::vector<const Sharding*> found_;
  int steps_ = 0;
};

// Has `sharding` these tile counts, and all devices?
bool HasTiles(const Sharding* sharding, std::span<const int64_t> tiles, int64_t partitions) {
  if (sharding == nullptr || !sharding->IsTiled() || sharding->HasManualSubgroup() ||
      sharding->device_count() != partitions ||
      sharding->data_rank() != static_cast<int64_t>(tiles.size())) {
    return false;
  }
  return std::ranges::equal(sharding->data_dims(), tiles);
}

// Does `sharding` cut dims `whole` into `local`, on each device a tile or a part of one?
bool Cuts(const Sharding& sharding, std::span<const int64_t> local,
          std::span<const int64_t> whole) {
  if (sharding.IsManual() || sharding.HasManualSubgroup() || local.size() != whole.size()) {
    return false;
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    const int64_t tiles = sharding.IsTiled() ? sharding.TileCount(static_cast<int64_t>(i)) : 1;
    if (local[i] != (whole[i] + tiles - 1) / tiles) return false;
  }
  return true;
}

// The tile counts; empty if no tiles of dims `whole` have the dims `local`.
std::vector<int64_t> TilesOf(std::span<const int64_t> local, std::span<const int64_t> whole,
                             int64_t partitions) {
  if (local.size() != whole.size()) return {};
  std::vector<int64_t> tiles;
  int64_t product = 1;
  for (size_t i = 0; i < whole.size(); ++i) {
    int64_t count = 1;
    if (local[i] != whole[i]) {
      if (local[i] <= 0) return {};
      // The fewest tiles that divide the devices: of 5 rows in tiles of 2 there are 3, or 4.
      for (count = 2; count <= partitions; ++count) {
        if (partitions % count == 0 && (whole[i] + count - 1) / count == local[i]) break;
      }
      if (count > partitions) return {};
    }
    tiles.push_back(count);
    product *= count;
    if (partitions % product != 0) return {};
  }
  return tiles;
}

}  // namespace

std::vector<const Sharding*> SpreadsThatFit(const Module& module, int64_t partitions,
                                            std::span<const int64_t> local,
                                            std::span<const int64_t> whole,
                                            const Sharding* reference) {
  std::vector<const Sharding*> spreads;
  const auto add = [&](const Sharding* sharding) {
    if (std::ranges::find(spreads, sharding->canonical) == spreads.end()) {
      spreads.push_back(sharding->canonical);
    }
  };
  if (reference != nullptr && Cuts(*reference, local, whole)) add(reference);
  const std::vector<int64_t> tiles = TilesOf(local, whole, partitions);
  if (tiles.size() != whole.size()) return spreads;
  Context& context = module.context();
  if (std::ranges::equal(local, whole)) {
    add(context.Replicated());
    return spreads;
  }
  for (const Instruction* parameter : module.entry()->parameters()) {
    if (HasTiles(parameter->sharding(), tiles, partitions)) add(parameter->sharding());
  }
  for (const Sharding* sharding : SpreadSearch(context, partitions, tiles).Run()) add(sharding);
  return spreads;
}

void FindResultSpreads(MeshRun& run, const Module& module, const std::vector<OutputArray>& expected,
                       std::span<const Sharding* const> reference,
                       const std::function<void(const Diagnostic&)>& note) {
  std::string taken;
  for (size_t k = 0; k < std::min(run.result_count(), expected.size()); ++k) {
    const OutputArray& want = expected[k];
    if (!run.IsStacked(k) || !IsArrayType(want.dtype) || run.AssemblesTo(k, want.dims)) continue;
    const Sharding* of_reference = k < reference.size() ? reference[k] : nullptr;
    const auto spreads =
        SpreadsThatFit(module, run.grid().partitions, run.LocalDims(k), want.dims, of_reference);
    const Sharding* best = nullptr;
    double least = std::numeric_limits<double>::infinity();
    for (const Sharding* sharding : spreads) {
      run.SetResultSpread(k, sharding, want.dims);
      const ArrayError error = CompareInstances(run.Instances(k), want, 0);
      // NaN and infinities say nothing of distances: then the elements that differ count.
      const double distance = std::isfinite(error.largest)
                                  ? error.largest
                                  : 1e300 * (1 + static_cast<double>(error.beyond));
      if (best != nullptr && !(distance < least)) continue;
      best = sharding;
      least = distance;
      if (error.beyond == 0) break;
    }
    if (best == nullptr) continue;
    run.SetResultSpread(k, best, want.dims);
    if (spreads.size() > 1) {
      const bool is_reference = of_reference != nullptr && best == of_reference->canonical;
      taken +=
          fmt::format("{}o{} {} of {} that fit{}", taken.empty() ? "" : ", ", k, ToString(best),
                      spreads.size(), is_reference ? " (the reference's own)" : "");
    }
  }
  if (taken.empty()) return;
  Diagnostic said = MakeError("",
                              "the text does not say how its results are spread; taken, as "
                              "nearest to the reference: " +
                                  taken);
  said.severity = Severity::kNote;
  said.hint = "--output-shardings gives them";
  note(said);
}

}  // namespace gshard::cpu
