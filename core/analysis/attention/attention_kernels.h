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
// of an array that a loop carries). So is the gradient of one whose rows' statistics (the logarithm
// of the sum of exponentials) were saved and are given: two dots that produce scores, an
// exponential, dots that consume them.
#ifndef GSHARD_CORE_ANALYSIS_ATTENTION_ATTENTION_KERNELS_H_
#define GSHARD_CORE_ANALYSIS_ATTENTION_ATTENTION_KERNELS_H_

#include <cstdint>
#include <vector>

#include "ir/computation.h"
#include "ir/traversal.h"

namespace gshard {

// Is an array of this shape as large as the scores, with the columns of a sink (0: they have none)
// or without?
inline bool IsScoreSized(const Shape& shape, int64_t score_elements, int64_t sink_elements) {
  const int64_t elements = shape.element_count();
  return elements == score_elements || (elements == sink_elements && sink_elements > 0);
}

struct AttentionKernel {
  std::vector<const Instruction*> members;  // in text order; values that only they use are free
  // Of the members, those that store scores for the backward pass or load them back: a kernel that
  // computes them again does neither.
  std::vector<const Instruction*> residuals;
  bool is_backward = false;     // has the gradient's dots
  double masked_share = 0;      // of its scores, that a mask of positions cuts off: see MaskedShare
  double recomputed_flops = 0;  // of scores computed again that are no dot of the graph
  double score_flops = 0;       // of one dot over the scores
  int64_t score_elements = 0;   // of the scores, and of one value a row of them
  int64_t row_elements = 0;
  int64_t sink_elements = 0;  // of the scores with a sink's columns, if there is one

  bool HasScores(const Shape& shape) const {
    return IsScoreSized(shape, score_elements, sink_elements);
  }
};

// Attention kernels of a computation, each acyclic: no member needs what follows from another
// through values outside. O(instructions) for each kernel. Masks are ModuleAttention's to find.
std::vector<AttentionKernel> FindAttention(const Computation& computation, const Users& users);

// Does any computation of the module have such a kernel?
bool SpellsAttentionOut(const Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_ATTENTION_ATTENTION_KERNELS_H_
