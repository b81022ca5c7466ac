// Shardings in the words of the people who wrote the mesh, for reports and causes:
// "[data, _, stage+model]", "replicated", "[data, _] partial over model".
#ifndef GSHARD_CORE_ANALYSIS_AXIS_TEXT_H_
#define GSHARD_CORE_ANALYSIS_AXIS_TEXT_H_

#include <span>
#include <string>

#include "ir/context.h"
#include "ir/mesh.h"
#include "ir/sharding.h"

namespace gshard {

// Per dim the axes that split it, major first, joined by "+", a part of an axis as
// "model(outer 4)", "_" for a whole dim, "*" for one left open: the notation of `gshard-opt
// annotate --shard`. Axes along which values are partial sums, or manual, follow. HLO's own
// spelling where `mesh` is null or its axes cannot say it.
std::string AxisText(Context& ctx, const Sharding* sharding, const Mesh* mesh);

// "data=8,model=4": the notation of --mesh.
std::string MeshText(std::span<const MeshAxis> axes);

// Axes as AxesOfGroups spells them, joined by "+", parts of axes in words: "data(outer 2)+model".
// "-" if there are none.
std::string AxesInWords(std::span<const std::string> axes, std::span<const MeshAxis> mesh);

// The axes of `mesh` along which a leaf with this sharding (null: none yet) only has copies, joined
// by "+"; empty if there are none or its axes cannot say it.
std::string FreeAxesText(Context& ctx, const Sharding* sharding, const Mesh* mesh);

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_AXIS_TEXT_H_
