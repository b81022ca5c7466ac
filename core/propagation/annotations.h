// What the user wrote, made ready for propagation (docs/propagation.md, "Preprocessing"): Sharding
// custom-calls become copies, shard-group marks and open dims are collected, control flow gets one
// sharding per related set, and the set of instructions that must not change is fixed.
#ifndef GSHARD_CORE_PROPAGATION_ANNOTATIONS_H_
#define GSHARD_CORE_PROPAGATION_ANNOTATIONS_H_

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "core/explain/recorder.h"
#include "ir/diagnostic.h"
#include "ir/module.h"
#include "ir/traversal.h"

namespace gshard {

struct ShardGroup {
  std::vector<Instruction*> members;  // users before operands
};

struct Annotations {
  // Fixed: by instruction id.
  std::vector<uint8_t> provided;
  // Dims that `unspecified_dims` leaves open, sorted, of the copies made from such calls.
  std::unordered_map<const Instruction*, std::vector<int64_t>> open_dims;
  std::map<int64_t, ShardGroup> shard_as, shard_like;
  // As annotated, for the boundary restore: one per root element / parameter (per element of a
  // single tuple parameter); empty if not allowed or absent. Null elements: none.
  std::vector<const Sharding*> root_shardings;
  std::vector<const Sharding*> parameter_shardings;
  // Appended as the entry's root, so that what it copies may be refined; null if it was not needed.
  Instruction* output_copy = nullptr;
  // Post-order of each computation of the module, now.
  std::vector<std::vector<Instruction*>> orders;
  // The given one with the copies in the places of their calls.
  UserOrderOverride use_order;
};

struct AnnotationOptions {
  bool parameters_allowed = false;
  bool output_allowed = false;
  const UserOrderOverride* use_order = nullptr;
};

// Rewrites the module. Errors: E-PROP-*. Contradictions that have a defined outcome are reported in
// `warnings` (may be null).
Expected<Annotations> PrepareAnnotations(Module& module, const AnnotationOptions& options,
                                         std::vector<Diagnostic>* warnings,
                                         ExplainRecorder* recorder);

}  // namespace gshard

#endif  // GSHARD_CORE_PROPAGATION_ANNOTATIONS_H_
