// See known_reshard_plans.h.

#include "core/partition/plan/known_reshard_plans.h"

#include <bit>
#include <utility>

namespace gshard {
namespace {

class KeyWriter {
 public:
  void Add(int64_t value) { key_.append(reinterpret_cast<const char*>(&value), sizeof value); }

  void Add(const AxisList& axes) {
    Add(static_cast<int64_t>(axes.size()));
    for (const DeviceAxis& axis : axes) {
      Add(axis.size);
      Add(axis.stride);
    }
  }

  void Add(const MeshLayout& layout) {
    Add(static_cast<int64_t>(layout.kind));
    Add(layout.device);
    for (const AxisList& axes : layout.dims) Add(axes);
    Add(layout.unreduced);
    Add(static_cast<int64_t>(layout.combiner));
    Add(layout.manual);
  }

  std::string Take() { return std::move(key_); }

 private:
  std::string key_;
};

}  // namespace

std::string KnownReshardPlans::KeyOf(const Shape* shape, const MeshLayout* from,
                                     const MeshLayout* to, int64_t devices,
                                     const ReshardWeights& weights,
                                     const ReshardPolicies& policies) {
  if (from->order != nullptr || to->order != nullptr) return {};
  KeyWriter key;
  key.Add(DTypeBits(shape->dtype()));
  key.Add(shape->rank());
  for (const int64_t dim : shape->dims()) key.Add(dim);
  key.Add(*from);
  key.Add(*to);
  key.Add(devices);
  key.Add(std::bit_cast<int64_t>(weights.bytes_per_message));
  key.Add(std::bit_cast<int64_t>(weights.bytes_per_moved_byte));
  for (const bool policy : {policies.share_sums, policies.search}) {
    key.Add(static_cast<int64_t>(policy));
  }
  return key.Take();
}

std::shared_ptr<const ReshardPlan> KnownReshardPlans::Find(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = plans_.find(key);
  return found == plans_.end() ? nullptr : found->second;
}

void KnownReshardPlans::Add(std::string key, std::shared_ptr<const ReshardPlan> plan) {
  const std::lock_guard lock(mutex_);
  plans_.emplace(std::move(key), std::move(plan));
}

}  // namespace gshard
