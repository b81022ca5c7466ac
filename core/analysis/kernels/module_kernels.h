// The kernels of a whole module as one compiler makes them: the times and the memory of a program
// are both counted by them.
#ifndef GSHARD_CORE_ANALYSIS_KERNELS_MODULE_KERNELS_H_
#define GSHARD_CORE_ANALYSIS_KERNELS_MODULE_KERNELS_H_

#include <optional>
#include <span>
#include <unordered_map>

#include "core/analysis/attention/module_attention.h"
#include "core/analysis/host_memory.h"
#include "core/analysis/kernels/fusion.h"
#include "ir/module.h"
#include "ir/traversal.h"

namespace gshard {

// Not thread-safe: a computation's kernels are found when they are first asked for. A snapshot:
// invalid after the module changes, but for Update.
class ModuleKernels {
 public:
  struct AttentionOptions {
    bool is_one_kernel = true;  // no compiled text has it
    // As in ModuleAttention.
    std::optional<MaskedOn> masked{};
    KnownMaskedShares* known_shares = nullptr;
  };

  // `module` lives as long as this. What `fusion` says of the module (its attention, its host
  // memory, whether it is compiled) is replaced.
  ModuleKernels(const Module& module, const FusionOptions& fusion,
                const AttentionOptions& attention);
  ModuleKernels(const ModuleKernels&) = delete;
  ModuleKernels& operator=(const ModuleKernels&) = delete;

  // Valid as long as this.
  const FusionModel& Of(const Computation& computation);
  const Users& users() const { return users_; }
  const HostMemory& host() const { return host_; }
  bool is_compiled() const { return fusion_.is_compiled; }

  // Collectives were combined in computations whose kernels have been found: those stay.
  void Update();

 private:
  const Module& module_;
  FusionOptions fusion_;
  Users users_;
  HostMemory host_;
  std::optional<ModuleAttention> attention_;
  std::unordered_map<const Computation*, FusionModel> models_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_KERNELS_MODULE_KERNELS_H_
