// Finds attention in a graph that spells it out: dot, softmax, dot, and its gradient.
//
//   forward    scores = dot(q, k), masked, scaled; softmax; dot(p, v)
//   backward   dp = dot(do, v); ds = p * (dp - rowsum(dp * p)); dq, dk, dv = dots of ds and p
//
// Users call one kernel for it (flash attention, arXiv 2205.14135), which never writes scores:
// backward, it computes them again from q and k. The recogniser grows, from a batched dot, the
// region of values that have the scores' elements (and the statistics of their rows) up to the dots
// that consume them. A region with a row reduction that comes back to its scores, between dots that
// produce and dots that consume scores, is attention: whatever the order of dims, with masks,
// biases, caps and dropout, with grouped queries, with scores recomputed or saved (also as slices
// of an array that a loop carries).
#ifndef GSHARD_CORE_ANALYSIS_ATTENTION_H_
#define GSHARD_CORE_ANALYSIS_ATTENTION_H_

#include <vector>

#include "ir/computation.h"
#include "ir/traversal.h"

namespace gshard {

struct AttentionKernel {
  std::vector<const Instruction*> members;  // in text order; values that only they use are free
  // Of the members, those that store scores for the backward pass or load them back: a kernel that
  // computes them again does neither.
  std::vector<const Instruction*> residuals;
  bool is_backward = false;     // has the gradient's dots
  bool is_causal = false;       // scores are masked by comparing positions: half count
  double recomputed_flops = 0;  // of scores computed again that are no dot of the graph
  double score_flops = 0;       // of one dot over the scores
};

// Attention kernels of a computation, each acyclic: no member needs what follows from another
// through values outside. O(instructions) for each kernel.
std::vector<AttentionKernel> FindAttention(const Computation& computation, const Users& users);

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_ATTENTION_H_
