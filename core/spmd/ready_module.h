// A program on which the passes before propagation have run once, for many plans: copies of it that
// differ in the shardings of parameters and products.
#ifndef GSHARD_CORE_SPMD_READY_MODULE_H_
#define GSHARD_CORE_SPMD_READY_MODULE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/pass.h"
#include "ir/module.h"

namespace gshard {

class ReadyModule {
 public:
  // Nothing where there is more to do than to canonicalize and to split constants as for GSPMD's
  // propagation: calls, attributes of Shardy, sizes known at run time, one device only. `mode`: as
  // PropagationOptions has it.
  static std::optional<ReadyModule> Make(const Module& whole, PropagationMode mode);

  const Module& module() const { return *module_; }
  // May a plan give the instruction of this id of the whole program another sharding? The passes
  // leave it as it is with any sharding: a parameter, or an operation that no simplification is
  // about, and it has a reader.
  bool MayBeSharded(uint32_t id) const { return may_be_sharded_[id]; }
  // Copies of constants, in a copy of module().
  std::vector<ConstantCopy> ConstantCopiesIn(const Module& copy) const;

 private:
  std::unique_ptr<Module> module_;
  std::vector<std::pair<uint32_t, uint32_t>> constant_copies_;  // ids: copy, original
  std::vector<bool> may_be_sharded_;                            // by instruction id
};

}  // namespace gshard

#endif  // GSHARD_CORE_SPMD_READY_MODULE_H_
