// Lists of mesh axes and parts of axes, as Shardy cuts dims and factors by them: major to minor.
#ifndef GSHARD_CORE_PROPAGATION_SHARDY_AXES_H_
#define GSHARD_CORE_PROPAGATION_SHARDY_AXES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ir/mesh.h"

namespace gshard::shardy {

using AxisList = std::vector<AxisRef>;

// Into how many parts the axes cut.
int64_t SizeOf(std::span<const AxisRef> axes);

// Do two references have positions of one axis in common?
bool Overlap(const AxisRef& a, const AxisRef& b);

// Appends; parts of one axis that continue each other become one part.
void Append(AxisList& list, const AxisRef& axis);

// Is `prefix` the beginning of `list`, the last axis perhaps a major part of the one there?
bool IsPrefix(std::span<const AxisRef> prefix, std::span<const AxisRef> list);

// The longest list of which both are prefixes as far as they agree: [a] and [a, b] give [a, b];
// [a, b] and [a, c] give [a]; "d":(1)2 and "d" give "d"; ["d":(1)2, a] and ["d"] give "d":(1)2.
AxisList Joined(std::span<const AxisRef> a, std::span<const AxisRef> b);

// The longest common beginning, the last axis perhaps a part.
AxisList CommonPrefix(std::span<const AxisRef> a, std::span<const AxisRef> b);

// The major part of `axis` that does not overlap `used`; nothing if none is left.
std::optional<AxisRef> FreeMajorPart(const AxisRef& axis, std::span<const AxisRef> used);

// What stands in `list` behind `prefix`, which must be its prefix.
AxisList Rest(std::span<const AxisRef> list, std::span<const AxisRef> prefix);

}  // namespace gshard::shardy

#endif  // GSHARD_CORE_PROPAGATION_SHARDY_AXES_H_
