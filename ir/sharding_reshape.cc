// Propagation of a sharding through a reshape (docs/sharding.md, "Reshape").
#include <algorithm>
#include <numeric>
#include <optional>

#include "ir/diagnostic.h"
#include "ir/sharding_algebra.h"

namespace gshard {
namespace {

using Ints = std::vector<int64_t>;

// Walks the source and target dims left to right and hands the tile counts of the source over to
// the target. Returns the target's counts; nothing if no dim took any.
class Matcher {
 public:
  Matcher(std::span<const int64_t> source_dims, std::span<const int64_t> source_counts,
          std::span<const int64_t> target_dims)
      : source_dims_(source_dims), source_counts_(source_counts), target_dims_(target_dims) {}

  std::optional<Ints> Match() {
    counts_.assign(target_dims_.size(), 1);
    LoadSource(0);
    LoadTarget(0);
    while (SkipUntiled() && source_ < source_dims_.size() && target_ < target_dims_.size()) {
      if (s_ == u_) {
        const bool remnant = u_ != target_dims_[target_];
        if (remnant && s_ % t_ != 0) {
          Take(std::gcd(s_, t_));
          break;
        }
        Take(t_);
        LoadSource(source_ + 1);
        LoadTarget(target_ + 1);
      } else if (u_ == 1) {
        LoadTarget(target_ + 1);
      } else if (s_ == 1) {
        LoadSource(source_ + 1);
      } else if (s_ % t_ != 0) {
        return std::nullopt;
      } else {
        const int64_t factor = std::gcd(t_, u_);
        if (factor == 1) break;
        Take(factor);
        s_ /= factor;
        t_ /= factor;
        u_ /= factor;
      }
    }
    const bool matched = std::ranges::any_of(counts_, [](int64_t count) { return count > 1; });
    return matched ? std::optional(std::move(counts_)) : std::nullopt;
  }

 private:
  void LoadSource(size_t dim) {
    source_ = dim;
    if (dim >= source_dims_.size()) return;
    s_ = source_dims_[dim];
    t_ = source_counts_[dim];
  }
  void LoadTarget(size_t dim) {
    target_ = dim;
    if (dim < target_dims_.size()) u_ = target_dims_[dim];
  }
  void Take(int64_t factor) { counts_[target_] *= factor; }

  // Untiled source dims must be whole target dims (or remnants); false: they are not, so stop.
  bool SkipUntiled() {
    int64_t product = 1;
    while (source_ < source_dims_.size() && t_ == 1) {
      if (__builtin_mul_overflow(product, s_, &product)) return false;
      LoadSource(source_ + 1);
    }
    while (product > 1 && target_ < target_dims_.size() && u_ > 0 && product % u_ == 0) {
      product /= u_;
      LoadTarget(target_ + 1);
    }
    return product == 1;
  }

  std::span<const int64_t> source_dims_, source_counts_, target_dims_;
  Ints counts_;
  size_t source_ = 0, target_ = 0;
  int64_t s_ = 1, t_ = 1, u_ = 1;  // what is left of the current source size and count, target size
};

// The run's dims major, read with the matched counts; all other devices are replicas.
const Sharding* Candidate(Context& ctx, const Sharding* s, std::span<const int64_t> run,
                          Ints counts) {
  Ints permutation(run.begin(), run.end());
  for (int64_t i = 0; i < s->tiles.rank(); ++i) {
    if (std::ranges::find(run, i) == run.end()) permutation.push_back(i);
  }
  int64_t tiles = 1;
  for (int64_t count : counts) tiles *= count;
  counts.push_back(s->device_count() / tiles);
  return ctx.Tiled(s->tiles.Transpose(permutation).Reshape(counts), {SubgroupType::kReplicated});
}

const Sharding* PropagateUngrouped(Context& ctx, const Sharding* s,
                                   std::span<const int64_t> from_dims,
                                   std::span<const int64_t> to_dims) {
  // Runs that differ only in untiled dims are the same run, so only tiled dims are looked at.
  Ints tiled;
  for (int64_t i = 0; i < s->data_rank(); ++i) {
    if (s->tiles.dim(i) > 1) tiled.push_back(i);
  }
  const Sharding* result = ctx.Replicated();
  for (size_t first = 0; first < tiled.size();) {
    size_t next = first + 1;
    for (size_t end = tiled.size(); end > first; --end) {
      const std::span<const int64_t> run = std::span(tiled).subspan(first, end - first);
      Ints counts(from_dims.size(), 1);
      for (int64_t dim : run) counts[static_cast<size_t>(dim)] = s->tiles.dim(dim);
      auto matched = Matcher(from_dims, counts, to_dims).Match();
      if (!matched) continue;
      const Sharding* candidate = Candidate(ctx, s, run, std::move(*matched));
      if (const Sharding* merged = MergeShardings(ctx, candidate, result)) {
        result = merged;
        next = end;
        break;
      }
    }
    first = next;
  }
  return result;
}

}  // namespace

const Sharding* PropagateThroughReshape(Context& ctx, const Sharding* s,
                                        std::span<const int64_t> from_dims,
                                        std::span<const int64_t> to_dims) {
  if (!s->IsTiled()) return s->canonical;
  CheckInternal(std::ssize(from_dims) == s->data_rank(),
                "the rank of a sharding differs from its shape");
  const auto unbounded = [](int64_t dim) { return dim < 0; };
  // Subgroups other than replication ride along: propagate inside the groups.
  Ints group_dims, group_counts;
  for (size_t i = 0; i < s->subgroups.size(); ++i) {
    if (s->subgroups[i] == SubgroupType::kReplicated) continue;
    group_dims.push_back(s->data_rank() + static_cast<int64_t>(i));
    group_counts.push_back(s->tiles.dim(group_dims.back()));
  }
  DeviceGroups groups;
  const Sharding* inside = s;
  if (!group_dims.empty()) {
    groups = GroupOnDims(ctx, s, group_dims);
    inside = groups.inside;
  }
  const Sharding* result = ctx.Replicated();
  if (inside->IsTiled() && std::ranges::none_of(from_dims, unbounded) &&
      std::ranges::none_of(to_dims, unbounded)) {
    result = PropagateUngrouped(ctx, inside, from_dims, to_dims);
  }
  if (group_dims.empty()) return result;
  // The subgroup dims come after the target's data dims.
  const int64_t shift = std::ssize(to_dims) - s->data_rank();
  for (int64_t& dim : group_dims) dim += shift;
  groups.data_rank = std::ssize(to_dims);
  const Sharding* whole = Ungroup(ctx, groups, group_dims, group_counts, result);
  if (s->reduction == whole->reduction) return whole;
  Sharding reduced = *whole;
  reduced.reduction = s->reduction;
  return ctx.Intern(std::move(reduced));
}

}  // namespace gshard
