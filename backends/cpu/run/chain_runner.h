// Runs one chain: blocks of classes depth first in parallel, or, where there are fewer classes than
// threads, operation after operation with each one's elements split between the threads.
#ifndef GSHARD_BACKENDS_CPU_RUN_CHAIN_RUNNER_H_
#define GSHARD_BACKENDS_CPU_RUN_CHAIN_RUNNER_H_

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/cpu/plan/plan.h"
#include "backends/cpu/run/active_set.h"
#include "backends/cpu/run/finite_check.h"
#include "backends/cpu/run/rank_runner.h"
#include "backends/cpu/run/trace.h"
#include "backends/cpu/run/workers.h"

namespace gshard::cpu {

// A NaN or infinity that an operation produced.
struct BadValue {
  const Op* op = nullptr;
  uint32_t call = 0;  // in its chain: the first one is reported
  uint32_t device = 0;
  uint32_t leaf = 0;  // of the result
  NotFinite found;

  bool Before(const BadValue& other) const {
    return std::tie(call, device, leaf, found.element) <
           std::tie(other.call, other.device, other.leaf, other.found.element);
  }
};

class ChainRunner {
 public:
  // `chains`: how many the plan has.
  ChainRunner(std::byte* arena, Workers& workers, uint32_t chains)
      : arena_(arena), workers_(workers), single_(chains) {}

  // False: the observer of the step's probes, or what is called after operations, ends the run.
  bool Run(const ChainStep& step, ActiveSet* active);

  // With several ranks: how fused accumulators are folded.
  void set_ranks(RankRunner* ranks) { ranks_ = ranks; }

  // Where operations run one after another, the work (Executor::WorkOf) of each that is worth it is
  // told when it is done. False ends the run.
  void set_after_call(std::function<bool(double)> after_call) {
    after_call_ = std::move(after_call);
  }

  void set_check_nan(bool check) { check_nan_ = check; }
  void set_observer(ProbeObserver* observer) { observer_ = observer; }
  void set_trace(Trace* trace) { trace_ = trace; }
  // The first bad value of the last Run, if asked for.
  const std::optional<BadValue>& bad_value() const { return bad_value_; }

 private:
  // Some classes that run together: order[first ..], or first, first + 1, .. without an order.
  struct ClassBlock {
    const uint32_t* order = nullptr;
    uint32_t first = 0, count = 1;
    uint32_t task = 0;         // of a chain with fused accumulators
    bool starts_task = false;  // accumulators hold nothing yet
    bool fused_accumulators = true;  // fold
    uint32_t operator[](uint32_t i) const {
      return order != nullptr ? order[first + i] : first + i;
    }
  };
  // What a chain over one class, run by the first thread, looks up in vain every time.
  struct SingleClass {
    std::vector<std::byte*> places;  // of the step's refs
    std::vector<int64_t> pieces;     // of each call
  };
  bool RunClasses(const ChainStep& step, ActiveSet* active);
  const SingleClass& SingleClassOf(const ChainStep& step, std::byte* slot);
  bool RunSingleClass(const ChainStep& step, std::byte* slot);
  // Is the step's progress told, or asked whether to stop, after `call`? False: the run ends.
  bool AfterCall(const Call& call, int64_t instances);
  void RunBlock(const ChainStep& step, const ClassBlock& block, std::byte* slot,
                BumpScratch& scratch);
  void RunTasks(const ChainStep& step, const uint8_t* mask);
  // The same of several ranks: this one's share, and what is not for fused accumulators.
  void RunTasksOfRank(const ChainStep& step, ActiveSet* active);
  void RunSome(const ChainStep& step, const std::vector<uint32_t>& classes);
  void RunCall(const ChainStep& step, const Call& call, const ClassBlock& block, std::byte* slot,
               BumpScratch& scratch);
  // The operands of a call for all classes of a block; in scratch.
  const BatchOperand* OperandsOf(const ChainStep& step, const Call& call, const ClassBlock& block,
                                 std::byte* slot, BumpScratch& scratch) const;
  void RunSum(const ChainStep& step, const Call& call, const ClassBlock& block, std::byte* slot,
              BumpScratch& scratch);
  void Accumulate(const ChainStep& step, const Call& call, const ClassBlock& block, std::byte* slot,
                  BumpScratch& scratch);
  bool RunSplit(const ChainStep& step, const ClassBlock& block, std::byte* slot);
  void ShowProbe(const ChainStep& step, const Call& call, const ClassBlock& block, std::byte* slot);
  void ShowProbeSplit(const ChainStep& step, const Call& call, uint32_t c, std::byte* slot);
  // In how many pieces one instance of a call is run.
  int64_t PiecesOf(const Call& call) const;
  void RunCallSplit(const ChainStep& step, const Call& call, uint32_t c, std::byte* slot);
  void RunCallInSteps(const ChainStep& step, const Call& call, uint32_t c, std::byte* slot,
                      int64_t most);
  // Whole buffers of a call's instance: operand_count and result_count pointers.
  void FindBuffers(const ChainStep& step, const Call& call, uint32_t c, uint32_t i, std::byte* slot,
                   const std::byte** operands, std::byte** results) const;
  std::byte* At(const BufferRef& ref, uint32_t c, uint32_t i, std::byte* slot) const;
  void Check(const ChainStep& step, const Call& call, uint32_t c, uint32_t i, std::byte* slot);

  std::byte* arena_;
  Workers& workers_;
  Trace* trace_ = nullptr;
  ProbeObserver* observer_ = nullptr;
  RankRunner* ranks_ = nullptr;
  std::function<bool(double)> after_call_;
  bool check_nan_ = false;
  std::vector<SingleClass> single_;  // by ChainStep::number
  std::mutex mutex_;
  std::optional<BadValue> bad_value_;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_RUN_CHAIN_RUNNER_H_
