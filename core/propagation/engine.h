// The state of one propagation and its fixed-point loop (docs/propagation.md, "Driver").
//
// Shardings are canonical pointers by instruction id, written back to the instructions at the end.
// Two worklists hold the instructions to re-examine forward (an operand changed) and backward (a
// user changed) by their position: computations in module order, each in post-order. Dead code
// takes part like any other.
#ifndef GSHARD_CORE_PROPAGATION_ENGINE_H_
#define GSHARD_CORE_PROPAGATION_ENGINE_H_

#include <cstdint>
#include <vector>

#include "core/explain/recorder.h"
#include "core/propagation/annotations.h"
#include "core/propagation/computation_map.h"
#include "core/propagation/findings.h"
#include "core/propagation/rules.h"
#include "core/propagation/worklist.h"
#include "ir/module.h"

namespace gshard {

class ShardGroups;

class Engine {
 public:
  struct Options {
    bool parameters_allowed = false;
    bool output_allowed = false;
  };
  // `annotations` must outlive the engine.
  Engine(Module& module, const Annotations& annotations, const Options& options,
         ExplainRecorder* recorder);

  // Levels 0 to 3, each to a fixed point. True if anything changed.
  bool Run(ShardGroups& groups);
  // One level to a fixed point.
  bool RunLevel(int level, ShardGroups& groups);

  // Annotations that their neighbours would have otherwise. After the last RunLevel.
  void FindConflicts(PropagationFindings& findings);

  const Sharding* of(const Instruction* x) const { return shardings_[x->id()]; }
  bool IsProvided(const Instruction* x) const { return provided_[x->id()] != 0; }
  // In the order of a sweep.
  uint32_t PositionOf(const Instruction* x) const { return position_[x->id()]; }
  const PropagationContext& rules() const { return rules_; }
  Context& context() const { return rules_.context(); }
  bool LevelAllowsForward(const Instruction* x) const {
    return forward_level_[x->id()] <= rules_.level();
  }
  bool LevelAllowsThroughUser(const Instruction* user) const {
    return user_level_[user->id()] <= rules_.level();
  }

  // Why a sharding is set.
  struct Cause {
    const Instruction* from = nullptr;
    ShardingEdge edge = ShardingEdge::kOperand;
    const Sharding* offered = nullptr;
  };
  // Sets unconditionally, mirrors to related instructions and queues the neighbours.
  void Set(Instruction* x, const Sharding* s, const Cause& cause);
  // Sets if the improvement rule lets it; true if it did.
  bool OfferTo(Instruction* x, const Sharding* s, bool aggressive, const Cause& cause);

 private:
  void ComputeOrder();
  void ComputeLevels();
  void QueueForLevel(int level);
  void NoteManual(const Sharding* s);
  void QueueNeighbours(const Instruction* x);
  void Mirror(Instruction* x, const Cause& cause);

  void VisitForward(Instruction* x);
  void VisitBackward(Instruction* x);
  bool TakeManualForward(Instruction* x, bool& ends);
  bool TakeManualBackward(Instruction* x);
  void TakeReplicationForward(Instruction* x);
  // To one element of a flat tuple, by the rule for arrays.
  bool OfferLeaf(Instruction* x, const Offer& offer, bool aggressive);
  // All get-tuple-element users of a tuple-shaped value at once.
  void OfferFromUsers(Instruction* x);
  bool SupportedForward(const Instruction* x) const;
  bool SupportedBackward(const Instruction* x) const;
  bool IsSingleUse(const Instruction* x) const;

  Module& module_;
  const Annotations& annotations_;
  Options options_;
  ExplainRecorder* recorder_;
  std::vector<const Sharding*> shardings_;  // by id
  std::vector<uint8_t> provided_;           // by id
  std::vector<uint8_t> forward_level_, user_level_;
  Users users_;
  ComputationMap computations_;
  DerivedShardings derive_;
  PropagationContext rules_;

  struct Range {
    uint32_t begin = 0, end = 0;
  };
  std::vector<Instruction*> order_;  // by position
  std::vector<Range> ranges_;        // by computation
  std::vector<uint32_t> position_;   // by id
  Worklist forward_, backward_;
  // Changed since they were last examined in that direction: what only a new level revisits.
  Worklist stale_forward_, stale_backward_;
  Offers offers_;
  bool changed_ = false;
  bool any_manual_ = false;  // manual regions exist; else their rules are skipped
};

}  // namespace gshard

#endif  // GSHARD_CORE_PROPAGATION_ENGINE_H_
