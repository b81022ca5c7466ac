// What one of several processes ("ranks") does beyond running its own devices: carries out wire
// plans. All ranks have the same steps; each has places of its own for what it keeps.
#ifndef GSHARD_BACKENDS_CPU_RUN_RANK_RUNNER_H_
#define GSHARD_BACKENDS_CPU_RUN_RANK_RUNNER_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "backends/cpu/plan/ranks/fused_accumulator_plan.h"
#include "backends/cpu/plan/ranks/owned_classes.h"
#include "backends/cpu/plan/ranks/wire_plan.h"
#include "backends/cpu/run/active_set.h"
#include "backends/cpu/run/rank_reduction.h"
#include "backends/cpu/run/workers.h"
#include "backends/mpi/ranks.h"

namespace gshard::cpu {

// Not thread-safe. Every rank must call the same functions in the same order.
class RankRunner {
 public:
  RankRunner(const Plan& plan, std::byte* arena, Workers& workers, mpi::Ranks& ranks);

  ActiveSet* everyone() { return &everyone_; }
  std::unique_ptr<ActiveSet> MakeActiveSet(std::vector<uint8_t> devices) const;

  // Throws as RunCollective does.
  void RunCollective(const CollectiveStep& step, ActiveSet* active);
  // A chain's fused accumulators: `fold` folds runs of classes into their tasks' accumulators.
  // Afterwards the reductions' results are where they are wanted.
  void RunFusedAccumulators(const ChainStep& step, ActiveSet* active,
                            const std::function<void(std::span<const FusedAccumulatorRun>)>& fold);
  // By class of a chain: whether this rank runs it; null: it runs those of its devices. Afterwards
  // ShareOwned brings what others have run for it.
  const uint8_t* OwnedClassesOf(const ChainStep& step, ActiveSet* active);
  void ShareOwned(const ChainStep& step);
  // Completes what each class with an active device says: `values[c]`, known here where
  // active->OfClasses(classes)[c].
  void ShareSelectors(const DeviceClasses* classes, ActiveSet* active, std::vector<int64_t>& values,
                      std::string_view where);
  // Instances of a value on all devices: to rank 0, or to everybody, until Release.
  void Gather(ValueId value, bool to_all, std::string_view where);
  // The same to rank 0, of rank `from` only: a piece of a large array.
  void GatherFrom(ValueId value, int from, std::string_view where) {
    GatherSome(value, false, from, where);
  }
  // Who gives the instance of class `c`: rank 0, if it has it.
  int GiverOf(ValueId value, uint32_t c);
  // The instance of class `c` that Gather has brought here; null: it is in the arena.
  const std::byte* Gathered(ValueId value, uint32_t c) const;
  void ReleaseGathered();
  void ReleaseGathered(ValueId value);

  // Of the wire plans carried out so far, all ranks together: what was predicted.
  struct Predicted {
    int64_t messages = 0, bytes = 0, least_bytes = 0;
  };
  const Predicted& predicted() const { return predicted_; }
  // Besides: what this rank sends of the rows of ragged-all-to-alls, whose sizes only those who
  // have part in them know.
  const Predicted& sent_rows() const { return sent_rows_; }
  int64_t buffer_bytes() const { return buffer_bytes_; }

 private:
  // `only`: of this rank; -1: of all.
  void GatherSome(ValueId value, bool to_all, int only, std::string_view where);
  const WirePlan& PlanOf(const CollectiveStep& step, ActiveSet* active);
  void RunReduction(const WirePlan& wire, const CollectiveStep& step, RankHolders& holders);
  void MovePieces(const WirePlan& wire, std::string_view where);
  void SendPieces(const WirePlan& wire, std::string_view where);
  void MoveRows(const CollectiveStep& step, ActiveSet* active);
  mpi::Ranks::Begun Begin(const std::vector<WireMessage>& messages, RoundBuffers& buffers);
  int64_t CopyBufferBytes() const;
  void Note(const WirePlan& wire);
  void Note(const FusedAccumulatorPlan& plan);
  // Of a fused accumulator's runs: sums that others go on with.
  struct FusedAccumulatorSlot {
    RoundBuffers buffers;
    mpi::Ranks::Begun begun;
  };
  void BeginSlot(const ChainStep& step, const FusedAccumulatorPlan& plan,
                 std::span<const FusedAccumulatorRun> runs, FusedAccumulatorSlot& slot);
  void TakeSlot(const ChainStep& step, std::span<const FusedAccumulatorRun> runs,
                FusedAccumulatorSlot& slot);
  void ReduceFusedAccumulators(const ChainStep& step, const FusedAccumulatorPlan& plan,
                               ActiveSet* active, RankHolders& holders);
  std::string_view NameOf(const CollectiveStep& step) const;

  const Plan& plan_;
  std::byte* arena_;
  Workers& workers_;
  mpi::Ranks& ranks_;
  ActiveSet everyone_;
  RankHolders all_;                                  // of everyone_
  std::map<const CollectiveStep*, WirePlan> plans_;  // for everyone_; null: for some, the last
  std::map<const ChainStep*, FusedAccumulatorPlan> fused_accumulator_plans_;
  std::map<const ChainStep*, OwnedClasses> owned_classes_;
  // By value: messages, and where in them the instances are.
  struct GatheredValue {
    std::map<int, std::vector<std::byte>> messages;
    std::map<uint32_t, const std::byte*> instances;  // by class
  };
  std::map<ValueId, GatheredValue> gathered_;
  Predicted predicted_, sent_rows_;
  // Of copies: rounds are packed while those before are on their way.
  static constexpr size_t kRoundsBegun = 4;
  std::array<RoundBuffers, kRoundsBegun> round_buffers_;
  mpi::GrowableBuffer folded_;  // of reductions
  int64_t buffer_bytes_ = 0, gathered_bytes_ = 0;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_RUN_RANK_RUNNER_H_
