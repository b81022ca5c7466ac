// The sequence of layers in a training step, and which layer each instruction belongs to.
//
// Layers are numbered from the input (0) to the loss. Forward instructions are those that the loss
// needs; ordered depth first from the loss, a layer is a stretch of them between two places that
// few values cross. Stretches that repeat are the repeated blocks of the network; what precedes and
// follows them are layers, too. A backward instruction belongs to the layer nearest the input of
// those that its operands give: a cotangent its own layer, a forward value the last layer that uses
// it. From there it may move nearer the input, to the layer whose weights its result updates
// (docs/pipelining.md, "Layers and stages"). What the backward pass computes from forward values
// alone has no layer: it is computed where it is used.
#ifndef GSHARD_CORE_PIPELINE_PLAN_LAYERS_H_
#define GSHARD_CORE_PIPELINE_PLAN_LAYERS_H_

#include <string>
#include <unordered_map>
#include <vector>

#include "core/analysis/updates.h"
#include "core/pipeline/plan/layer_cuts.h"
#include "core/pipeline/plan/manual_regions.h"
#include "core/pipeline/plan/phases.h"
#include "ir/traversal.h"

namespace gshard::pipeline {

class InstructionTimes;

// FLOPs, seconds and bytes of activations are for one micro-batch.
struct Layer {
  std::string name;  // of its first instruction
  double forward_flops = 0, backward_flops = 0;
  double forward_s = 0, backward_s = 0;  // seconds by the cost model
  // Of the forward values alone: loops without what they stack for the backward pass.
  double forward_only_s = 0;
  bool has_backward = false;  // frozen layers before the first weight that is trained have none
  int64_t weight_bytes = 0;
  int64_t parameters = 0;    // elements of the weights
  int64_t state_bytes = 0;   // of the weights and what is updated beside them (momenta), its share
  int64_t output_bytes = 0;  // of the values that cross into later layers, one micro-batch
  // Of the cotangents and what else of the backward pass crosses from later layers into this one or
  // those before.
  int64_t cotangent_bytes = 0;
  int64_t saved_bytes = 0;   // of forward values that the layer's backward pass needs
  bool is_repeated = false;  // one of a run of equal blocks
  // Bytes of the weights that are rows of stacked parameters, by the device of the stage axis on
  // which they lie between steps.
  std::vector<std::pair<int64_t, int64_t>> home_bytes;

  // Seconds of the layer in the forward pass, if the backward pass computes it `again` times: if it
  // does, nothing is kept for it.
  double ForwardPassSeconds(double again) const { return again > 0 ? forward_only_s : forward_s; }
  // Seconds of these repetitions: the last one has what the backward pass reads, the others what
  // the next layer reads.
  double AgainSeconds(double again) const {
    return again > 0 ? forward_s + (again - 1) * forward_only_s : 0;
  }
};

// A summand of an accumulated value: sums of several terms are taken apart, so that shared weights
// have a gradient on each stage that uses them.
struct Term {
  size_t accumulated = 0;  // index into Phases::accumulated()
  Instruction* value = nullptr;
};

// Immutable after Make: may be read by many threads as long as the module does not change.
class LayerGraph {
 public:
  // `regions`: which instructions lie inside one is found here. `own_constants`: layers' own
  // constants beyond those that FindLayerConstants knows. Errors: E-PIPELINE-004 (nothing to cut,
  // --cut matches nothing).
  static Expected<LayerGraph> Make(
      const Module& module, const Phases& phases, const Updates& updates,
      const PipelineOptions& options, const ManualRegions& regions,
      const std::unordered_set<const Instruction*>& own_constants = {});

  const std::vector<Layer>& layers() const { return layers_; }
  int64_t count() const { return static_cast<int64_t>(layers_.size()); }
  const std::vector<Term>& terms() const { return terms_; }

  const ManualRegions& regions() const { return regions_; }

