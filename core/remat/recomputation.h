// Takes values away from the peak of one computation and computes them again behind it.
#ifndef GSHARD_CORE_REMAT_RECOMPUTATION_H_
#define GSHARD_CORE_REMAT_RECOMPUTATION_H_

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/cost/memory/module_memory.h"
#include "ir/module.h"

namespace gshard {

// For one schedule of a computation. Drop as many values as wanted, then Apply once. `module` and
// `memory` must outlive it; Apply invalidates `memory`'s part of this computation.
class Recomputation {
 public:
  Recomputation(Module& module, const ComputationMemory& memory);

  // Is the buffer's value computed before the peak, read after it and not while it lasts, and of a
  // kind that may be computed twice?
  bool IsHeldOverPeak(uint32_t buffer) const;
  // The same of a kind that may not, too.
  bool IsIdleAtPeak(uint32_t buffer) const;

  // Of such a value: the steps from..to-1, the peak among them, in which nothing reads it.
  std::pair<uint32_t, uint32_t> IdleSteps(uint32_t buffer) const {
    return {last_early_use_[buffer] + 1, first_late_use_[buffer]};
  }

  // What computing the buffer's value again would cost, in bytes moved and FLOPs weighed against
  // them; nothing where it cannot be: something it depends on is gone when it is read first.
  std::optional<double> CostOf(uint32_t buffer);

  // Its later readers are to compute it again. False where CostOf has none, or an earlier drop
  // relies on the value.
  bool Drop(uint32_t buffer);

  // Rewrites the computation, its instructions in the order of the schedule. Returns what was added
  // to compute values again.
  std::vector<const Instruction*> Apply();

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  // What has to be cloned to have the value at a step, and what that reads.
  struct Closure {
    std::vector<const Instruction*> clones;
    std::vector<uint32_t> inputs;  // buffers
    double cost = 0;
  };

  // Reshapes and their like are repeated where their value is read.
  bool IsRepeatedRenaming(uint32_t node) const;
  uint32_t NodeOf(const Instruction* x) const;  // kNone: part of another kernel
  bool IsAvailable(const Instruction* x, uint32_t step) const;
  std::optional<Closure> ClosureOf(const Instruction* x, uint32_t step) const;
  void AppendInputs(const Instruction* x, std::vector<uint32_t>& inputs) const;

  bool DependsOnDropped(const Instruction* x) const;
  void FindLateParts();
  Instruction* Late(Instruction* x, uint32_t step);
  void AddBarrier(uint32_t step);
  Instruction* FindTrigger(uint32_t step) const;
  void Reorder();

  Module& module_;
  const ComputationMemory& memory_;
  const BufferGraph& graph_;
  Computation* computation_;
  uint32_t peak_;                                // step
  std::vector<uint32_t> step_of_;                // by node
  std::vector<uint32_t> defined_, last_use_;     // by buffer: steps
  std::vector<uint32_t> last_early_use_;         // by buffer: step before the peak
  std::vector<uint32_t> first_late_use_;         // by buffer: step behind the peak, or kNone
  std::vector<bool> read_at_peak_, is_result_;   // by buffer
  std::vector<bool> is_in_tuple_;                // by buffer: before the peak ends
  std::vector<bool> dropped_, needed_, pinned_;  // by buffer
  std::unordered_map<const Instruction*, uint32_t> node_of_;
  std::unordered_map<const Instruction*, Instruction*> late_;
  std::unordered_set<const Instruction*> late_parts_;
  std::vector<Instruction*> new_clones_;  // for the node being rewritten
  std::unordered_set<const Instruction*> is_clone_;
  std::vector<const Instruction*> added_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_REMAT_RECOMPUTATION_H_
