// One computation for each pass of each stage: a branch of the loop's conditional.
//
// Stages that compute the same share one computation, so that the text does not grow with their
// number. A computation takes one tuple (RegionState) and returns what the pass hands on and the
// buffers that it wrote.
#ifndef GSHARD_CORE_PIPELINE_EMIT_STAGE_FUNCTIONS_H_
#define GSHARD_CORE_PIPELINE_EMIT_STAGE_FUNCTIONS_H_

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/pipeline/emit/region_shardings.h"
#include "core/pipeline/emit/region_state.h"
#include "core/pipeline/emit/stage_signature.h"
#include "core/pipeline/emit/whole_sums.h"
#include "ir/attribute_names.h"
#include "ir/builder.h"

namespace gshard::pipeline {

// Values of kLayerAttribute; written when it is known which computations are kept, as stages
// that compute the same share one.
using LayerNotes = std::unordered_map<const Instruction*, std::string>;

struct StageFunctionInputs {
  Module* module = nullptr;
  const Phases* phases = nullptr;
  const LayerGraph* layers = nullptr;
  const StageGraph* stages = nullptr;
  const RegionState* state = nullptr;
  const RegionShardings* shardings = nullptr;
  const Shape* operand_shape = nullptr;  // of the tuple a pass takes
  std::vector<DataForm> data;            // as RegionState::data
  // A pass computes only what has the slots of results that this virtual stage fills; unset: all.
  std::optional<int64_t> results_of;
  LayerNotes* notes = nullptr;  // filled in
  // Returns the user's sharding of a value of the input program; null: none.
  std::function<const Sharding*(const Instruction*)> annotation;
};

// Makes the computation of a pass of virtual stage v; kNone: of a device that has nothing to do.
Computation* MakeStageFunction(const StageFunctionInputs& inputs, Pass pass, int64_t v);

// Writes kStageAttribute (on the root) and kLayerAttribute (on instructions that `notes` has) into
// the computation of a pass of these virtual stages.
void NotePass(Module& module, Computation* function, Pass pass, std::span<const int64_t> stages,
              const LayerNotes& notes);

class StageFunctions {
 public:
  explicit StageFunctions(StageFunctionInputs inputs) : in_(std::move(inputs)), signatures_(in_) {
    in_.notes = &notes_;
  }
  StageFunctions(const StageFunctions&) = delete;
  StageFunctions& operator=(const StageFunctions&) = delete;

  // Returns the index of the branch of a pass, which it makes if there is none yet; kNone: of a
  // device that has nothing to do.
  int64_t Branch(Pass pass, int64_t v);
  const std::vector<Computation*>& branches() const { return branches_; }
  // Calls NotePass for every branch. To be called when all branches are made.
  void NotePasses();

 private:
  StageFunctionInputs in_;
  std::vector<Computation*> branches_;
  std::map<std::pair<Pass, int64_t>, int64_t> index_;
  StageSignatures signatures_;
  std::map<std::vector<int64_t>, int64_t> of_signature_;  // indices
  LayerNotes notes_;
};

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_EMIT_STAGE_FUNCTIONS_H_
