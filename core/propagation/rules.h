// Sharding rules: one pair of pure functions per opcode, in core/propagation/ops/<family>.cc.
//
// A forward rule lists, in order, what an instruction is offered because of its operands; a
// backward rule derives what one user asks of one of its operands. Neither changes anything: the
// engine decides by the improvement rule. All shardings are canonical and may be null for "none".
// The behaviour is specified in docs/propagation.md, "Rules per opcode".
#ifndef GSHARD_CORE_PROPAGATION_RULES_H_
#define GSHARD_CORE_PROPAGATION_RULES_H_

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/propagation/computation_map.h"
#include "core/propagation/derived_shardings.h"
#include "core/propagation/dot_dims.h"
#include "core/propagation/parallel_dims.h"
#include "ir/instruction.h"
#include "ir/sharding.h"
#include "ir/traversal.h"

namespace gshard {

// True of a sharding all of whose leaves are of `kind` (an empty tuple: false).
bool IsAll(const Sharding* s, ShardingKind kind);

// State that a rule may read. Not thread-safe: its accessors fill caches. It owns none of what the
// constructor is given; all of it must outlive the context.
class PropagationContext {
 public:
  PropagationContext(DerivedShardings& derive, const std::vector<const Sharding*>& shardings,
                     const Users& users, const ComputationMap& computations)
      : derive_(&derive), shardings_(&shardings), users_(&users), computations_(&computations) {}

  Context& context() const { return derive_->context(); }
  DerivedShardings& derive() const { return *derive_; }
  // Canonical sharding of `x` now, or null.
  const Sharding* of(const Instruction* x) const { return (*shardings_)[x->id()]; }
  // The sharding of `x`, tiled or replicated; null if it has none or is on a single device.
  const Sharding* NotMaximal(const Instruction* x) const {
    const Sharding* s = of(x);
    if (s == nullptr || (s->IsTuple() ? IsAll(s, ShardingKind::kMaximal) : s->IsMaximal())) {
      return nullptr;
    }
    return s;
  }
  // Level 0..3 of aggressiveness (docs/propagation.md, "Driver"). What each adds:
  //   0  elementwise operations; calls, concatenations, dynamic slices and updates, tuples and
  //      their elements, barriers, reshapes, transposes and loops
  //   1  all other operations but broadcasts; shardings may be combined (may_combine)
  //   2  broadcasts backward: their operands take from them
  //   3  broadcasts forward: they take from their operands
  int level() const { return level_; }
  void set_level(int level) { level_ = level; }
  bool may_combine() const { return level_ >= 1; }
  // May entry parameters take what their users ask.
  bool parameters_allowed() const { return parameters_allowed_; }
  void set_parameters_allowed(bool allowed) { parameters_allowed_ = allowed; }
  std::span<Instruction* const> users(const Instruction* x) const { return users_->of(x); }
  const ComputationMap& computations() const { return *computations_; }
  ParallelDimsCache& parallel_dims() const { return parallel_dims_; }
  DotDimsCache& dot_dims() const { return dot_dims_; }

 private:
  DerivedShardings* derive_;
  const std::vector<const Sharding*>* shardings_;
  const Users* users_;
  const ComputationMap* computations_;
  int level_ = 0;
  bool parameters_allowed_ = false;
  mutable ParallelDimsCache parallel_dims_;
  mutable DotDimsCache dot_dims_;
};

// Leaves [first, first + count) of a tuple-shaped value.
struct LeafRange {
  int64_t first = 0, count = 1;
};

struct Offer {
  const Sharding* sharding = nullptr;
  const Instruction* from = nullptr;  // the operand it comes from
  bool aggressive = false;            // only honoured if the receiver is single-use
  int64_t leaf = -1;                  // the one leaf of a tuple it is for; -1: the whole value
  bool skip_merge = false;            // the rule compared leaf by leaf already: taken unmerged
};

class Offers {
 public:
  // Null shardings are ignored.
  void Add(const Sharding* sharding, const Instruction* from, bool aggressive, int64_t leaf = -1) {
    if (sharding != nullptr) list_.push_back({sharding->canonical, from, aggressive, leaf});
  }
  void AddAsItIs(const Sharding* sharding, const Instruction* from) {
    list_.push_back({sharding->canonical, from, false, -1, true});
  }
  void Clear() { list_.clear(); }
  std::span<const Offer> list() const { return list_; }

