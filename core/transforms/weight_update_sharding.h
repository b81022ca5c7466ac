// Shards the update of weights, and the optimizer's state, over the axes of the batch (Xu et al.,
// "Automatic Cross-Replica Sharding of Weight Update in Data-Parallel Training"; GSPMD paper,
// section 3.4 on weight-update sharding; the ZeRO optimizer).
#ifndef GSHARD_CORE_TRANSFORMS_WEIGHT_UPDATE_SHARDING_H_
#define GSHARD_CORE_TRANSFORMS_WEIGHT_UPDATE_SHARDING_H_

#include <string>

#include "ir/module.h"

namespace gshard {

struct WeightUpdateOptions {
  // Mesh axes joined by "+", of the module's named mesh; empty: those that cut parameters which are
  // not updated (the batch).
  std::string axes;
  int64_t min_bytes = 1024;  // smaller tensors are left alone
};

// To run before propagation. An output is the update of entry parameters if elementwise operations
// on its own dims lead from them to it. Such an output is annotated to be cut along the axes that
// its parameters are not cut along yet, in the largest dim that they divide. Parameters read by
// updates only (momenta, variances, master weights) are annotated alike, in and out; weights, which
// the model reads too, stay as they are, are read by the update through a barrier that propagation
// does not cross, and are gathered again behind it. So partitioning turns the all-reduce of a
// gradient into a reduce-scatter, an update of a part, and an all-gather. Annotations of the user
// on such outputs win. Returns true if something changed. Errors: E-ANNOTATE-005 for an axis that
// the mesh does not have. Linear.
Expected<bool> ShardWeightUpdate(Module& module, const WeightUpdateOptions& options = {});

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_WEIGHT_UPDATE_SHARDING_H_
