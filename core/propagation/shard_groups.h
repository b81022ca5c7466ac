// Shard groups and barriers (docs/propagation.md, "Shard groups and barriers").
#ifndef GSHARD_CORE_PROPAGATION_SHARD_GROUPS_H_
#define GSHARD_CORE_PROPAGATION_SHARD_GROUPS_H_

#include <cstdint>
#include <vector>

#include "core/propagation/annotations.h"

namespace gshard {

class Engine;

class ShardGroups {
 public:
  explicit ShardGroups(const Annotations& annotations);

  // The group step of one sweep for the instructions at positions [begin, end).
  void Step(Engine& engine, uint32_t begin, uint32_t end);
  // After the driver: shard_as members get one sharding, barriers relay theirs. True if anything
  // was set. Annotations that cannot all be kept are told in `warnings` (may be null; W-PROP-003).
  bool Align(Engine& engine, const Module& module, std::vector<Diagnostic>* warnings);

 private:
  void OfferTo(Engine& engine, Instruction* member, const ShardGroup& group);

  struct Membership {
    Instruction* member = nullptr;
    const ShardGroup* group = nullptr;
  };
  const Annotations& annotations_;
  std::vector<Membership> memberships_;  // of all groups
};

}  // namespace gshard

#endif  // GSHARD_CORE_PROPAGATION_SHARD_GROUPS_H_
