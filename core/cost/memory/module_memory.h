// Live ranges of every computation of a module that needs memory of its own, callees first.
#ifndef GSHARD_CORE_COST_MEMORY_MODULE_MEMORY_H_
#define GSHARD_CORE_COST_MEMORY_MODULE_MEMORY_H_

#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/cost/memory/computation_memory.h"
#include "core/cost/memory/heap_placement.h"
#include "core/cost/memory/peak_memory.h"
#include "ir/traversal.h"

namespace gshard {

// A snapshot: invalid after the module changes. Linear but for the schedules' sorting.
class ModuleMemory {
 public:
  // `kernels`: of the module, by options.fusion and options.fuse_attention; null: it finds them.
  ModuleMemory(const Module& module, const MemoryOptions& options,
               ModuleKernels* kernels = nullptr);

  const ComputationMemory& entry() const { return computations_.at(module_.entry()); }
  // Of the entry, and of what while loops, conditionals, calls and async-starts call.
  const ComputationMemory& Of(const Computation* computation) const {
    return computations_.at(computation);
  }
  int64_t OutputBytes() const;  // of the entry: without those in memory of arguments
  // The entry's peak and fragmentation_bytes().
  int64_t PeakBytes() const { return entry().liveness.peak_bytes + fragmentation_bytes_; }
  // Of a TPU: the memory at the peak that is in pieces too small for the value placed highest.
  int64_t fragmentation_bytes() const { return fragmentation_bytes_; }
  const HeapPlacement& placement() const { return placement_; }
  // The peak of devices for which computations of these names take no memory.
  int64_t PeakWithout(const std::vector<std::string>& names) const;
  // Does something lie on the host?
  bool HasHost() const { return !kernels_->host().IsEmpty(); }
  // The callee of `x` whose peak counts while `x` runs; it has at least one.
  const ComputationMemory& DeepestCallee(const Instruction* x) const;

 private:
  enum class CallKind : uint8_t { kLoopBody, kLoopCondition, kOther };

  void FindCallKinds();
  void Analyze(const Computation& computation);
  void FindOrder(ComputationMemory& memory);
  std::vector<const Computation*> PlannedApart() const;
  void UseFastMemory();
  void Place();
  void TakeOut(ComputationMemory& memory, std::vector<uint32_t> in_fast_memory);
  void PlaceBranchResults(ComputationMemory& memory);
  std::map<const Computation*, std::vector<int32_t>> HomesOfBranches(
      const BufferGraph& graph, std::vector<bool>& placed) const;
  std::vector<int64_t> CalleesExtra(const BufferGraph& graph) const;
  CallContext ContextOf(const BufferGraph& graph) const;
  void PlaceEntryResults(const BufferGraph& graph, CallContext& context) const;

  const Module& module_;
  MemoryOptions options_;
  std::optional<ModuleKernels> own_kernels_;
  ModuleKernels* kernels_;
  std::unordered_map<const Computation*, CallKind> kinds_;
  std::unordered_map<const Computation*, int64_t> calls_;  // from how many places
  ComputationMemories computations_;
  FactsOfCallees facts_;
  HeapPlacement placement_;
  int64_t fragmentation_bytes_ = 0;
};

}  // namespace gshard

#endif  // GSHARD_CORE_COST_MEMORY_MODULE_MEMORY_H_
