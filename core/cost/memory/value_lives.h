// When the values of a computation and of what it alone calls are alive, all in one sequence of
// steps: the body of a loop comes once, where the loop runs, and so do branches.
//
// Live ranges that are at one place are one value: what a loop carries, or only reads, is where it
// was before the loop, in the body and after it. Between the last use of the old value in the body
// and the first of the new one its place is free. What a branch gives back is made in the memory of
// the conditional's result.
#ifndef GSHARD_CORE_COST_MEMORY_VALUE_LIVES_H_
#define GSHARD_CORE_COST_MEMORY_VALUE_LIVES_H_

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/cost/memory/computation_memory.h"
#include "core/cost/memory/fast_memory.h"

namespace gshard {

// A computation among the steps of the whole.
struct ComputationSteps {
  const ComputationMemory* memory = nullptr;
  const Liveness* liveness = nullptr;
  std::vector<uint32_t> begin, end;  // of its steps, and of its end; of a loop with all its body
  uint32_t first_range = 0;          // the numbers of its ranges
  int loops = 0;                     // around it

  const BufferGraph& graph() const { return memory->graph; }
  uint32_t RangeOf(uint32_t buffer) const { return first_range + liveness->range_of[buffer]; }
};

// A snapshot of `memories`. Linear in ranges and steps, but for the depth of loops.
class ValueLives {
 public:
  using CallCounts = std::unordered_map<const Computation*, int64_t>;

  enum class Memory : uint8_t {
    kBoth,  // as if there were no fast memory; results of collectives apart from their operands
    kSlow,  // what is not in fast memory
  };
  // `calls`: from how many places a computation is called. One that several call is no part.
  ValueLives(const Computation& root, const ComputationMemories& memories, const CallCounts& calls,
             Memory which);

  const std::deque<ComputationSteps>& computations() const { return computations_; }
  uint32_t steps() const { return now_; }
  uint32_t ranges() const { return next_range_; }
  // A call of a computation that several places call, at a step.
  struct SharedCall {
    uint32_t step = 0;
    const Computation* callee = nullptr;
    int64_t result_bytes = 0;  // of the caller's memory that its results are in
  };
  const std::vector<SharedCall>& shared_calls() const { return shared_calls_; }
  // Is it the body or the condition of a loop among the steps?
  bool IsOfLoop(const Computation* computation) const { return of_loops_.contains(computation); }
  // Is it a loop whose body and condition are among the steps?
  bool IsLoop(const Instruction* x) const;

  // The range that stands for all those of its value.
  uint32_t ValueOf(uint32_t range) const {
    while (parent_[range] != range) range = parent_[range];
    return range;
  }
  // When the range's part of a value is alive. The program's arguments have none, for they always
  // are, nor has what a branch or a call is given, for that is the caller's.
  const std::vector<StepSpan>& LifeOf(uint32_t range) const { return life_[range]; }
  bool IsCarried(uint32_t range) const { return is_carried_[range]; }  // a loop changes it

 private:
  void AddComputation(const Computation* computation, const ComputationMemories& memories,
                      const CallCounts& calls, Memory which, int loops);
  void AddRanges(const ComputationSteps& steps);
  void JoinCalls(const ComputationSteps& steps);
  void JoinLoop(const ComputationSteps& steps, uint32_t node, StepSpan loop);
  void JoinCopies(const ComputationSteps& steps);
  static int64_t NewResultBytes(const ComputationSteps& steps, uint32_t node);
  void JoinCarry(uint32_t outside, const ComputationSteps& body, uint32_t leaf, StepSpan loop);
  void JoinResults(const ComputationSteps& steps, uint32_t node, StepSpan call);
  void Join(uint32_t outside, const ComputationSteps& callee, uint32_t leaf);
  void Join(uint32_t a, uint32_t b);
  uint32_t FindValue(uint32_t range);

  std::deque<Liveness> own_liveness_;
  std::deque<ComputationSteps> computations_;
  std::unordered_map<const Computation*, const ComputationSteps*> places_;
  std::unordered_set<const Computation*> of_loops_;
  std::vector<SharedCall> shared_calls_;
  uint32_t now_ = 0, next_range_ = 0;
  std::vector<uint32_t> parent_;
  std::vector<std::vector<StepSpan>> life_;
  std::vector<bool> is_carried_;
  std::vector<bool> is_next_;  // a loop's next value, where the old one was
};

}  // namespace gshard

#endif  // GSHARD_CORE_COST_MEMORY_VALUE_LIVES_H_
