// One module on one mesh: from global inputs to global outputs.
//
// How a leaf's instances form the global array follows from its sharding: parameters carry theirs,
// results have it in the header's record; of partial (unreduced) ones devices hold parts
// (partial_values.h). Without one, a parameter is the same on all devices
// (unless the input has one array per device) and a result is stacked along a new first dim.
// Several replicas have an array each.
#ifndef GSHARD_BACKENDS_CPU_RUN_MESH_RUN_H_
#define GSHARD_BACKENDS_CPU_RUN_MESH_RUN_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/arrays/fill.h"
#include "backends/cpu/io/inputs.h"
#include "backends/cpu/plan/plan.h"
#include "backends/cpu/run/executor.h"
#include "backends/cpu/run/input_summary.h"

namespace gshard::cpu {

struct OutputArray {
  DType dtype = DType::kF32;
  std::vector<int64_t> dims;
  std::vector<std::byte> data;
};

struct MeshRunOptions {
  DeviceGrid grid;
  uint64_t seed = 0;
  int threads = 1;
  int64_t memory_limit = 0;  // bytes; 0: none
  std::vector<std::string> keep;
  // How the instances of the i-th of `keep` form a whole array of this shape. Where that is not
  // known (null, or fewer than `keep`), an instruction's own sharding tells.
  struct WholeForm {
    const Sharding* sharding = nullptr;
    const Shape* whole = nullptr;
  };
  std::vector<WholeForm> keep_forms;
  bool fuse = true;  // see PlanOptions
  Padding padding = Padding::kPoisoned;
  std::span<const ProbePoint> probes;  // shown to RunOptions::observer (probe.h)
  int64_t probed_bytes = INT64_MAX;    // see MakeSchedule
  // Observes what indexes arrays in runs of this graph, and of the unpartitioned one; null: none.
  IndexObserver* index_observer = nullptr;
  IndexObserver* whole_index_observer = nullptr;
  // Several processes that run a contiguous block of the devices each; null: all run here. All must
  // call the same functions in the same order. Outlives the run.
  mpi::Ranks* ranks = nullptr;
  RankSpeeds rank_speeds;
  // Whole shapes of parameters' and results' leaves where the module only has shards; empty: tile
  // size times tile count.
  std::vector<const Shape*> global_parameters, global_results;

  // The same for the unpartitioned graph on `whole_grid`, where one device has whole shapes; in one
  // process.
  MeshRunOptions ForWholeGraph(const DeviceGrid& whole_grid) const;
};

class MeshRun {
 public:
  // Lowers and plans `module`, which must outlive this, and reads the inputs. Errors: E-RUN-*;
  // E-RUN-MEMORY if the plan needs more than the limit, or, without one, than the machine has.
  static Expected<std::unique_ptr<MeshRun>> Prepare(const Module& module, const Inputs& inputs,
                                                    const MeshRunOptions& options);
  // Allocates the memory and spreads the inputs over it; once, before Run. Ends with E-RUN-STOPPED
  // when `stop` is set. Errors: E-RUN-MEMORY; of reading the inputs' file.
  Expected<void> Start(const std::atomic<bool>* stop = nullptr);

  // Gives the memory back. Nothing of the run can be read any more, but what was planned.
  void FreeMemory() { executor_.reset(); }

  // Of several ranks: brings result k to rank 0, or to all, before Output(k) or Instances(k); and
  // what was kept.
  void GatherResult(size_t k, bool to_all = false);
  void GatherKept(size_t leaf);

  Expected<void> Run(const RunOptions& options) { return executor_->Run(options); }

  // One device's part of a result's leaf: the box of `sizes` at `start` of the whole array (what
  // sticks out is padding).
  struct Instance {
    uint32_t device = 0;
    std::vector<int64_t> start, sizes;
    const std::byte* data = nullptr;
  };
  // Visits the tiles of result k, which are as InPieces says, on rank 0, so that no more than one
  // other rank's part is there at a time; the other ranks' `visit` may be empty.
  void VisitTiles(size_t k, const std::function<void(const Instance&)>& visit);
  // Whether the result's tiles are instances as they are (of partial ones several make a tile).
  bool InPieces(size_t k) const;
  DType OutputType(size_t k) const { return result_shapes_[k]->dtype(); }
  bool IsArray(size_t k) const { return result_shapes_[k]->IsArray(); }
  std::span<const int64_t> OutputDims(size_t k) const { return results_[k].global_dims; }

  size_t result_count() const { return plan_->program->results.size(); }
  OutputArray Output(size_t k) const;
  // The first results, at most `most`.
  std::vector<OutputArray> Outputs(size_t most) const;
  // Whether Output(k) has the arrays of all devices along a new first dim.
  bool IsStacked(size_t k) const { return results_[k].stacked; }
  // Do the devices' parts of a result form an array of these dims?
  bool AssemblesTo(size_t k, std::span<const int64_t> dims) const;
  // Of a stacked result, what one device has.
  std::span<const int64_t> LocalDims(size_t k) const { return results_[k].local_dims; }
  // Puts a result together to an array of dims `whole` by `sharding`, of which its parts are
  // shards.
  void SetResultSpread(size_t k, const Sharding* sharding, std::span<const int64_t> whole);
  const DeviceGrid& grid() const { return grid_; }
  int threads() const { return threads_; }
  // Every instance that may differ from the others, lowest devices first.
  std::vector<Instance> Instances(size_t k) const;
  // The leaves of the i-th of MeshRunOptions::keep, and one leaf: as one device has it, or of all
  // devices: the whole array, or, where nothing tells how it is spread, stacked along a new first
  // dim if they differ.
  std::vector<size_t> KeptLeaves(size_t i) const;
  OutputArray Kept(size_t leaf, std::optional<uint32_t> device) const;

