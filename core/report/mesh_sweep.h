// One program over many mesh shapes: time and memory of each, and which are worth a thought.
// `gshard-cost sweep`.
#ifndef GSHARD_CORE_REPORT_MESH_SWEEP_H_
#define GSHARD_CORE_REPORT_MESH_SWEEP_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/diagnostic.h"
#include "ir/mesh.h"

namespace gshard {

using MeshShape = std::vector<MeshAxis>;

int64_t DevicesOf(const MeshShape& mesh);

// "data=2..64,model=4": all shapes, the last axis fastest. A..B means the powers of two from A to
// B. Meshes of more devices than there may be are left out. Errors (E-MESH-003): no range, no
// shape, too many shapes.
Expected<std::vector<MeshShape>> ParseMeshShapes(std::string_view text);

struct SweepPoint {
  MeshShape mesh;
  double step_time_s = 0, compute_time_s = 0, exposed_communication_s = 0, mfu = 0;
  int64_t peak_bytes = 0;
  bool fits = true;
  bool pareto = false;              // no other point is better in time or memory, and no worse
  std::optional<Diagnostic> error;  // why there are no figures
};

// Fills in a point whose mesh is set. Called from several threads at once; what it throws ends the
// sweep.
using EstimatePoint = std::function<void(SweepPoint& point)>;

// The points in the order of `shapes`, whatever the number of threads (0: one a core).
std::vector<SweepPoint> SweepMeshes(const std::vector<MeshShape>& shapes,
                                    const EstimatePoint& estimate, int threads = 0);

struct MeshSweep {
  std::string module, chip;
  int64_t memory_limit_bytes = 0;  // 0: none
  std::vector<SweepPoint> points;
};

// By step time; the Pareto-optimal points are marked. `markdown`: as a GitHub table.
std::string MeshSweepAsText(const MeshSweep& sweep, bool markdown = false);
std::string MeshSweepAsJson(const MeshSweep& sweep);  // gshard.sweep/1

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_MESH_SWEEP_H_
