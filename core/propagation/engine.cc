#include "core/propagation/engine.h"

#include <algorithm>
#include <array>

#include "core/propagation/improvement.h"
#include "core/propagation/open_dims.h"
#include "core/propagation/shard_groups.h"
#include "ir/custom_call.h"
#include "ir/op_traits.h"
#include "ir/sharding_algebra.h"

namespace gshard {
namespace {

constexpr uint32_t kNone = Worklist::kNone;

bool IsManual(const Sharding* s) { return s != nullptr && IsAll(s, ShardingKind::kManual); }

// Manual regions take over values that nobody has placed yet.
bool YieldsToManual(const Sharding* s) {
  return s == nullptr || IsAll(s, ShardingKind::kReplicated) || IsAll(s, ShardingKind::kMaximal);
}

bool TakesManualFromOperands(const Instruction* x) {
  if (x->shape()->IsArray()) return true;
  switch (x->opcode()) {
    case Opcode::kCustomCall:
    case Opcode::kReduce:
    case Opcode::kScan:
    case Opcode::kSort:
    case Opcode::kReduceWindow:
      return true;
    default:  // as GSPMD: tuples of these only
      return false;
  }
}

// The first level at which an instruction takes from its operands, and at which its operands take
// from it (docs/propagation.md, "Driver").
void SetLevels(Opcode opcode, bool elementwise, uint8_t& forward, uint8_t& user) {
  switch (opcode) {
    case Opcode::kBroadcast:
      forward = 3;
      user = 2;
      return;
    case Opcode::kCall:
    case Opcode::kConcatenate:
    case Opcode::kDynamicSlice:
    case Opcode::kDynamicUpdateSlice:
    case Opcode::kGetTupleElement:
    case Opcode::kOptBarrier:
    case Opcode::kReshape:
    case Opcode::kTuple:
    case Opcode::kTranspose:
    case Opcode::kWhile:
      forward = user = 0;
      return;
    default:  // as GSPMD
      forward = user = elementwise ? 0 : 1;
  }
}

// Rules that offer operands' shardings and nothing derived from them.
bool OffersOperandsAsTheyAre(ForwardRule rule) {
  return rule == ElementwiseForward || rule == FirstOperandForward || rule == MostSpecificForward ||
         rule == CollectiveForward || rule == NothingForward;
}

// Rules by which what one operand is asked for depends on another operand.
bool ComparesOperands(Opcode opcode) {
  return opcode == Opcode::kDot || opcode == Opcode::kConvolution || opcode == Opcode::kReduce ||
         opcode == Opcode::kScatter;
}

const Sharding* ManualFor(Context& ctx, const Instruction* x) {
  if (!x->shape()->IsTuple()) return ctx.Manual();
  return ctx.TupleOf(
      std::vector<const Sharding*>(static_cast<size_t>(x->shape()->leaf_count()), ctx.Manual()));
}

}  // namespace

Engine::Engine(Module& module, const Annotations& annotations, const Options& options,
               ExplainRecorder* recorder)
    : module_(module),
      annotations_(annotations),
      options_(options),
      recorder_(recorder),
      shardings_(module.instruction_limit(), nullptr),
      traits_(module.instruction_limit()),
      users_(module, &annotations.use_order),
      computations_(module),
      derive_(options.derived != nullptr ? *options.derived
                                         : own_derive_.emplace(module.context())),
      rules_(derive_, shardings_, users_, computations_) {
  rules_.set_parameters_allowed(options.parameters_allowed);
  ComputeOrder();
  ComputeTraits();
  ComputeRevisits();
}

void Engine::ComputeOrder() {
  order_.reserve(module_.instruction_limit());
  for (size_t i = 0; i < module_.computations().size(); ++i) {
    const std::vector<Instruction*>& order = annotations_.orders[i];
    Range range;
    range.begin = static_cast<uint32_t>(order_.size());
    order_.insert(order_.end(), order.begin(), order.end());
    range.end = static_cast<uint32_t>(order_.size());
    ranges_.push_back(range);
  }
  forward_.Resize(static_cast<uint32_t>(order_.size()));
  backward_.Resize(static_cast<uint32_t>(order_.size()));
}

Engine::Traits Engine::TraitsOf(Opcode opcode) const {
  Traits traits;
  SetLevels(opcode, IsElementwise(opcode), traits.forward_level, traits.user_level);
  const Rule& rule = RuleFor(opcode);
  if (rule.supported == Always) traits.Add(kSupportedForward | kSupportedBackward);
  if (OffersOperandsAsTheyAre(rule.forward)) traits.Add(kAlikeForward);
  if (rule.backward == SameDimsBackward) traits.Add(kAlikeBackward);
  if (ComparesOperands(opcode)) traits.Add(kComparesOperands);
  return traits;
}

void Engine::ComputeTraits() {
  std::array<Traits, kOpcodeCount> by_opcode;
  for (size_t i = 0; i < kOpcodeCount; ++i) by_opcode[i] = TraitsOf(static_cast<Opcode>(i));
  for (uint32_t p = 0; p < order_.size(); ++p) {
    const Instruction* x = order_[p];
    Traits& traits = traits_[x->id()];
    uint16_t noted = traits.flags;  // by a user, see below
    traits = by_opcode[static_cast<size_t>(x->opcode())];
    traits.position = p;
    traits.Add(noted);
    if (annotations_.provided[x->id()] != 0) traits.Add(kProvided);
    if (RuleFor(x->opcode()).supported != Always || x == x->parent()->root()) {
      bool elementwise = CountsAsElementwise(*x) || IsCustomCallTo(*x, kShardingTarget);
      SetLevels(x->opcode(), elementwise, traits.forward_level, traits.user_level);
      traits.Remove(kSupportedForward | kSupportedBackward);
      if (SupportedForward(x)) traits.Add(kSupportedForward);
      if (SupportedBackward(x)) traits.Add(kSupportedBackward);
    }
    if (x->opcode() == Opcode::kRngBitGenerator) {
      traits_[x->operand(0)->id()].Add(kReplicated);
      generator_states_.push_back(x->operand(0));
    }
    if (x->sharding() != nullptr) {
      shardings_[x->id()] = x->sharding()->canonical;
      NoteManual(shardings_[x->id()]);
    }
  }
  for (const auto& [copy, dims] : annotations_.open_dims) traits_[copy->id()].Add(kOpenDims);
  for (const Instruction* x : order_) NoteSettled(x);
}

void Engine::ComputeRevisits() {
  for (const Instruction* x : order_) {
    // Batch norms spread vectors as broadcasts do.
    const bool spreads = x->opcode() == Opcode::kBroadcast ||
                         AttributeTagOf(x->opcode()) == &AttributeType<BatchNormAttributes>::kTag;
    if (spreads) {
      revisit_forward_.push_back(x);
      revisit_backward_.push_back(x);
    }
    if (spreads || Has(x, kComparesOperands)) {
      for (const Instruction* operand : x->operands()) revisit_backward_.push_back(operand);
    }
  }
}

bool Engine::Run(ShardGroups& groups) {
  bool changed = false;
  for (int level = 0; level <= 3; ++level) changed = RunLevel(level, groups) || changed;
  return changed;
}

bool Engine::RunLevel(int level, ShardGroups& groups) {
  rules_.set_level(level);
  QueueForLevel(level);
  bool any = false;
  do {
    changed_ = false;
    for (const Range& range : ranges_) {
      groups.Step(*this, range.begin, range.end);
      for (uint32_t p = forward_.Next(range.begin); p < range.end; p = forward_.Next(p + 1)) {
        forward_.Remove(p);
        VisitForward(order_[p]);
      }
      if (range.begin == range.end) continue;
      for (uint32_t p = backward_.Previous(range.end - 1); p != kNone && p >= range.begin;
           p = p == 0 ? kNone : backward_.Previous(p - 1)) {
        backward_.Remove(p);
        VisitBackward(order_[p]);
      }
    }
    any = any || changed_;
  } while (changed_);
  return any;
}

// A new level re-examines everything that could come out differently. At levels 0 and 1 that is
// wherever an operand or user says something else than the instruction has (combining begins at 1);
// later only broadcasts, what compares its operands, and what changed after it was last examined. A
// dot, though it looks ahead, took all that it could take when it was: of two offers, not of none.
void Engine::QueueForLevel(int level) {
  if (level >= 2) {
    for (const Instruction* x : revisit_forward_) QueueForward(x);
    for (const Instruction* x : revisit_backward_) QueueBackward(x);
    QueueStale();
    return;
  }
  if (level == 0) {
    QueueAroundShardings();
  } else {
    QueueWhereShardingsDiffer();
  }
  for (const Instruction* state : generator_states_) QueueBackward(state);
  for (const auto& [copy, dims] : annotations_.open_dims) {
    QueueForward(copy);
    QueueBackward(copy);
  }
}

// To begin with, what the user annotated has just changed.
void Engine::QueueAroundShardings() {
  for (const Instruction* x : order_) {
    if (of(x) != nullptr) QueueNeighbours(x);
  }
}

void Engine::QueueWhereShardingsDiffer() {
  for (const Instruction* x : order_) {
    Traits& traits = traits_[x->id()];
    traits.Remove(kStaleForward | kStaleBackward);
    const Sharding* mine = of(x);
    bool always_backward = (traits.flags & kAlikeBackward) == 0;
    bool offered = false;
    for (const Instruction* operand : x->operands()) {
      const Sharding* theirs = of(operand);
      bool differ = theirs != mine;
      if (theirs != nullptr && differ) offered = true;
      if (mine != nullptr && (differ || always_backward)) QueueBackward(operand);
    }
    if (offered) QueueForward(x);
    if (x->opcode() == Opcode::kConditional || x->opcode() == Opcode::kCall) {
      for (const Computation* called : x->called()) {
        for (const Instruction* parameter : called->parameters()) QueueForward(parameter);
      }
    }
  }
}

void Engine::QueueStale() {
  for (Traits& traits : traits_) {
    if ((traits.flags & (kStaleForward | kStaleBackward)) == 0) continue;
    if ((traits.flags & kFinal) == 0) {
      if ((traits.flags & kStaleForward) != 0) forward_.Add(traits.position);
      if ((traits.flags & kStaleBackward) != 0) backward_.Add(traits.position);
    }
    traits.Remove(kStaleForward | kStaleBackward);
  }
}

void Engine::NoteManual(const Sharding* s) {
  if (s->IsManual() ||
      (s->IsTuple() && std::any_of(s->elements.begin(), s->elements.end(),
                                   [](const Sharding* e) { return e->IsManual(); }))) {
    any_manual_ = true;
  }
}

// Nothing has more tiles than one a device, and manual values stay so.
void Engine::NoteSettled(const Instruction* x) {
  const Sharding* s = of(x);
  Traits& traits = traits_[x->id()];
  bool settled = (traits.flags & kProvided) != 0;
  if (s != nullptr) {
    bool full = s->IsTiled() && s->subgroups.empty() && (traits.flags & kReplicated) == 0;
    settled = settled || full || IsManual(s);
  }
  if (settled && (traits.flags & kOpenDims) == 0) {
    traits.Add(kFinal);
  } else {
    traits.Remove(kFinal);
  }
}

void Engine::QueueNeighbours(const Instruction* x) {
  for (const Instruction* operand : x->operands()) {
    QueueBackward(operand);
    // The copy before a manual region's boundary is refined by the boundary's users.
    if (!annotations_.open_dims.empty() && operand->opcode() == Opcode::kCustomCall &&
        operand->operand_count() == 1) {
      QueueBackward(operand->operand(0));
    }
  }
  for (const Instruction* user : users_.of(x)) {
    QueueForward(user);
    if (Has(user, kComparesOperands)) {
      for (const Instruction* sibling : user->operands()) {
        if (sibling != x) QueueBackward(sibling);
      }
    }
    if (user->opcode() == Opcode::kConditional || user->opcode() == Opcode::kCall) {
      std::vector<Instruction*> parameters;
      computations_.AppendParametersOf(user, x, parameters);
      for (const Instruction* parameter : parameters) QueueForward(parameter);
    }
  }
}

void Engine::Set(Instruction* x, const Sharding* s, const Cause& cause) {
  s = s->canonical;
  const Sharding*& mine = shardings_[x->id()];
  if (mine == s) return;
  if (recorder_ != nullptr) {
    recorder_->Record(
        {x, cause.from, cause.edge, static_cast<int8_t>(rules_.level()), cause.offered, mine, s});
  }
  mine = s;
  changed_ = true;
  traits_[x->id()].Add(kStaleForward | kStaleBackward);
  NoteSettled(x);
  QueueNeighbours(x);
  if (computations_.MayHaveRelated(x)) {
    for (Instruction* other : computations_.RelatedTo(x)) {
      if (IsProvided(other) || IsClosedParameter(other)) continue;
      Set(other, s, {x, ShardingEdge::kControlFlow, s});
    }
  }
}

bool Engine::IsClosedParameter(const Instruction* x) const {
  return x->opcode() == Opcode::kParameter && !options_.parameters_allowed &&
         x->parent() == module_.entry();
}

void Engine::OfferTo(Instruction* x, const Sharding* s, bool aggressive, const Cause& cause) {
  if (s == nullptr) return;
  s = s->canonical;
  const Sharding* better = Improve(derive_, x->shape(), of(x), s, rules_.may_combine(), aggressive);
  if (better != nullptr) Set(x, better, {cause.from, cause.edge, s});
}

void Engine::OfferLeaf(Instruction* x, const Offer& offer, bool aggressive) {
  const Sharding* current = of(x);
  size_t leaf = static_cast<size_t>(offer.leaf);
  std::vector<const Sharding*> leaves;
  if (current != nullptr) {
    const Sharding* better =
        Improve(derive_, x->shape()->element(offer.leaf), current->elements[leaf], offer.sharding,
                rules_.may_combine(), aggressive);
    if (better == nullptr) return;
    leaves = current->elements;
    leaves[leaf] = better;
  } else {
    leaves.assign(static_cast<size_t>(x->shape()->leaf_count()), context().Replicated());
    leaves[leaf] = offer.sharding;
  }
  Set(x, context().TupleOf(std::move(leaves)),
      {offer.from, ShardingEdge::kOperand, offer.sharding});
}

bool Engine::IsSingleUse(const Instruction* x) const {
  int64_t count = 0;
  for (const Instruction* user : users_.of(x)) {
    if (user != x->parent()->root()) ++count;
  }
  return count == 1;
}

bool Engine::SupportedForward(const Instruction* x) const {
  if (x == x->parent()->root() && computations_.CallerOf(x->parent()) == nullptr &&
      !(options_.output_allowed && x->parent() == module_.entry())) {
    return false;
  }
  if (x->opcode() == Opcode::kParameter && x->parent() == module_.entry()) return false;
  return RuleFor(x->opcode()).supported(rules_, *x);
}

bool Engine::SupportedBackward(const Instruction* x) const {
  if (x == x->parent()->root() && computations_.CallerOf(x->parent()) == nullptr) return false;
  return RuleFor(x->opcode()).supported(rules_, *x);
}

bool Engine::TakeManualForward(Instruction* x, bool& ends) {
  if (!YieldsToManual(of(x)) || !TakesManualFromOperands(x)) return false;
  if (IsCustomCallTo(*x, kLeaveManualTarget)) return false;
  for (const Instruction* operand : x->operands()) {
    if (!IsManual(of(operand))) continue;
    if (rules_.level() == 0 &&
        (x->opcode() == Opcode::kConcatenate || x->opcode() == Opcode::kDynamicSlice)) {
      ends = true;
      return false;
    }
    const Sharding* manual = ManualFor(context(), x);
    Set(x, manual, {operand, ShardingEdge::kOperand, manual});
    return true;
  }
  return false;
}

void Engine::TakeReplicationForward(Instruction* x) {
  if (x->shape()->IsTuple() || x->operand_count() == 0 || x == x->parent()->root() ||
      HasSideEffect(*x)) {
    return;
  }
  for (const Instruction* operand : x->operands()) {
    const Sharding* s = of(operand);
    if (s == nullptr || !s->IsReplicated()) continue;
    OfferTo(x, s, false, {operand, ShardingEdge::kOperand, s});
    return;
  }
}

bool Engine::OperandsAgree(const Instruction* x) const {
  const Sharding* mine = of(x);
  for (const Instruction* operand : x->operands()) {
    const Sharding* theirs = of(operand);
    if (theirs != mine && theirs != nullptr) return false;
  }
  return true;
}

void Engine::VisitForward(Instruction* x) {
  Traits& traits = traits_[x->id()];
  traits.Remove(kStaleForward);
  if ((traits.flags & kFinal) != 0) return;
  if ((traits.flags & kOpenDims) != 0) {
    if (rules_.level() >= 1) RefineOpenDimsForward(*this, x, annotations_.open_dims.at(x));
    return;
  }
  if (traits.forward_level > rules_.level()) return;
  if ((traits.flags & kAlikeForward) != 0 && OperandsAgree(x)) return;
  bool ends = false;
  if (any_manual_ && (TakeManualForward(x, ends) || ends)) return;
  if ((traits.flags & kSupportedForward) == 0) {
    TakeReplicationForward(x);
    return;
  }
  offers_.Clear();
  RuleFor(x->opcode()).forward(rules_, *x, offers_);
  for (const Offer& offer : offers_.list()) {
    if (offer.leaf < 0 && offer.sharding == of(x)) continue;
    const Cause cause{offer.from, ShardingEdge::kOperand, offer.sharding};
    if (offer.skip_merge) {
      Set(x, offer.sharding, cause);
      continue;
    }
    bool aggressive = offer.aggressive && IsSingleUse(x);
    if (offer.leaf >= 0) {
      OfferLeaf(x, offer, aggressive);
    } else {
      OfferTo(x, offer.sharding, aggressive, cause);
    }
  }
}

bool Engine::TakeManualBackward(Instruction* x) {
  if (!YieldsToManual(of(x))) return false;
  for (Instruction* user : users_.of(x)) {
    const Sharding* s = of(user);
    if (s == nullptr || IsCustomCallTo(*user, kEnterManualTarget)) continue;
    const Sharding* asked = nullptr;
    if (x->shape()->IsArray() && IsManual(s)) {
      asked = context().Manual();
    } else if (IsManual(s) || (s->IsTuple() && user->shape()->IsTuple())) {  // has a manual leaf
      asked = RuleFor(user->opcode()).backward(rules_, *user, s, *x);
    }
    if (!IsManual(asked)) continue;
    Set(x, asked, {user, ShardingEdge::kUser, asked});
    return true;
  }
  return false;
}

void Engine::OfferFromUsers(Instruction* x) {
  // Get-tuple-elements each speak for one element: gather them, or a tuple of n leaves with n users
  // would cost n * n.
  std::vector<const Sharding*> leaves;
  const Instruction* last = nullptr;
  auto flush = [&] {
    if (last == nullptr) return;
    const Sharding* s = context().TupleOf(std::move(leaves));
    leaves.clear();
    Set(x, s, {last, ShardingEdge::kUser, s});
    last = nullptr;
  };
  for (Instruction* user : users_.of(x)) {
    const Sharding* s = of(user);
    if (s == nullptr || !LevelAllowsBackward(user)) continue;
    if (s == of(x) && Has(user, kAlikeBackward)) continue;
    if (rules_.NotMaximal(user) == nullptr) continue;
    if (user->opcode() == Opcode::kGetTupleElement && of(x) != nullptr) {
      LeafRange range =
          LeavesOfElement(x->shape(), user->attributes<GetTupleElementAttributes>().index);
      for (int64_t i = 0; i < range.count; ++i) {
        size_t leaf = static_cast<size_t>(range.first + i);
        const Sharding* offered = s->IsTuple() ? s->elements[static_cast<size_t>(i)] : s;
        const Sharding* current = last != nullptr ? leaves[leaf] : of(x)->elements[leaf];
        const Sharding* better = ImproveLeaf(derive_, current, offered, rules_.may_combine());
        if (better == nullptr) continue;
        if (last == nullptr) leaves = of(x)->elements;
        leaves[leaf] = better;
        last = user;
      }
      if (recorder_ != nullptr) flush();  // each leaf with its own cause
      continue;
    }
    flush();
    const Sharding* asked = RuleFor(user->opcode()).backward(rules_, *user, s, *x);
    if (asked == nullptr) continue;
    if (IsCustomCallTo(*x, kShardBarrierTo)) asked = context().Replicated();
    OfferTo(x, asked, false, {user, ShardingEdge::kUser, asked});
  }
  flush();
}

void Engine::VisitBackward(Instruction* x) {
  Traits& traits = traits_[x->id()];
  traits.Remove(kStaleBackward);
  if ((traits.flags & kFinal) != 0) return;
  if ((traits.flags & kOpenDims) != 0) {
    if (rules_.level() >= 1) RefineOpenDimsBackward(*this, x, annotations_.open_dims.at(x));
    return;
  }
  if (x->opcode() == Opcode::kBroadcast && rules_.level() < 2) return;
  if (any_manual_ && TakeManualBackward(x)) return;
  if ((traits.flags & kSupportedBackward) == 0) return;
  if ((traits.flags & kReplicated) != 0) {
    const Instruction* generator = nullptr;
    for (const Instruction* user : users_.of(x)) {
      if (generator == nullptr && user->opcode() == Opcode::kRngBitGenerator) generator = user;
    }
    const Sharding* replicated = context().Replicated();
    Set(x, replicated, {generator, ShardingEdge::kUser, replicated});
    return;
  }
  OfferFromUsers(x);
}

void Engine::FindConflicts(PropagationFindings& findings) {
  rules_.set_level(3);
  for (Instruction* x : order_) {
    const Sharding* mine = of(x);
    if (!IsProvided(x) || mine == nullptr || !mine->IsTiled() || !x->shape()->IsArray()) {
      continue;
    }
    auto check = [&](const Sharding* wanted, const Instruction* neighbour, bool is_user) {
      if (wanted == nullptr || !wanted->canonical->IsTiled()) return;
      wanted = wanted->canonical;
      if (wanted == mine || wanted->data_rank() != mine->data_rank()) return;
      if (derive_.IsSubTiling(mine, wanted, x->shape()) ||
          derive_.IsSubTiling(wanted, mine, x->shape())) {
        return;
      }
      findings.conflicts.push_back({x, neighbour, is_user, wanted});
    };
    offers_.Clear();
    if (RuleFor(x->opcode()).supported(rules_, *x)) {
      RuleFor(x->opcode()).forward(rules_, *x, offers_);
      for (const Offer& offer : offers_.list()) {
        if (offer.leaf < 0) check(offer.sharding, offer.from, false);
      }
    }
    for (const Instruction* user : users_.of(x)) {
      const Sharding* s = rules_.NotMaximal(user);
      if (s != nullptr) check(RuleFor(user->opcode()).backward(rules_, *user, s, *x), user, true);
    }
  }
}

}  // namespace gshard
