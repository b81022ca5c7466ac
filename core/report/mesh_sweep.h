// One program over many mesh shapes, pipelines and batches: time and memory of each, and which are
// worth a thought. `gshard-cost sweep`.
#ifndef GSHARD_CORE_REPORT_MESH_SWEEP_H_
#define GSHARD_CORE_REPORT_MESH_SWEEP_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "ir/diagnostic.h"
#include "ir/mesh.h"

namespace gshard {

using MeshShape = std::vector<MeshAxis>;

int64_t DevicesOf(const MeshShape& mesh);
// {"data": 8, "model": 4}, as the documents of sweep and of automatic sharding have it.
Json MeshAsJson(const MeshShape& mesh);

// "data=2..64,model=4": all shapes, the last axis fastest. A..B means the powers of two from A to
// B. Meshes of more devices than there may be are left out. Errors (E-MESH-003): no range, no
// shape, too many shapes.
Expected<std::vector<MeshShape>> ParseMeshShapes(std::string_view text);

// "1..8,12": 1, 2, 4, 8, 12; A..B means the powers of two from A to B. Errors (E-MESH-003).
Expected<std::vector<int64_t>> ParseSizes(std::string_view text);

// How a program runs in stages.
struct SweepPipeline {
  int64_t stages = 0;  // 0: it does not
  int64_t microbatches = 0;
  std::string schedule;
};

struct SweepPoint {
  MeshShape mesh;  // beside the axis of the stages
  SweepPipeline pipeline;
  int64_t batch = 0;  // examples of a step; 0: as many as the program has, however many
  double step_time_s = 0, compute_time_s = 0, exposed_communication_s = 0, mfu = 0;
  double bubble_share = 0;  // of the pipeline's span, mean over stages
  int64_t peak_bytes = 0;
  bool fits = true;
  std::vector<std::string> uneven;  // annotated arrays with a dim that the mesh does not divide
  // Fits, and no other that does is better in time per example or memory, and no worse.
  bool pareto = false;
  std::optional<Diagnostic> error;  // why there are no figures
};

// Returns the number of devices: those of the mesh times the number of stages.
int64_t DevicesOf(const SweepPoint& point);
// The time that points are compared by: of an example, or of a step where batches are not swept.
double ComparedTime(const SweepPoint& point);
// Every shape with every pipeline and every batch, the last fastest.
std::vector<SweepPoint> PointsOf(const std::vector<MeshShape>& shapes,
                                 const std::vector<SweepPipeline>& pipelines = {{}},
                                 const std::vector<int64_t>& batches = {0});

// Fills in a point whose mesh, pipeline and batch are set. Called from several threads at once;
// what it throws ends the sweep.
using EstimatePoint = std::function<void(SweepPoint& point)>;

// Returns the points in the order given, whatever the number of threads (0: one per core).
std::vector<SweepPoint> SweepPoints(std::vector<SweepPoint> points, const EstimatePoint& estimate,
                                    int threads = 0);

struct MeshSweep {
  std::string module, chip;
  int64_t memory_limit_bytes = 0;  // 0: none
  std::vector<SweepPoint> points;
};

// By the time they are compared by; the Pareto-optimal points are marked, and what the mesh does
// not divide. `markdown`: as a GitHub table.
std::string MeshSweepAsText(const MeshSweep& sweep, bool markdown = false);
std::string MeshSweepAsJson(const MeshSweep& sweep);  // gshard.sweep/1

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_MESH_SWEEP_H_
