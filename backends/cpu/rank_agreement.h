// What several processes that run one mesh tell each other around the run. One alone agrees with
// itself.
#ifndef GSHARD_BACKENDS_CPU_RANK_AGREEMENT_H_
#define GSHARD_BACKENDS_CPU_RANK_AGREEMENT_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/cpu/run/mesh_run.h"
#include "backends/cpu/run/rank_errors.h"
#include "backends/cpu/run_report.h"
#include "backends/mpi/ranks.h"
#include "ir/diagnostic.h"

namespace gshard::cpu {

class RankAgreement {
 public:
  // `fail_alone`: as EmulateOptions has it.
  RankAgreement(mpi::Ranks* ranks, const std::function<void(const Diagnostic&)>& fail_alone)
      : ranks_(ranks), fail_alone_(fail_alone) {}

  bool several() const { return ranks_ != nullptr && ranks_->size() > 1; }
  // Who writes and reports.
  bool IsFirst() const { return !several() || ranks_->rank() == 0; }

  // The error of the lowest rank that has one, on all ranks.
  template <typename T>
  Expected<T> Agree(Expected<T> mine) const {
    if (!several()) return mine;
    std::optional<Diagnostic> error = AgreeOnError(*ranks_, mine ? nullptr : &mine.error());
    if (error) return Fail(*std::move(error));
    return mine;
  }
  // What the first rank decides; `mine` counts there only.
  bool AsFirstSays(bool mine) const {
    if (!several()) return mine;
    return ranks_->AllGatherText(mine ? "1" : "0", "the verdict").front() == "1";
  }
  // What only this rank has met, while others wait for it: does not return if there are others. A
  // deadlock all see.
  void FailAlone(const Diagnostic& error) const;

  // Brings kept values (`dump_count` of MeshRunOptions::keep) to the first rank, and results if
  // somebody `reads` them there.
  void GatherResults(MeshRun& run, bool reads, size_t dump_count) const;
  // `mine` of every rank at the first, by rank, and nothing at the others.
  std::vector<std::string> Gather(std::string mine, std::string_view where) const;
  // Memory and waiting of each rank; empty if there is one.
  std::vector<RunReport::Rank> RankReports(const MeshRun& run) const;

 private:
  mpi::Ranks* ranks_;
  const std::function<void(const Diagnostic&)>& fail_alone_;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_RANK_AGREEMENT_H_
