// Which values a compiler would not write to memory, because their users compute them on the fly.
//
// A model, not a pass: broadcasts and iotas, and elementwise values with one user, are taken as
// fused into elementwise and reduce users. Costs and memory reports rest on it.
#ifndef GSHARD_CORE_ANALYSIS_FUSION_H_
#define GSHARD_CORE_ANALYSIS_FUSION_H_

#include <vector>

#include "ir/computation.h"
#include "ir/traversal.h"

namespace gshard {

class FusionModel {
 public:
  FusionModel(const Computation& computation, const Users& users);

  // True: the value is never materialised.
  bool IsFused(const Instruction* instruction) const { return fused_[Index(instruction)]; }
  // The materialised values that computing `instruction` reads, each once, fused operands looked
  // through.
  std::vector<const Instruction*> Inputs(const Instruction* instruction) const;

 private:
  size_t Index(const Instruction* instruction) const { return instruction->id() - first_id_; }
  uint32_t first_id_ = 0;
  std::vector<bool> fused_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_FUSION_H_
