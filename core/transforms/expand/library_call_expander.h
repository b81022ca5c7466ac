// Calls of a GPU's libraries in terms of plain operations.
//
//   (f32[8,4], s8[4194304]) custom-call(a, b, bias), custom_call_target="__cublas$lt$matmul"
//   ─► maximum(add(dot(a, b), broadcast(bias)), 0)
#ifndef GSHARD_CORE_TRANSFORMS_EXPAND_LIBRARY_CALL_EXPANDER_H_
#define GSHARD_CORE_TRANSFORMS_EXPAND_LIBRARY_CALL_EXPANDER_H_

#include "ir/module.h"

namespace gshard {

// Products of cuBLAS, convolutions and attention of cuDNN, sorts of CUB, triangular solves and
// top-k, as XLA's compiler for GPUs writes them. What is computed in narrow floats is computed in
// f32 and rounded once, at the end, as the libraries do. Workspaces that somebody reads are zeros.
// A call whose configuration asks for something else (dropout, pages) stays as it is. In fusions
// for cuDNN a convolution of kind dgrad turns its kernel around, which is written out. Of XLA's
// compiler for TPUs: the pieces of an array are joined in its order, and the fusions of an
// asynchronous collective do it once. True if there were some.
bool ExpandLibraryCalls(Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_EXPAND_LIBRARY_CALL_EXPANDER_H_
