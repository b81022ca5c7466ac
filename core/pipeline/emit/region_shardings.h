// Shardings over the mesh that has the stage axis, major to all axes of the input's mesh. A stage
// here is a group of devices along that axis (core/pipeline/plan/options.h), not a virtual stage.
#ifndef GSHARD_CORE_PIPELINE_EMIT_REGION_SHARDINGS_H_
#define GSHARD_CORE_PIPELINE_EMIT_REGION_SHARDINGS_H_

#include <optional>

#include "ir/module.h"

namespace gshard::pipeline {

class RegionShardings {
 public:
  // `stages` (K) groups of `devices` devices each.
  RegionShardings(Context& context, int64_t stages, int64_t devices)
      : context_(&context), stages_(stages), devices_(devices) {}

  Context& context() const { return *context_; }
  int64_t stages() const { return stages_; }
  int64_t devices_per_stage() const { return devices_; }
  int64_t device_count() const { return stages_ * devices_; }
  // True if there are no other axes: everything inside the region is manual.
  bool is_fully_manual() const { return devices_ == 1; }

  // Returns the sharding outside the region of a value that has `s` over the devices of one stage
  // (null: replicated): dim `stage_dim` is also cut over the stages (major), or the value is the
  // same on all stages (-1). What is manual over all devices of a stage is manual over all devices.
  const Sharding* Outside(int64_t rank, const Sharding* s, int64_t stage_dim) const;
  // The inverse: `s` of Outside(rank, s, 0); not set if `outside` is none of these.
  std::optional<const Sharding*> WithinStage(int64_t rank, const Sharding* outside) const;
  // Returns the sharding inside the region: `s`, and manual over the stages.
  const Sharding* Inside(int64_t rank, const Sharding* s) const;

 private:
  Context* context_;
  int64_t stages_, devices_;
};

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_EMIT_REGION_SHARDINGS_H_