  // Returns the layer of an instruction; -1: it is computed where it is needed.
  int64_t LayerOf(const Instruction* x) const { return info_[x->id()].layer; }
  bool IsBackward(const Instruction* x) const { return info_[x->id()].is_backward; }
  // True if `x` is among what stages divide among them: it depends on examples and weights.
  bool IsPlaced(const Instruction* x) const { return info_[x->id()].is_placed; }
  // Returns the seconds of `x` by the cost model, if it is placed; a kernel's time is its root's.
  double SecondsOf(const Instruction* x) const { return work_[x->id()].seconds; }
  // Is `x` placed, and written by the kernel of a product (InstructionTimes::IsWrittenByProduct)?
  bool IsWrittenByProduct(const Instruction* x) const { return work_[x->id()].is_of_product; }
  // The array of weights behind an operand from before the micro-batches: broadcasts, reshapes,
  // transposes and reversals are made where they are needed, and so is what a manual region makes
  // of weights. Null if it is no weight. With the shifting buffer layers' own constants are
  // weights, too.
  Instruction* WeightOf(const Instruction* x) const { return weight_of_[x->id()]; }
  // What holds a jax.lax.with_sharding_constraint of the step's.
  static bool IsConstraint(const Instruction* x);
  // A weight where the step wants it to be before it computes a loss, as updates of weights that
  // are cut over the batch's axes gather them once a step: jax.lax.with_sharding_constraint outside
  // of what is differentiated.
  static bool IsPlacedByStep(const Instruction* x);
  // Returns the array that these operations rearrange.
  static Instruction* BeforeRearranging(Instruction* x);

 private:
  struct Info {
    int32_t layer = -1;
    int32_t last_forward = -1;  // last layer with a forward use
    bool is_placed = false, is_forward = false, is_backward = false;
    bool is_target = false;  // a term, or a result with examples
    bool is_saved = false;   // of the forward pass, and the backward pass uses it
    // A target of a weight that this layer uses, and one below: of either.
    bool may_stay = false;
  };
  struct Work {
    double seconds = 0;
    double forward_only_s = 0;  // as in Layer
    double flops = 0;
    bool is_of_product = false;  // written by the kernel of a product
  };
  // One way to cut the layers, with the layer of each instruction.
  struct Placement {
    std::vector<Info> info;
    std::vector<Layer> layers;
  };
  // A placed instruction: what finding its layer asks of it again and again. In a program of many
  // layers that would otherwise wait for memory, for the instruction and for each of its operands.
  struct Placed {
    Instruction* x;
    uint32_t id, begin, end;  // its id, and where those of its operands are in operand_ids_
    bool is_backward, is_tuple;
    bool is_element;  // of a placed tuple
  };
  LayerGraph(const Module& module, const Phases& phases, const ManualRegions& regions);
  Info& Of(const Instruction* x) { return info_[x->id()]; }
  void FindTerms();
  void FindWeights();
  Instruction* FindWeight(Instruction* x) const;
  void MarkPlaced();
  void ListPlaced();
  std::span<const uint32_t> OperandsOf(const Placed& placed) const {
    return std::span(operand_ids_).subspan(placed.begin, placed.end - placed.begin);
  }
  void MarkForward(const Updates& updates);
  std::vector<int32_t> DepthsFromExamples() const;
  void OrderForward(const std::vector<Instruction*>& roots);
  Expected<std::vector<LayerCuts>> FindCuts(const PipelineOptions& options);
  std::vector<Placement> PlaceLayers(const std::vector<LayerCuts>& ways);
  void MeasureTimes(const InstructionTimes& times, const Chip& chip);
  void ChoosePlacement(std::vector<Placement> placements, const Updates& updates,
                       const PipelineOptions& options);
  double LongestStage(const PipelineOptions& options) const;
  void LeaveOutLast(int64_t stages);
  std::vector<int32_t> LayersReadBehind() const;
  void PlaceForward(const LayerCuts& cuts);
  void PlaceBackward();
  void LeaveTuplesUnplaced();
  // Layers by weight.
  class WeightHomes {
   public:
    explicit WeightHomes(size_t instructions) : at_(instructions, -1) {}
    void Add(const Instruction* weight, int32_t layer);
    bool Has(const Instruction* weight) const { return at_[weight->id()] >= 0; }
    size_t size() const { return homes_.size(); }
    const std::vector<int32_t>& Of(const Instruction* weight) const {  // ascending, each once
      return homes_[static_cast<size_t>(at_[weight->id()])].layers;
    }
    int32_t FirstAdded(const Instruction* weight) const {
      return homes_[static_cast<size_t>(at_[weight->id()])].first_added;
    }
    // Returns the last one that is not after `layer`; -1: there is none.
    int32_t LastUpTo(const Instruction* weight, int32_t layer) const;

