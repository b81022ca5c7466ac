// Which dims of its arrays XLA's compiler for TPUs lets lie along the lanes and sublanes of tiles.
//
// Tiles of T(8,128) pad the two most minor dims, and the compiler is free to choose these for most
// values: it takes those that pad least. It is not free for what gathers and scatters address,
// whose slices' dims are minor, for what batched products read and write, whose batch dims are
// major, and for that of convolutions, whose spatial dims are (docs/against_tpu.md, "What the
// compiler's buffer assignments show"). An array of narrow rows then takes a multiple of its
// elements: f32[100000,16] 48.8 MiB for 6.1.
#ifndef GSHARD_CORE_COST_MEMORY_MINOR_DIMS_H_
#define GSHARD_CORE_COST_MEMORY_MINOR_DIMS_H_

#include <cstdint>
#include <vector>

#include "core/cost/memory/buffer_size.h"
#include "ir/computation.h"
#include "ir/traversal.h"

namespace gshard {

// Immutable after construction: may be read by many threads as long as the module does not change.
class ComputationMinorDims {
 public:
  // Linear in the computation; `users`: of the whole module.
  ComputationMinorDims(const Computation& computation, const Users& users);

  // Of a value of the computation. Tuples, parameters and what operations between arrays and
  // tuples make are free.
  MinorDims Of(const Instruction* x) const { return dims_[x->id() - first_id_]; }

 private:
  MinorDims& At(const Instruction* x) { return dims_[x->id() - first_id_]; }
  // Of what operations that are not free write, and what they read.
  void Constrain(const Instruction* x);
  void Set(const Instruction* x, MinorDims dims);
  void ConstrainOperand(const Instruction* operand, MinorDims dims);
  // What moves or computes elements one by one has the dims of what it reads, else of its user.
  void TakeFromOperands(const Instruction* x);
  void TakeFromUser(const Instruction* x, const Instruction* user);

  uint32_t first_id_ = 0;
  std::vector<MinorDims> dims_;  // by id - first_id_
};

}  // namespace gshard

#endif  // GSHARD_CORE_COST_MEMORY_MINOR_DIMS_H_
