#include "backends/cpu/plan/instance_places.h"

namespace gshard::cpu {

int64_t InstancePlaces::OffsetOf(ValueId value, uint32_t c) const {
  CheckInternal(IsPlaced(value), "a value without storage is used");
  const uint32_t number = kept_.number(value, c);
  if (number == KeptInstances::kNotKept) return kNotHere;
  return offsets_[value] + number * program_->values[value].bytes;
}

int64_t InstancePlaces::OffsetOf(const View::Entry& entry) const {
  if (entry.base == kNoValue) return zeros_;
  // A view may begin in an instance behind the one that it names.
  const int64_t bytes = program_->values[entry.base].bytes;
  const int64_t behind = bytes > 0 ? entry.offset / bytes : 0;
  const int64_t there =
      OffsetOf(entry.base, entry.base_class + static_cast<uint32_t>(behind));
  return there == kNotHere ? kNotHere : there + entry.offset - behind * bytes;
}

}  // namespace gshard::cpu
