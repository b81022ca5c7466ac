// Values that are partial: the sum (or maximum, minimum) over a group of devices is the value.
// Sharding: an unreduced subgroup, or unreduced over all devices.
#ifndef GSHARD_BACKENDS_CPU_MESH_PARTIAL_VALUES_H_
#define GSHARD_BACKENDS_CPU_MESH_PARTIAL_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ir/dtype.h"
#include "ir/sharding.h"

namespace gshard::cpu {

// Null sharding: no.
bool IsPartial(const Sharding* sharding);
// The partitions that hold parts of what `partition` holds a part of, itself included, in order.
std::vector<uint32_t> PartialGroup(const Sharding* sharding, uint32_t partition,
                                   uint32_t partitions);
// The place of `partition` in its group.
int64_t PartialPlace(const Sharding* sharding, uint32_t partition);

// Turns whole elements into the part that the member at `place` of a group of two or more
// holds. Of sums the first two members hold one half each (exactly: integers an upper and a lower
// half), so that reducing too late or not at all shows; 8-bit and smaller floats the first all.
// Others hold the identity of the reduction; of maxima and minima of types without infinity, the
// value.
void MakePartial(DType dtype, ReductionKind reduction, int64_t place, int64_t count,
                 std::byte* data);
// The members past this place hold the same.
inline constexpr int64_t kDistinctPlaces = 2;

// out[i] = the reduction of parts[..][i]; sums of floats in f64, rounded once.
void CombineParts(DType dtype, ReductionKind reduction, std::span<const std::byte* const> parts,
                  int64_t count, std::byte* out);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_MESH_PARTIAL_VALUES_H_
