// Where an instruction of a pipelined program belongs (docs/pipelining.md): which stages run it, in
// which pass, for which micro-batches, of which layer it is and why.
#ifndef GSHARD_CORE_REPORT_PIPELINE_PLACE_H_
#define GSHARD_CORE_REPORT_PIPELINE_PLACE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "ir/module.h"

namespace gshard {

// A computation that `gshard-opt pipeline` made a branch of the loop over clock ticks.
struct StagePass {
  std::string pass;             // forward, backward, weight_gradients, recompute, idle
  std::vector<int64_t> stages;  // virtual stages that run it; of an idle one empty
};
// What `computation` is, by the note on its root; none if it is no pass.
std::optional<StagePass> PassOf(const Computation& computation);

struct PipelinePlace {
  std::vector<int64_t> stages;  // virtual; empty: of none in particular
  std::string
      pass;  // forward, backward, weight_gradients, idle, weight, examples, before, loop, after
  std::string microbatches;     // in words
  std::vector<int64_t> layers;  // of each of `stages`; empty: of none, made where it is used
  std::string reason;           // in words
};

// What `gshard-opt pipeline` recorded in the text; none if `module` is no such program.
std::optional<PipelinePlace> PlaceInPipeline(const Module& module, const Instruction* x);

// What passes compute in place of an instruction of the program that was pipelined: copies that
// have its name with a number (`dot.5.1` of `dot.5`), or `.remat` where it is computed again.
std::vector<const Instruction*> CopiesInPasses(const Module& module, std::string_view name);

// Lines of text about `x`.
std::string ToText(const PipelinePlace& place, const Instruction* x);
Json ToJson(const PipelinePlace& place);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_PIPELINE_PLACE_H_
