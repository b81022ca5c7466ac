// Which tensor of the whole program a value of one device's program is a part of.
#ifndef GSHARD_CORE_COST_MEMORY_GLOBAL_TENSORS_H_
#define GSHARD_CORE_COST_MEMORY_GLOBAL_TENSORS_H_

#include <unordered_map>

#include "core/cost/memory/peak_memory.h"
#include "ir/module.h"
#include "ir/sharding.h"

namespace gshard {

// Shapes and shardings of a propagated module's tensors, found again by their place in the user's
// text, which the partitioner's instructions keep. Shapes and shardings are the context's.
class GlobalTensors {
 public:
  struct Tensor {
    Opcode opcode = Opcode::kTuple;  // that computes it
    const Shape* shape = nullptr;
    const Sharding* sharding = nullptr;
  };

  void Record(const Module& propagated);
  // The tensor whose tile `local` is, an array that `x` computes; nothing where `x` only helps to
  // compute it (an operand's reshard, a halo). Collectives that finish a value count as it.
  const Tensor* Find(const Instruction* x, const Shape* local) const;

 private:
  std::unordered_multimap<uint32_t, Tensor> by_place_;
};

// Fills in the global shapes, shardings and free axes of what is alive at the peak. `module`: the
// program of one device that the report is of; its parameters' sharding= records count where
// `tensors` knows nothing.
void DescribeTensors(Module& module, const GlobalTensors& tensors, MemoryReport& report);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_MEMORY_GLOBAL_TENSORS_H_
