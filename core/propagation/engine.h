// The state of one propagation and its fixed-point loop (docs/propagation.md, "Driver").
// Not thread-safe: it changes the module's shardings and interns new ones in its Context.
//
// Shardings are canonical pointers by instruction id, written back to the instructions at the end.
// Two worklists hold the instructions to re-examine forward (an operand changed) and backward (a
// user changed) by their position: computations in module order, each in post-order. Dead code
// takes part like any other.
#ifndef GSHARD_CORE_PROPAGATION_ENGINE_H_
#define GSHARD_CORE_PROPAGATION_ENGINE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "core/explain/recorder.h"
#include "core/propagation/annotations.h"
#include "core/propagation/computation_map.h"
#include "core/explain/propagation_findings.h"
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
    DerivedShardings* derived = nullptr;  // as in PropagationOptions
    bool by_relations = false;  // see PropagationOptions
  };
  // `annotations` must outlive the engine.
  Engine(Module& module, const Annotations& annotations, const Options& options,
         ExplainRecorder* recorder);

  // Runs levels 0 to 3 (see PropagationContext::level), each to a fixed point. True if anything
  // changed.
  bool Run(ShardGroups& groups);
  // Runs one level to a fixed point. True if anything changed.
  bool RunLevel(int level, ShardGroups& groups);

  // Adds the annotations that a neighbour contradicts. To be called after the last RunLevel.
  void FindConflicts(PropagationFindings& findings);

  const Sharding* of(const Instruction* x) const { return shardings_[x->id()]; }
  bool IsProvided(const Instruction* x) const { return Has(x, kProvided); }
  // Returns the position of `x` in the order of a sweep.
  uint32_t PositionOf(const Instruction* x) const { return traits_[x->id()].position; }
  const PropagationContext& rules() const { return rules_; }
  Context& context() const { return rules_.context(); }
  bool LevelAllowsForward(const Instruction* x) const {
    return traits_[x->id()].forward_level <= rules_.level();
  }
  bool LevelAllowsBackward(const Instruction* user) const {
    return traits_[user->id()].user_level <= rules_.level();
  }

  // Why a sharding is set.
  struct Cause {
    const Instruction* from = nullptr;
    ShardingEdge edge = ShardingEdge::kOperand;
    const Sharding* offered = nullptr;
  };
  // Sets unconditionally, mirrors to related instructions and queues the neighbours.
  void Set(Instruction* x, const Sharding* s, const Cause& cause);
  // Sets if the improvement rule lets it.
  void OfferTo(Instruction* x, const Sharding* s, bool aggressive, const Cause& cause);

 private:
  // What the engine knows of an instruction besides its sharding.
  enum Flag : uint16_t {
    kProvided = 1,           // fixed by the user
    kOpenDims = 2,           // a copy with open dims: refined though provided
    kSupportedForward = 4,   // receives what operands offer
    kSupportedBackward = 8,  // receives what users ask
    // The rule hands shardings on as they are: nothing happens between equal ones.
    kAlikeForward = 16,
    kAlikeBackward = 32,
    kReplicated = 64,  // state of a random generator, always replicated
    kFinal = 128,      // nothing a neighbour says can change its sharding
    // Changed since it was last examined in that direction.
    kStaleForward = 256,
    kStaleBackward = 512,
    // The sharding that it asks of an operand depends on the other operands.
    kComparesOperands = 1024,
  };
  struct Traits {
    uint32_t position = 0;  // in order_
    uint16_t flags = 0;
    uint8_t forward_level = 1, user_level = 1;
    void Add(unsigned flag) { flags = static_cast<uint16_t>(flags | flag); }
    void Remove(unsigned flag) { flags = static_cast<uint16_t>(flags & ~flag); }
  };
  Traits TraitsOf(Opcode opcode) const;
  const Rule& RuleFor(Opcode opcode) const {
    const Rule& rule = RuleOf(opcode);
    return rule.has_relation && options_.by_relations ? kRelationRule : rule;
  }
  bool Has(const Instruction* x, Flag flag) const { return (traits_[x->id()].flags & flag) != 0; }

  void ComputeOrder();
  void ComputeTraits();
  void ComputeRevisits();
  void QueueAroundShardings();
  void QueueWhereShardingsDiffer();
  void QueueStale();
  void QueueForLevel(int level);
  void QueueForward(const Instruction* x) {
    const Traits& traits = traits_[x->id()];
    if ((traits.flags & kFinal) == 0) forward_.Add(traits.position);
  }
  void QueueBackward(const Instruction* x) {
    const Traits& traits = traits_[x->id()];
    if ((traits.flags & kFinal) == 0) backward_.Add(traits.position);
  }
  void NoteManual(const Sharding* s);
  void NoteSettled(const Instruction* x);
  bool OperandsAgree(const Instruction* x) const;
  void QueueNeighbours(const Instruction* x);

  void VisitForward(Instruction* x);
  void VisitBackward(Instruction* x);
  bool TakeManualForward(Instruction* x, bool& ends);
  bool TakeManualBackward(Instruction* x);
  void TakeReplicationForward(Instruction* x);
  // To one element of a flat tuple, by the rule for arrays.
  void OfferLeaf(Instruction* x, const Offer& offer, bool aggressive);
  // All get-tuple-element users of a tuple-shaped value at once.
  void OfferFromUsers(Instruction* x);
  bool SupportedForward(const Instruction* x) const;
  bool SupportedBackward(const Instruction* x) const;
  bool IsSingleUse(const Instruction* x) const;
  // A parameter of the program that nothing but the user and manual regions may place.
  bool IsClosedParameter(const Instruction* x) const;

  Module& module_;
  const Annotations& annotations_;
  Options options_;
  ExplainRecorder* recorder_;
  std::vector<const Sharding*> shardings_;  // by id
  std::vector<Traits> traits_;              // by id
  Users users_;
  ComputationMap computations_;
  std::optional<DerivedShardings> own_derive_;  // where the options keep none
  DerivedShardings& derive_;
  PropagationContext rules_;

  struct Range {
    uint32_t begin = 0, end = 0;
  };
  std::vector<Instruction*> order_;  // by position
  std::vector<Range> ranges_;        // by computation
  Worklist forward_, backward_;
  // What levels 2 and 3 examine again in any case: broadcasts and what rules that look beyond their
  // neighbours concern.
  std::vector<const Instruction*> revisit_forward_, revisit_backward_;
  std::vector<const Instruction*> generator_states_;
  Offers offers_;
  bool changed_ = false;
  bool any_manual_ = false;  // manual regions exist; else their rules are skipped
};

}  // namespace gshard

#endif  // GSHARD_CORE_PROPAGATION_ENGINE_H_
