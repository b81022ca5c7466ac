// The mesh's runs of a verification. Of several ranks the first one verifies: it tells the others
// what to run, and they show it what their devices hold, so that its observers see what they would
// in one process.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_MESH_RUNS_H_
#define GSHARD_BACKENDS_CPU_VERIFY_MESH_RUNS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/io/inputs.h"
#include "backends/cpu/run/mesh_run.h"
#include "backends/mpi/ranks.h"

namespace gshard::cpu {

// One run at a time. Copies stand for the same ranks.
class MeshRuns {
 public:
  // One process.
  MeshRuns() = default;
  // `fail_alone`: told the error that one rank meets while the others wait for it; does not return.
  MeshRuns(mpi::Ranks* ranks, std::function<void(const Diagnostic&)> fail_alone)
      : ranks_(ranks != nullptr && ranks->size() > 1 ? ranks : nullptr),
        fail_alone_(std::move(fail_alone)) {}

  // Of the program in double precision, whose arrays keep their names (widened_copy.h).
  MeshRuns Widened() const {
    MeshRuns runs = *this;
    runs.widened_ = true;
    return runs;
  }

  // --- the rank that verifies: as MeshRun's. Errors of another rank are its own.
  Expected<std::unique_ptr<MeshRun>> Prepare(const Module& partitioned, const Inputs& inputs,
                                             const MeshRunOptions& options) const;
  // Null where there is no room, which `no_room` tells of then.
  Expected<std::unique_ptr<MeshRun>> PrepareIfRoom(const Module& partitioned, const Inputs& inputs,
                                                   const MeshRunOptions& options,
                                                   std::string& no_room) const;
  Expected<void> Start(MeshRun& run, const std::atomic<bool>* stop) const;
  // The observer is shown the instances of all ranks.
  Expected<void> Run(MeshRun& run, const RunOptions& options) const;
  // Brings all results here, before they are read.
  void GatherResults(MeshRun& run) const;
  // Nothing more comes: Replay returns on the others.
  void Finish() const;
  // The others need not worry: this rank works on its own. Thread-safe.
  void ReportProgress() const;

  // --- the others: do what they are told. `options` but for what Prepare is told there.
  void Replay(const Module& partitioned, const Inputs& inputs, MeshRunOptions options,
              const std::atomic<bool>* stop) const;

 private:
  enum class Act : uint64_t { kPrepare, kStart, kRun, kGather, kFinish };
  struct Command {
    Act act = Act::kFinish;
    int64_t memory_limit = 0, probed_bytes = 0;
    uint64_t probes = 0;
    uint64_t widened = 0;  // not 0: of the widened program
  };

  void Send(std::span<const std::byte> data) const;
  void Receive(std::span<std::byte> data) const;
  void Send(const Command& command) const { Send(std::as_bytes(std::span(&command, 1))); }
  std::vector<ProbePoint> ReceiveProbes(const Module& partitioned, uint64_t count) const;
  Expected<void> RunHere(MeshRun& run, const RunOptions& options) const;
  Expected<void> Agree(const Expected<void>& mine) const;

  mpi::Ranks* ranks_ = nullptr;  // null: one process
  bool widened_ = false;
  std::function<void(const Diagnostic&)> fail_alone_;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_MESH_RUNS_H_