   private:
    struct Homes {
      int32_t first_added;
      std::vector<int32_t> layers;
    };
    std::vector<int32_t> at_;  // by id of the weight: in homes_; -1: it has none
    std::vector<Homes> homes_;
  };
  struct BackwardNeeds {
    bool floats = false;   // no cotangent is behind it
    bool is_free = false;  // nor a forward value or a weight
    int32_t bound = 0;     // last layer that has the forward values it needs
    int32_t made = 0;      // layer that makes the last of them
    int32_t home = -1;     // of the weights it uses
    int32_t floor = 0;     // of all that follows from it: layers below cannot compute it
  };
  template <typename Visit>
  void ForWeightsBehind(Instruction* operand, Visit visit) const;
  WeightHomes HomesOfWeights() const;
  WeightHomes HomesOfSources(const WeightHomes& homes) const;
  template <typename Visit>
  void ForWeightsOf(const Placed& placed, Visit visit) const;
  int32_t HomeOfOperands(const Placed& placed, const WeightHomes& homes, int32_t layer) const;
  int32_t LastUsedByBackward() const;
  // By id, of backward instructions.
  std::vector<BackwardNeeds> FindNeeds(const WeightHomes& homes) const;
  void SettleFloating(std::vector<BackwardNeeds>& needs);
  void FindFloors(std::vector<BackwardNeeds>& needs) const;
  std::vector<int32_t> FindUpdated(const WeightHomes& homes);
  std::unordered_map<const Instruction*, Instruction*> GradientsOfWeights() const;
  // The layers of the weight that a term updates: the last one up to the term's layer, and the last
  // before that; -1: there is none.
  struct TermHome {
    int32_t last = -1, before = -1;
  };
  std::vector<TermHome> HomesOfTerms(const WeightHomes& homes) const;  // by id of a term
  void LowerBackward(const std::vector<Instruction*>& list, int32_t layer,
                     const std::vector<int32_t>& lowest, std::vector<int32_t>& moves_from);
  void RaiseUnlike(const std::vector<std::vector<Instruction*>>& of_layer);
  void Summarise();
  void AddCotangents();
  void AddWeight(Instruction* weight, Layer& layer) const;
  int64_t HomeOf(Instruction* weight) const;
  void ShareState(const Updates& updates);

  const Module& module_;
  const Phases& phases_;
  ManualRegions regions_;
  Users users_;
  std::vector<Info> info_;               // by id
  std::vector<Work> work_;               // by id: of what is placed
  std::vector<Placed> placed_;           // in text order
  std::vector<uint32_t> operand_ids_;    // of placed_, one after the other
  std::vector<Instruction*> weight_of_;  // by id: of what uses no examples
  std::vector<Instruction*> forward_;
  std::vector<Term> terms_;
  std::vector<Instruction*> targets_;
  std::vector<Layer> layers_;
  std::unordered_set<const Instruction*> own_constants_;
  bool keeps_alike_ = false;  // the equal layers: of the stages of a shifting buffer
  int64_t stages_ = 1;        // over which parameters are cut; 1: they are not
};

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PLAN_LAYERS_H_
