#include "core/analysis/kernels/module_kernels.h"

#include "ir/compiled_text.h"

namespace gshard {

ModuleKernels::ModuleKernels(const Module& module, const FusionOptions& fusion,
                             const AttentionOptions& attention)
    : module_(module), fusion_(fusion), users_(module), host_(module, users_) {
  fusion_.is_compiled = IsCompiled(module);
  fusion_.host = &host_;
  fusion_.attention = nullptr;
  if (attention.is_one_kernel && !fusion_.is_compiled) {
    fusion_.attention =
        &attention_.emplace(module, users_, attention.masked, attention.known_shares);
  }
}

const FusionModel& ModuleKernels::Of(const Computation& computation) {
  const auto known = models_.find(&computation);
  if (known != models_.end()) return known->second;
  return models_.try_emplace(&computation, computation, users_, fusion_).first->second;
}

void ModuleKernels::Update() {
  users_ = Users(module_);
  host_ = HostMemory(module_, users_);
}

}  // namespace gshard
