// Which instances of a value one of several ranks keeps: those of its own devices' classes, and
// those that others send it because its devices read them. A rank's arena has no room for the rest.
#ifndef GSHARD_BACKENDS_CPU_PLAN_KEPT_INSTANCES_H_
#define GSHARD_BACKENDS_CPU_PLAN_KEPT_INSTANCES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/cpu/mesh/rank_cut.h"
#include "backends/cpu/plan/program.h"
#include "backends/cpu/plan/schedule.h"
#include "backends/cpu/plan/storage.h"

namespace gshard::cpu {

// Of values without view. What is kept is numbered in the order of the classes, so that neighbours
// stay neighbours: a view may span several. Values that share storage have the same numbers; of
// known values all instances are kept. Immutable; refers to the program.
class KeptInstances {
 public:
  static constexpr uint32_t kNotKept = UINT32_MAX;

  // All of them, in one process.
  explicit KeptInstances(const Program& program) : program_(&program) {}
  KeptInstances(const Program& program, const Schedule& schedule, const StorageAssignment& storage,
                const RankCut& cut);

  uint32_t count(ValueId value) const {
    const Numbers* numbers = NumbersOf(value);
    return numbers == nullptr ? program_->values[value].classes->count() : numbers->count;
  }
  // Of class `c`: its place among those that are kept, or kNotKept.
  uint32_t number(ValueId value, uint32_t c) const {
    const Numbers* numbers = NumbersOf(value);
    return numbers == nullptr ? c : numbers->of_class[c];
  }
  // Whether number(c) is c - first(value) for all that are kept.
  bool is_run(ValueId value) const {
    const Numbers* numbers = NumbersOf(value);
    return numbers == nullptr || numbers->is_run;
  }
  uint32_t first(ValueId value) const {
    const Numbers* numbers = NumbersOf(value);
    return numbers == nullptr ? 0 : numbers->first;
  }
  // By task of a chain with fused accumulators: whether some of its classes are this rank's.
  std::vector<uint8_t> TasksHere(const Chain& chain) const;

 private:
  struct Numbers {
    uint32_t count = 0, first = 0;
    bool is_run = true;
    std::vector<uint32_t> of_class;
  };
  class Finder;

  const Numbers* NumbersOf(ValueId value) const {
    return of_value_.empty() ? nullptr : of_value_[value].get();
  }

  const Program* program_;
  RankCut cut_;
  std::vector<std::shared_ptr<const Numbers>> of_value_;  // empty, or null: all are kept
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_PLAN_KEPT_INSTANCES_H_
