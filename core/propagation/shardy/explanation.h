// Why values are sharded so, in the terms of Shardy's rules.
#ifndef GSHARD_CORE_PROPAGATION_SHARDY_EXPLANATION_H_
#define GSHARD_CORE_PROPAGATION_SHARDY_EXPLANATION_H_

#include <vector>

#include "core/explain/propagation_findings.h"
#include "core/explain/recorder.h"
#include "core/propagation/shardy/engine.h"
#include "ir/module.h"

namespace gshard::shardy {

// Records annotations, then each step as a change of the instruction that makes the tensor. Its
// shardings must have been set.
void RecordGrowths(const Graph& graph, const std::vector<Growth>& growths, const Module& module,
                   ExplainRecorder& recorder);

// Annotated tensors that an operation would have cut in a way that neither contains their
// annotation nor is contained in it: data moves there. In program order; `mesh`: of the shardings
// told.
void FindConflicts(const Graph& graph, const Module& module, const Mesh* mesh,
                   PropagationFindings& findings);

}  // namespace gshard::shardy

#endif  // GSHARD_CORE_PROPAGATION_SHARDY_EXPLANATION_H_
