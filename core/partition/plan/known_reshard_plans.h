// Plans of resharding that earlier runs of the partitioner made, for searches that partition one
// program over and over.
#ifndef GSHARD_CORE_PARTITION_PLAN_KNOWN_RESHARD_PLANS_H_
#define GSHARD_CORE_PARTITION_PLAN_KNOWN_RESHARD_PLANS_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "core/partition/plan/reshard_plan.h"

namespace gshard {

// By what a plan depends on, whatever context its shape and its layouts are of. Thread-safe.
class KnownReshardPlans {
 public:
  // The text of everything that a plan depends on; empty for layouts over an explicit list of
  // devices, of which nothing is remembered.
  static std::string KeyOf(const Shape* shape, const MeshLayout* from, const MeshLayout* to,
                           int64_t devices, const ReshardWeights& weights,
                           const ReshardPolicies& policies);

  // Null: there is none yet.
  std::shared_ptr<const ReshardPlan> Find(const std::string& key) const;
  void Add(std::string key, std::shared_ptr<const ReshardPlan> plan);

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const ReshardPlan>> plans_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_PLAN_KNOWN_RESHARD_PLANS_H_
