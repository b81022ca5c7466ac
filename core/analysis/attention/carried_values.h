// What while loops carry, by the values that they were given or that their bodies store.
//
//   mask = pred[64,64] compare(..)              Origin(m) is mask: the loop passes it on unchanged
//   loop: m = get-tuple-element(state), index=2
#ifndef GSHARD_CORE_ANALYSIS_ATTENTION_CARRIED_VALUES_H_
#define GSHARD_CORE_ANALYSIS_ATTENTION_CARRIED_VALUES_H_

#include <cstdint>
#include <unordered_map>

#include "ir/module.h"

namespace gshard {

class CarriedValues {
 public:
  // A snapshot: invalid after the module changes.
  explicit CarriedValues(const Module& module);

  // The value that `x` is another name of, through tuples, barriers, copies and loops that pass it
  // on unchanged; `x` where nothing more is known. Possibly of another computation.
  const Instruction* Origin(const Instruction* x) const;

  // What an earlier loop put, one slice a trip, into the stacked array from which `slice`, a
  // dynamic-slice, reads one of the same shape: the update of that loop's dynamic-update-slice;
  // null where there is none.
  const Instruction* StoredSlice(const Instruction* slice) const;

  // The loop whose body or condition `computation` is, if there is exactly one; else null.
  const Instruction* LoopOf(const Computation* computation) const;

 private:
  // Element `index` of the tuple `x`, or `x` itself where index is -1.
  struct Place {
    const Instruction* x = nullptr;
    int64_t index = -1;
  };
  Place Follow(const Instruction* x) const;
  // Of an element of a loop's result or of its body's parameter, the element of its initial value
  // where each trip passes it on unchanged; else an empty place.
  Place Initial(const Instruction* loop, int64_t index) const;

  std::unordered_map<const Computation*, const Instruction*> loop_of_;  // null: several
};

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_ATTENTION_CARRIED_VALUES_H_
