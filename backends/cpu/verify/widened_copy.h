// A program in double precision, and how it runs.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_WIDENED_COPY_H_
#define GSHARD_BACKENDS_CPU_VERIFY_WIDENED_COPY_H_

#include <memory>

#include "backends/cpu/run/mesh_run.h"
#include "core/precision/float_widening.h"
#include "ir/module.h"

namespace gshard::cpu {

// Instructions that stay have the identifiers and names of `module`, which must live on: the copy
// is of the same context.
std::unique_ptr<Module> WidenedCopy(const Module& module, const WideningOptions& options = {});

// Of the widened program: parameters are as they were, results are not; nothing is kept or probed.
MeshRunOptions WidenedMesh(MeshRunOptions narrow, Context& context);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_WIDENED_COPY_H_
