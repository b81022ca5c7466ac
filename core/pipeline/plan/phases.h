// What of a step is done once before the micro-batches, with each of them, and once after.
//
// Read from the program of one micro-batch (core/pipeline/plan/split_batch.h). A value *varies* if
// it differs between micro-batches. All-reduces end that: a sum over the batch that no varying
// value needs is accumulated, and what follows from it is computed once, after the last
// micro-batch. One that returns into an example's path (batch norm) is that of the micro-batch
// repeated M times. So is a sum where the micro-batch joins it with such a one, whatever is
// accumulated of it besides.
//
// Sums of what examples alone decide, random keys and counters of steps beside them, are known
// before the micro-batches, and so is what follows from them: of advantages the mean, and then the
// deviation from it.
#ifndef GSHARD_CORE_PIPELINE_PLAN_PHASES_H_
#define GSHARD_CORE_PIPELINE_PLAN_PHASES_H_

#include <unordered_set>
#include <vector>

#include "core/pipeline/plan/batch.h"
#include "ir/module.h"

namespace gshard::pipeline {

enum class Phase : uint8_t { kBefore, kMicrobatch, kAfter };

// A value that the pipeline hands to what comes after it.
struct Accumulated {
  enum class How : uint8_t { kSum, kMean, kExtreme };
  Instruction* result = nullptr;  // what later instructions use
  Instruction* term = nullptr;    // of one micro-batch
  How how = How::kSum;
  Opcode combiner = Opcode::kAdd;
};

class Phases {
 public:
  // `entering`: copies that count as made of weights and examples, of what enters the layers of a
  // shifting buffer. `whole`: beside the all-reduces
  // what is the same for all micro-batches.
  Phases(const Module& module, const BatchDims& batch,
         const std::unordered_set<const Instruction*>& entering = {},
         const std::unordered_set<const Instruction*>& whole = {});

  Phase PhaseOf(const Instruction* x) const { return info_[x->id()].phase; }
  // Differs between micro-batches.
  bool Varies(const Instruction* x) const { return info_[x->id()].varies; }
  // Depends on parameters that hold no examples.
  bool UsesWeights(const Instruction* x) const { return info_[x->id()].weights; }
  bool UsesExamples(const Instruction* x) const { return info_[x->id()].examples; }
  bool IsEntering(const Instruction* x) const { return info_[x->id()].is_entering; }
  // A sum over the batch (of examples: not an extreme).
  static bool IsSum(const Instruction* x);
  const std::vector<Accumulated>& accumulated() const { return accumulated_; }

 private:
  struct Info {
    Phase phase = Phase::kBefore;
    bool varies = false, weights = false, examples = false, returns = false;
    bool is_entering = false;
    bool learned = false;  // depends on weights that are floating, or on sums of such
  };
  Info& Of(const Instruction* x) { return info_[x->id()]; }
  void FindPhases(const Computation& entry);
  void FindAccumulated(const Computation& entry);
  std::vector<Info> info_;  // by id
  std::vector<Accumulated> accumulated_;
};

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PLAN_PHASES_H_
