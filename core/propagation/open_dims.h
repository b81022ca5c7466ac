// Copies made from `Sharding` calls with unspecified_dims: closed dims stay as written, open dims
// may be refined by neighbours (docs/propagation.md, "Partial annotations and manual regions").
#ifndef GSHARD_CORE_PROPAGATION_OPEN_DIMS_H_
#define GSHARD_CORE_PROPAGATION_OPEN_DIMS_H_

#include <cstdint>
#include <vector>

#include "ir/instruction.h"
#include "ir/sharding.h"

namespace gshard {

class Engine;

// `open`: sorted. A full-to-shard call that is the copy's only user and lists the same open dims is
// refined together with it, or neither is.
void RefineOpenDimsForward(Engine& engine, Instruction* copy, const std::vector<int64_t>& open);
void RefineOpenDimsBackward(Engine& engine, Instruction* copy, const std::vector<int64_t>& open);
// Tries to merge what `s` says about the open dims into the copy's sharding.
bool RefineOpenDims(Engine& engine, Instruction* copy, const std::vector<int64_t>& open,
                    const Sharding* s, const Instruction* from);

}  // namespace gshard

#endif  // GSHARD_CORE_PROPAGATION_OPEN_DIMS_H_