 private:
  std::vector<Offer> list_;
};

using ForwardRule = void (*)(const PropagationContext& c, const Instruction& x, Offers& offers);
// Returns the sharding that `user`, if its own were `s`, asks of its operand `x`; null: nothing.
using BackwardRule = const Sharding* (*)(const PropagationContext& c, const Instruction& user,
                                         const Sharding* s, const Instruction& x);

// Whether an instruction can receive a derived sharding at all. The others only take replication
// from a replicated operand, manual regions, and what the user wrote.
using SupportRule = bool (*)(const PropagationContext& c, const Instruction& x);

struct Rule {
  ForwardRule forward = nullptr;
  BackwardRule backward = nullptr;
  SupportRule supported = nullptr;
  // GSPMD has none, but the dims relate: PropagationOptions::by_relations.
  bool has_relation = false;
};

// Every opcode has a row (checked at compile time in rule_table.cc).
extern const std::array<Rule, kOpcodeCount> kRuleTable;
inline const Rule& RuleOf(Opcode opcode) { return kRuleTable[static_cast<size_t>(opcode)]; }

bool Always(const PropagationContext& c, const Instruction& x);
bool Never(const PropagationContext& c, const Instruction& x);

// Rules shared by many opcodes.
void NothingForward(const PropagationContext& c, const Instruction& x, Offers& offers);
const Sharding* NothingBackward(const PropagationContext& c, const Instruction& user,
                                const Sharding* s, const Instruction& x);
// The user's sharding if the operand has the same dims.
const Sharding* SameDimsBackward(const PropagationContext& c, const Instruction& user,
                                 const Sharding* s, const Instruction& x);
// The most specific sharding among the operands, first wins.
void MostSpecificForward(const PropagationContext& c, const Instruction& x, Offers& offers);
const Instruction* MostSpecificOperand(const PropagationContext& c, const Instruction& x);
// Operand 0's sharding, aggressively.
void FirstOperandForward(const PropagationContext& c, const Instruction& x, Offers& offers);

// By the relation of dims: axes go along factors that make up a dim each.
void RelationForward(const PropagationContext& c, const Instruction& x, Offers& offers);
const Sharding* RelationBackward(const PropagationContext& c, const Instruction& user,
                                 const Sharding* s, const Instruction& x);
inline constexpr Rule kRelationRule = {RelationForward, RelationBackward, Always};
// As what XLA's compiler for TPUs writes batch norms out as: elementwise operations, sums and
// broadcasts.
void BatchNormForward(const PropagationContext& c, const Instruction& x, Offers& offers);
const Sharding* BatchNormBackward(const PropagationContext& c, const Instruction& user,
                                  const Sharding* s, const Instruction& x);

// Returns the first position of `x` among the operands of `user`, of which it must be one. A rule
// that asks for it sees `x` in dot(x, x) as operand 0 only.
int64_t OperandIndex(const Instruction& user, const Instruction& x);
// The element of a tuple-shaped user's sharding (or the sharding itself for an array result).
const Sharding* ResultElement(const Instruction& user, const Sharding* s, int64_t index);

// True for elementwise operations, and constants, random numbers and others that count as such. One
// reason to take part in propagation from level 0 on; SetLevels (engine.cc) has the others.
bool CountsAsElementwise(const Instruction& x);

// --- one block per file of core/propagation/ops
void ElementwiseForward(const PropagationContext& c, const Instruction& x, Offers& offers);
bool ElementwiseSupported(const PropagationContext& c, const Instruction& x);

void BroadcastForward(const PropagationContext& c, const Instruction& x, Offers& offers);
const Sharding* BroadcastBackward(const PropagationContext& c, const Instruction& user,
                                  const Sharding* s, const Instruction& x);

void ReshapeForward(const PropagationContext& c, const Instruction& x, Offers& offers);
const Sharding* ReshapeBackward(const PropagationContext& c, const Instruction& user,
                                const Sharding* s, const Instruction& x);

void TransposeForward(const PropagationContext& c, const Instruction& x, Offers& offers);
const Sharding* TransposeBackward(const PropagationContext& c, const Instruction& user,
                                  const Sharding* s, const Instruction& x);

void ConcatenateForward(const PropagationContext& c, const Instruction& x, Offers& offers);
const Sharding* ConcatenateBackward(const PropagationContext& c, const Instruction& user,
                                    const Sharding* s, const Instruction& x);
const Sharding* SliceBackward(const PropagationContext& c, const Instruction& user,
                              const Sharding* s, const Instruction& x);
const Sharding* PadBackward(const PropagationContext& c, const Instruction& user, const Sharding* s,
                            const Instruction& x);
void ReverseForward(const PropagationContext& c, const Instruction& x, Offers& offers);
const Sharding* ReverseBackward(const PropagationContext& c, const Instruction& user,
                                const Sharding* s, const Instruction& x);
void DynamicSliceForward(const PropagationContext& c, const Instruction& x, Offers& offers);
const Sharding* DynamicSliceBackward(const PropagationContext& c, const Instruction& user,
                                     const Sharding* s, const Instruction& x);
void DynamicUpdateSliceForward(const PropagationContext& c, const Instruction& x, Offers& offers);
const Sharding* DynamicUpdateSliceBackward(const PropagationContext& c, const Instruction& user,
                                           const Sharding* s, const Instruction& x);

// Offers the sharding that each operand induces on the result, if the result would take it. If both
// would be taken, look-ahead decides which comes first: what the nearest sharded instruction down a
// chain of single users would ask of the result. The offer that this one refines comes first if it
// refines only one of the two; otherwise the offer of the operand with more bytes.
void DotLikeForward(const PropagationContext& c, const Instruction& x, Offers& offers);
// Maps the user's sharding to the operand, whose contracting dims are whole; if the other operand
// is sharded, merges in what its batch and contracting dims induce.
const Sharding* DotLikeBackward(const PropagationContext& c, const Instruction& user,
                                const Sharding* s, const Instruction& x);
void ConvolutionForward(const PropagationContext& c, const Instruction& x, Offers& offers);
const Sharding* ConvolutionBackward(const PropagationContext& c, const Instruction& user,
                                    const Sharding* s, const Instruction& x);

void ReduceForward(const PropagationContext& c, const Instruction& x, Offers& offers);
const Sharding* ReduceBackward(const PropagationContext& c, const Instruction& user,
                               const Sharding* s, const Instruction& x);
void ScanForward(const PropagationContext& c, const Instruction& x, Offers& offers);
const Sharding* ScanBackward(const PropagationContext& c, const Instruction& user,
                             const Sharding* s, const Instruction& x);

void ReduceWindowForward(const PropagationContext& c, const Instruction& x, Offers& offers);
const Sharding* ReduceWindowBackward(const PropagationContext& c, const Instruction& user,
                                     const Sharding* s, const Instruction& x);
void SelectAndScatterForward(const PropagationContext& c, const Instruction& x, Offers& offers);

void GatherForward(const PropagationContext& c, const Instruction& x, Offers& offers);
const Sharding* GatherBackward(const PropagationContext& c, const Instruction& user,
                               const Sharding* s, const Instruction& x);
void ScatterForward(const PropagationContext& c, const Instruction& x, Offers& offers);
const Sharding* ScatterBackward(const PropagationContext& c, const Instruction& user,
                                const Sharding* s, const Instruction& x);

void SortForward(const PropagationContext& c, const Instruction& x, Offers& offers);
const Sharding* SortBackward(const PropagationContext& c, const Instruction& user,
                             const Sharding* s, const Instruction& x);

void ParameterForward(const PropagationContext& c, const Instruction& x, Offers& offers);
bool ParameterSupported(const PropagationContext& c, const Instruction& x);

void RngForward(const PropagationContext& c, const Instruction& x, Offers& offers);

void WhileForward(const PropagationContext& c, const Instruction& x, Offers& offers);
const Sharding* WhileBackward(const PropagationContext& c, const Instruction& user,
                              const Sharding* s, const Instruction& x);
bool FusionSupported(const PropagationContext& c, const Instruction& x);

void TupleForward(const PropagationContext& c, const Instruction& x, Offers& offers);
const Sharding* TupleBackward(const PropagationContext& c, const Instruction& user,
                              const Sharding* s, const Instruction& x);
void GetTupleElementForward(const PropagationContext& c, const Instruction& x, Offers& offers);
const Sharding* GetTupleElementBackward(const PropagationContext& c, const Instruction& user,
                                        const Sharding* s, const Instruction& x);
// The leaves of a tuple that its element `index` covers.
LeafRange LeavesOfElement(const Shape* tuple_shape, int64_t index);

void CollectiveForward(const PropagationContext& c, const Instruction& x, Offers& offers);
const Sharding* OutfeedBackward(const PropagationContext& c, const Instruction& user,
                                const Sharding* s, const Instruction& x);

void CustomCallForward(const PropagationContext& c, const Instruction& x, Offers& offers);
bool CustomCallSupported(const PropagationContext& c, const Instruction& x);

}  // namespace gshard

#endif  // GSHARD_CORE_PROPAGATION_RULES_H_