  // How a leaf is spread: stacked if `sharding` is null and it differs from device to device. Where
  // each of several replicas has a whole array, these are along a new first dim, too.
  struct Layout {
    const Sharding* sharding = nullptr;
    bool stacked = false;
    bool by_replica = false;
    std::vector<int64_t> local_dims, global_dims;
    const DeviceClasses* tiles = nullptr;  // devices with the same tile
  };
  // Where in a whole array spread by `sharding` the instances of a probed value belong.
  class ProbeSpread {
   public:
    // The devices, one a tile, that have instance `c`.
    std::span<const uint32_t> devices(uint32_t c) const {
      return std::span(devices_).subspan(begin_[c], begin_[c + 1] - begin_[c]);
    }
    size_t class_count() const { return begin_.size() - 1; }
    uint32_t class_of(uint32_t device) const { return classes_->class_of(device); }
    // A number that devices with the same tile have alike.
    uint32_t tile_of(uint32_t device) const {
      return layout_.tiles == nullptr ? 0 : layout_.tiles->class_of(device);
    }
    std::span<const int64_t> tile_dims() const { return layout_.local_dims; }
    // Several instances may have devices of one tile.
    bool IsFirstOfTile(uint32_t device) const {
      return layout_.tiles == nullptr ||
             layout_.tiles->first_device(layout_.tiles->class_of(device)) == device;
    }
    // One of devices(..) a tile: it has what `preferred` has of its tile, and is the first of
    // another.
    bool StandsForTile(uint32_t device, uint32_t preferred) const {
      if (layout_.tiles == nullptr) return true;
      if (layout_.tiles->class_of(device) != layout_.tiles->class_of(preferred)) {
        return IsFirstOfTile(device);
      }
      return classes_->class_of(device) == classes_->class_of(preferred);
    }

   private:
    friend class MeshRun;
    Layout layout_;
    const DeviceClasses* classes_ = nullptr;  // devices with the same instance
    std::vector<uint32_t> begin_, devices_;
  };
  // Of a probe whose instruction does not run once (see Program::probed): nothing.
  std::optional<ProbeSpread> SpreadOfProbe(size_t probe, const Sharding* sharding) const;
  // Of an array that no probe shows, of which devices with the same tile have the same instance.
  ProbeSpread SpreadOfTiles(const Shape* tile, const Sharding* sharding) const;
  // data is null.
  Instance BoxOf(const ProbeSpread& spread, uint32_t device) const {
    return {device, StartOf(spread.layout_, device), spread.layout_.local_dims, nullptr};
  }

  const Plan& plan() const { return *plan_; }
  Executor& executor() { return *executor_; }
  const Executor& executor() const { return *executor_; }
  double plan_seconds() const { return plan_seconds_; }
  std::span<const Diagnostic> warnings() const { return warnings_; }
  const InputSummary& input_summary() const { return input_summary_; }

 private:
  MeshRun() = default;
  // The steps of Prepare, in order. Warnings go to warnings_.
  Expected<std::unique_ptr<Program>> Lower(const Module& module, const MeshRunOptions& options);
  Expected<void> LoadParameters(const Module& module, const Inputs& inputs,
                                const MeshRunOptions& options, DeviceClassTable& table);
  Expected<void> MakePlan(std::unique_ptr<Program> program, const MeshRunOptions& options);
  Expected<void> FindResultLayouts(const Module& module, const MeshRunOptions& options);

  ProbeSpread SpreadOver(const DeviceClasses& classes, const Shape& tile,
                         const Sharding* sharding) const;
  Expected<void> ReadInPieces(const GlobalArray& input, std::vector<int64_t> start,
                              std::vector<int64_t> sizes, int64_t bytes, std::byte* data) const;
  std::vector<int64_t> StartOf(const Layout& layout, uint32_t device) const;
  static std::vector<int64_t> SizesOf(const Layout& layout);
  // Who has what a device should have.
  uint32_t SourceOf(const Layout& layout, uint32_t device) const;
  Instance InstanceOn(ValueId value, const Layout& layout, uint32_t device) const;
  // The same of a partial value: all parts together, in `storage`.
  Instance CombinedOn(ValueId value, const Layout& layout, uint32_t device,
                      std::vector<std::byte>& storage) const;
  std::vector<Instance> InstancesOf(ValueId value, const Layout& layout) const;
  OutputArray Assemble(ValueId value, const Shape* shape, const Layout& layout) const;
  // Completes a leaf's layout, whose sharding is set (null: not known). `whole`: the shape of the
  // whole array, if it does not follow from the sharding.
  void SetLayout(const Shape* shape, const Shape* whole, bool stacked, bool by_replica,
                 Layout& layout) const;
  void FindKeptLayouts(const Module& module, const MeshRunOptions& options);

  DeviceGrid grid_;
  Padding padding_ = Padding::kPoisoned;
  std::unique_ptr<Plan> plan_;
  std::unique_ptr<Executor> executor_;
  int threads_ = 1;
  mpi::Ranks* ranks_ = nullptr;
  std::vector<Layout> parameters_;
  std::vector<GlobalArray> inputs_;  // until Start
  std::vector<const DeviceClasses*> parameter_classes_;
  std::vector<Layout> results_;
  std::vector<const Shape*> result_shapes_;
  std::vector<Layout> kept_;                             // by leaf
  mutable std::deque<std::vector<std::byte>> combined_;  // behind instances of partial results
  double plan_seconds_ = 0;
  std::vector<Diagnostic> warnings_;
  InputSummary input_summary_;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_RUN_MESH_RUN_H_
