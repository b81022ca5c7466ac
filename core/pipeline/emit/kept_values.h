// Which values a pass that computes a stage again leaves for the backward pass: few bytes, from
// which the others follow by operations that cost little.
//
// A compiler's choice of what to keep between two passes as a minimum cut: FlashAttention's and
// Chen et al.'s ("Training Deep Nets with Sublinear Memory Cost", 2016) observation that
// elementwise operations are cheaper to repeat than to keep. Example: of `softmax(q k)` the
// backward pass uses exponentials, sums and quotients, all of which follow from the product, one
// array of the three.
#ifndef GSHARD_CORE_PIPELINE_EMIT_KEPT_VALUES_H_
#define GSHARD_CORE_PIPELINE_EMIT_KEPT_VALUES_H_

#include <functional>
#include <optional>
#include <unordered_set>
#include <vector>

#include "ir/module.h"

namespace gshard::pipeline {

struct KeptValuesQuery {
  std::vector<Instruction*> needed;  // forward values of the stage that the backward pass uses
  // Is x there without being kept: examples, weights, what the stage is given?
  std::function<bool(const Instruction*)> is_given;
  // May x be kept at all? What may not is computed again, whatever it costs.
  std::function<bool(const Instruction*)> may_be_kept;
  // Values that another layer uses are not computed again: a layer is computed from its inputs.
  const std::unordered_set<const Instruction*>* leaves_layer = nullptr;
};

// The set of fewest bytes; of equal ones that from which least is computed again. In no order.
// Nothing where some needed value can neither be kept nor computed again. Deterministic; linear in
// the instructions from `needed` up to what is kept, but for the cut (minimum_cut.h).
std::optional<std::vector<Instruction*>> FewestBytesToKeep(const KeptValuesQuery& query);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_EMIT_KEPT_VALUES_H_
