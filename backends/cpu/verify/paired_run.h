// The mesh runs ahead: its arrays are put together and handed to the unpartitioned graph, which
// compares its own with them (step_check.h, choice_check.h).
#ifndef GSHARD_BACKENDS_CPU_VERIFY_PAIRED_RUN_H_
#define GSHARD_BACKENDS_CPU_VERIFY_PAIRED_RUN_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
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
  MeshProducer(std::span<const Candidate> candidates, ValueExchange& exchange, const MeshRun& run);

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
  std::unique_ptr<MeshRun> whole, mesh;
  int64_t arena_bytes = 0;
  std::optional<ValueExchange> exchange;

  // Errors: of planning; E-RUN-MEMORY where there is no room for both graphs at once.
  Expected<void> Prepare(const Module& whole_module, std::span<const ProbePoint> whole_probes,
                         const Module& partitioned, std::span<const ProbePoint> local_probes,
                         const Inputs& inputs);
  // Runs both, to their ends unless `is_done` says, after the unpartitioned one, that nothing more
  // is wanted of the mesh: then that is stopped, and the result is good.
  Expected<void> Run(ProbeObserver& consumer, const std::function<bool()>& is_done);
  int64_t peak_memory_bytes() const { return arena_bytes + exchange->peak_bytes(); }
  double mesh_time_s = 0;  // of its run, without waiting
  // Afterwards: those of the unpartitioned graph, and the mesh's against them.
  std::vector<OutputArray> Outputs() const;
  VerifyResult CompareOutputs(const Module& whole_module, const OutputTolerance& tolerance);
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_PAIRED_RUN_H_
