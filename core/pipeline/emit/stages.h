// Layers grouped into stages: what each pass of each stage computes, takes and hands on.
//
// A value that a later stage needs goes through all stages between, as part of the bundle that
// crosses each boundary; so skip connections need nothing of their own.
#ifndef GSHARD_CORE_PIPELINE_EMIT_STAGES_H_
#define GSHARD_CORE_PIPELINE_EMIT_STAGES_H_

#include <unordered_map>
#include <vector>

#include "core/pipeline/plan/layers.h"
#include "core/pipeline/plan/schedule.h"

namespace gshard::pipeline {

// What one pass of one (virtual) stage adds to an accumulated value.
struct StageTerm {
  size_t accumulated = 0;
  std::vector<Instruction*> values;  // summed
};

struct StagePass {
  std::vector<StageTerm> terms;
  std::vector<Instruction*> outputs;  // results of the step that have examples
};

class StageGraph {
 public:
  // `first_layers`: of each virtual stage. `has_forward_of_last` as in Schedule. With the shifting
  // buffer the first and the last are the layers outside it.
  StageGraph(const Module& module, const Phases& phases, const LayerGraph& layers,
             std::vector<int64_t> first_layers, bool has_forward_of_last,
             const PipelineOptions& options);

  const Module& module() const { return module_; }
  const Phases& phases() const { return phases_; }
  const LayerGraph& layers() const { return layers_; }
  int64_t count() const { return static_cast<int64_t>(first_layers_.size()); }
  const std::vector<int64_t>& first_layers() const { return first_layers_; }
  bool has_backward() const { return has_backward_; }
  bool splits_backward() const { return splits_backward_; }
  bool saves_values() const { return saves_values_; }
  // The backward pass computes each layer again from its input (--remat all).
  bool recomputes_layers() const { return recomputes_layers_; }
  // In a pass of its own, before the backward pass; of the last stage that is its forward pass. So
  // what the backward pass needs lies in the same buffers on all stages. Two stages gain nothing by
  // it: the first waits for no one but the last.
  bool recomputes_ahead() const { return recomputes_ahead_; }
  // Computed outside the shifting buffer.
  bool IsOutside(int64_t v) const { return has_outside_ && (v == 0 || v == count() - 1); }
  bool has_outside() const { return has_outside_; }

  // Values that cross from stage k to k + 1, and from k + 1 back to k, in text order.
  const std::vector<Instruction*>& forward_bundle(int64_t k) const { return forward_[Index(k)]; }
  const std::vector<Instruction*>& backward_bundle(int64_t k) const { return backward_[Index(k)]; }
  // Forward values of stage v that its backward pass is given, by the forward pass (--remat none)
  // or by the pass that computes them again (recomputes_ahead).
  const std::vector<Instruction*>& saved(int64_t v) const { return saved_[Index(v)]; }
  // Values that the gradients of weights are given by the backward pass (zero-bubble).
  const std::vector<Instruction*>& delayed(int64_t v) const { return delayed_[Index(v)]; }
  const StagePass& pass(Pass pass, int64_t v) const {
    return passes_[static_cast<size_t>(pass) - 1][Index(v)];
  }
  int64_t StageOf(const Instruction* x) const;  // -1: computed where it is needed

  // With the shifting buffer a number that values of alike stages share if they are made alike, and
  // forward values only if they are of the same layer of their stage; 0 with other schedules.
  int64_t KindOf(const Instruction* x) const;

  // Values a pass must compute or pass on: bundles and what it hands to later passes, terms,
  // outputs.
  std::vector<Instruction*> TargetsOf(Pass pass, int64_t v) const;
  // Is x given to the pass by others (bundles, saved and delayed values)?
  bool IsInput(Pass pass, int64_t v, const Instruction* x) const;

 private:
  static size_t Index(int64_t i) { return static_cast<size_t>(i); }
  using SavedRoom = std::unordered_map<const Shape*, int64_t>;  // values of each shape
  struct Place {
    Pass pass = Pass::kNone;
    int64_t stage = -1;
  };
  Place PlaceOf(const Instruction* x) const;
  void RouteAll();
  void Route(Instruction* x, const Place& user);
  void FindSaved();
  std::vector<Instruction*> KeptOf(
      int64_t v, SavedRoom* room, const std::unordered_set<const Instruction*>& leaves_layer) const;
  void SplitBackward();
  void PlaceTerms();
  std::vector<int32_t> FindForms(bool details) const;
  void OrderAlike();
  void OrderHanded();
  void SortByPosition(std::vector<Instruction*>& list) const;
  // Forward values of stage v that the targets need. `room`: no more than there is room for, others
  // are looked through; null: any.
  std::vector<Instruction*> InputsOf(const std::vector<Instruction*>& targets, Pass pass, int64_t v,
                                     SavedRoom* room) const;

  const Module& module_;
  const Phases& phases_;
  const LayerGraph& layers_;
  std::vector<int64_t> first_layers_;
  std::vector<int64_t> stage_of_layer_;
  bool has_forward_of_last_, has_outside_, copies_cotangents_;
  bool has_backward_ = false, splits_backward_, saves_values_, recomputes_layers_,
       recomputes_ahead_;
  std::vector<std::vector<Instruction*>> forward_, backward_, saved_, delayed_;
  std::vector<std::unordered_set<const Instruction*>> forward_set_, backward_set_, saved_set_,
      delayed_set_;
  std::vector<StagePass> passes_[kPassKinds];
  std::vector<size_t> position_;       // by id
  std::vector<int64_t> last_forward_;  // stage, by id; -1: nobody needs it
  std::vector<int32_t> kinds_;         // by id: see FindForms
};

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_EMIT_STAGES_H_
