// Where the instances that a process keeps lie in its arena.
#ifndef GSHARD_BACKENDS_CPU_PLAN_INSTANCE_PLACES_H_
#define GSHARD_BACKENDS_CPU_PLAN_INSTANCE_PLACES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "backends/cpu/plan/kept_instances.h"
#include "backends/cpu/plan/program.h"

namespace gshard::cpu {

// The offset of what another rank keeps. Not for adding to: whoever reads there is far outside.
inline constexpr int64_t kNotHere = INT64_MIN / 2;

// Refers to the program.
class InstancePlaces {
 public:
  InstancePlaces(const Program& program, KeptInstances kept)
      : program_(&program), kept_(std::move(kept)), offsets_(program.values.size(), kNotHere) {}

  // Of a value without view: its first kept instance is there, the others follow.
  void Place(ValueId value, int64_t offset) { offsets_[value] = offset; }
  void PlaceZeros(int64_t offset) { zeros_ = offset; }

  const KeptInstances& kept() const { return kept_; }
  bool IsPlaced(ValueId value) const { return offsets_[value] != kNotHere; }
  // Of the first kept instance.
  int64_t begin(ValueId value) const { return offsets_[value]; }
  // Of zero bytes, enough for any instance.
  int64_t zeros() const { return zeros_; }
  // Arena offset of instance `c` of a value without view, or kNotHere; InternalError if it is not
  // in the arena at all.
  int64_t OffsetOf(ValueId value, uint32_t c) const;
  int64_t OffsetOf(const View::Entry& entry) const;

 private:
  const Program* program_;
  KeptInstances kept_;
  std::vector<int64_t> offsets_;
  int64_t zeros_ = 0;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_PLAN_INSTANCE_PLACES_H_
