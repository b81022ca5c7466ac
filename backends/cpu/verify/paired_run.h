// The mesh runs ahead: its arrays are put together and handed to the unpartitioned graph, which
// compares its own with them (step_check.h, reference_comparer.h).
#ifndef GSHARD_BACKENDS_CPU_VERIFY_PAIRED_RUN_H_
#define GSHARD_BACKENDS_CPU_VERIFY_PAIRED_RUN_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/plan/probe.h"
#include "backends/cpu/run/mesh_run.h"
#include "backends/cpu/verify/analysis/compared_arrays.h"
#include "backends/cpu/verify/tile_places.h"
#include "backends/cpu/verify/value_exchange.h"
#include "backends/cpu/verify/verify_instructions.h"

namespace gshard::cpu {

// The mesh: puts together whole arrays and gives them. Where devices that hold the same part of an
// array differ, the lowest's, and the highest's beside it.
class MeshProducer final : public ProbeObserver {
 public:
  MeshProducer(std::span<const Candidate> candidates, bool first_pass, ValueExchange& exchange,
               const MeshRun& run);

  bool Prepare(std::span<const uint32_t> probes) override;
  bool Wants(uint32_t probe) const override { return !open_[probe].data.empty(); }
  void Show(uint32_t probe, uint32_t c, std::byte* data, int64_t part, int64_t parts) override;
  void Finish(std::span<const uint32_t> probes) override;

  // For which the mesh stood still until more was wanted of it.
  std::chrono::duration<double> waited() const { return waited_; }

 private:
  struct Open {
    std::span<std::byte> data;
    std::vector<std::byte> other;
  };

  std::span<const Candidate> candidates_;
  const bool first_pass_;
  ValueExchange& exchange_;
  std::vector<int64_t> iterations_;
  std::vector<Open> open_;                                 // by probe
  std::vector<std::shared_ptr<const TilePlaces>> places_;  // by probe; null: it is not shown
  std::chrono::duration<double> waited_{0};
};

// Both graphs, planned for their probes: `consumer` observes the unpartitioned one, a MeshProducer
// the mesh.
struct PairedRun {
  const InstructionsOptions* options = nullptr;
  std::span<const Candidate> candidates;
  bool first_pass = true;                // see Candidate::Wants
  int64_t budget_bytes = 0;              // for values that wait; 0: half of what is free
  int64_t held_bytes = 0;                // of values that must have room
  std::function<void(double)> progress;  // may be empty
  std::unique_ptr<MeshRun> whole, mesh;
  int64_t arena_bytes = 0;
  bool in_turns = true;  // there is room for both graphs at once; else the mesh runs first
  std::optional<ValueExchange> exchange;
  double mesh_time_s = 0;  // of its run, without waiting

  // Plans both and, in turns, takes their memory. `no_room` says why if there is no room;
  // `at_once`: for both graphs at once. Errors: of planning.
  Expected<void> Prepare(const Module& whole_module, std::span<const ProbePoint> whole_probes,
                         const Module& partitioned, std::span<const ProbePoint> local_probes,
                         const Inputs& inputs, bool at_once);
  std::string no_room;  // empty: there is room
  // Runs both, to their ends unless `is_done` says, after the unpartitioned one, that nothing more
  // is wanted of the mesh: then that is stopped, and the result is good.
  Expected<void> Run(ProbeObserver& consumer, const std::function<bool()>& is_done);
  int64_t peak_memory_bytes() const { return arena_bytes + exchange->peak_bytes(); }
  // Afterwards: those of the unpartitioned graph, and the mesh's against them. Not in turns the
  // mesh runs once more, without probes.
  std::vector<OutputArray> Outputs() const;
  Expected<VerifyResult> CompareOutputs(const Module& whole_module, const Module& partitioned,
                                        const Inputs& inputs, const OutputTolerance& tolerance);
  // How the probed arrays lie on the mesh.
  std::vector<std::optional<MeshRun::ProbeSpread>> Spreads() const;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_PAIRED_RUN_H_
