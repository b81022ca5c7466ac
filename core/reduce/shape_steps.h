// Steps on sizes: dims of all arrays at once, and axes of the mesh.
#ifndef GSHARD_CORE_REDUCE_SHAPE_STEPS_H_
#define GSHARD_CORE_REDUCE_SHAPE_STEPS_H_

#include <cstdint>

#include "ir/module.h"

namespace gshard::reduce {

// Items: each size of a dim above 1, three times: it becomes 1, 2, or half of it, in every array
// that has it, in slices and constants too (those become zeros).
int64_t CountDimSizes(Module& module);
bool ShrinkDims(Module& module, int64_t begin, int64_t end);

// Items: dims of parameters of the entry, three times: one becomes 2, an eighth or half of what it
// is, with all the dims that operations tie to it (core/resize), and no others.
int64_t CountTiedDims(Module& module);
bool ShrinkTiedDims(Module& module, int64_t begin, int64_t end);

// Items: each axis of the mesh that the module names, twice: its size becomes 1, or half of it.
int64_t CountMeshAxes(Module& module);
bool ShrinkMesh(Module& module, int64_t begin, int64_t end);

}  // namespace gshard::reduce

#endif  // GSHARD_CORE_REDUCE_SHAPE_STEPS_H_
