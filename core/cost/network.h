// The network under a mesh: where its axes lie on the chip's links, and how long collectives take.
//
// A network is a list of physical dims: those of a torus ("x", "y", "z"), the devices that share a
// chip ("core"), the levels of a hierarchy of switches ("nvlink", "nic"). Each mesh axis covers one
// or more of them, or parts of them:
//
//   tpu-v3, 128 cores = 8 x 8 chips of 2 cores      mesh  data=8, model=16
//   dims   x: 8   y: 8   core: 2                    data -> x     model -> y + core
//
// Immutable after Make; may be read by many threads. Formulas of times and rates: docs/cost.md,
// "Where axes lie" and "Time".
#ifndef GSHARD_CORE_COST_NETWORK_H_
#define GSHARD_CORE_COST_NETWORK_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/cost/chip.h"
#include "ir/mesh.h"

namespace gshard {

// One dim of the machine, as far as the program's devices reach.
struct NetworkDim {
  enum class Kind : uint8_t { kTorus, kCore, kSwitch };
  Kind kind = Kind::kTorus;
  std::string name;
  int64_t extent = 1;
  bool wraps = false;
  double bytes_per_s = 0;  // one way, collectives' efficiency included: of a link, of a device
  double latency_s = 0;    // of one hop
  bool all_to_all_wraps = true;
};

// The part of a dim that a mesh axis, or a group, covers: coordinates 0, stride, 2 stride, ..
struct NetworkSegment {
  size_t dim = 0;  // index into Network::dims()
  int64_t extent = 1;
  int64_t stride = 1;
};

// What a collective asks of the network.
struct CollectiveDemand {
  std::string_view kind;  // "all-gather", ..
  // Size in bytes of the collective's operands on one device: of an all-gather the shard before
  // gathering, of a reduce-scatter the value before scattering.
  double local_bytes = 0;
  int64_t group_size = 1;
  std::vector<NetworkSegment> segments;  // along which a group's members lie
};

struct CollectiveTime {
  double seconds = 0;
  std::string_view algorithm;  // "ring", "tree", "one-shot", "bisection", "neighbour"
};

class Network {
 public:
  // Lays `mesh` (null: one axis of all devices) on the chip's network: axes that `mesh_map` names
  // ("data" -> "x+y") where it says, the others innermost first on the nearest links, in the slice
  // shape that cuts the fewest dims. Errors: E-COST-003.
  static Expected<Network> Make(const Chip& chip, int64_t devices, const Mesh* mesh,
                                const std::map<std::string, std::string>& mesh_map = {});

  std::span<const NetworkDim> dims() const { return dims_; }
  // Returns the segments that an axis covers, which is spelt as AxesOfGroups does: "model", or the
  // sub-axis "model:(2)4". Empty if the axis is unknown.
  std::vector<NetworkSegment> SegmentsOf(std::string_view axis) const;
  std::vector<NetworkSegment> SegmentsOf(std::span<const std::string> axes) const;
  // Returns all dims as segments, for groups that follow no axes.
  std::vector<NetworkSegment> AllSegments() const;

  // Returns the time of the fastest algorithm for the size; 0 for groups of one.
  CollectiveTime TimeOf(const CollectiveDemand& demand) const;

  // "data -> x, model -> y+core; x=8, y=8, core=2".
  std::string Description() const;

 private:
  struct AxisPlace {
    std::string name;
    int64_t size = 1;
    std::vector<NetworkSegment> segments;  // major to minor
  };

  double RingRate(const NetworkSegment& segment, std::span<const NetworkSegment> all) const;
  double DevicesPerChip() const;
  CollectiveTime GatherTime(double full_bytes, const CollectiveDemand& demand) const;
  CollectiveTime AllReduceTime(const CollectiveDemand& demand) const;
  CollectiveTime AllToAllTime(const CollectiveDemand& demand) const;
  CollectiveTime PermuteTime(const CollectiveDemand& demand) const;

  std::vector<NetworkDim> dims_;
  std::vector<AxisPlace> axes_;  // in mesh order
  double on_chip_bytes_per_s_ = 0;
  double launch_s_ = 0;
};

}  // namespace gshard

#endif  // GSHARD_CORE_COST_NETWORK_H_
