// The devices of a stage axis as a ring: where a device stands, and transfers to its neighbours.
#ifndef GSHARD_CORE_PIPELINE_EMIT_STAGE_RING_H_
#define GSHARD_CORE_PIPELINE_EMIT_STAGE_RING_H_

#include <span>
#include <string_view>
#include <vector>

#include "core/pipeline/emit/region_shardings.h"
#include "ir/builder.h"

namespace gshard::pipeline {

class StageRing {
 public:
  explicit StageRing(const RegionShardings& shardings) : shardings_(&shardings) {}

  int64_t stages() const { return shardings_->stages(); }

  // Of this device, s32[].
  Instruction* Coordinate(Builder& b) const;
  // What the device `step` stages before sends: its `value`. `wraps`: around the ring; otherwise
  // those at the end receive zeros. With one stage the value itself. `cause`: what the transfer is
  // for, as reports tell it.
  Instruction* Send(Builder& b, Instruction* value, int64_t step, bool wraps,
                    std::string_view cause) const;
  // The same where only some stages send; what others would have sent arrives as zeros. Null if
  // nothing is sent.
  Instruction* Send(Builder& b, Instruction* value, int64_t step, const std::vector<bool>& senders,
                    std::string_view cause) const;

  // What stage `source` sends arrives at `target`, once at most at each, and from each; zeros where
  // nothing arrives.
  struct Transfer {
    int64_t source = 0, target = 0;
  };
  Instruction* Send(Builder& b, Instruction* value, std::span<const Transfer> transfers,
                    std::string_view cause) const;

  // Into the region, from global code and back; with one stage the value itself. `s`: how the
  // whole value lies over the devices of one stage (null: whole on each). Dim `stage_dim` is cut
  // over the stages besides, or the value is the same on all (-1).
  Instruction* Enter(Builder& b, Instruction* whole, const Sharding* s, int64_t stage_dim) const;
  Instruction* Leave(Builder& b, Instruction* local, const Sharding* s, int64_t stage_dim) const;

  // Marks instructions of the region as manual over the stages.
  void MarkManual(Instruction* x) const;
  void MarkManual(Computation* computation) const;  // and what its control flow calls

 private:
  const RegionShardings* shardings_;
};

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_EMIT_STAGE_RING_H_
