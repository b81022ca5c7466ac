#include "core/propagation/engine.h"

#include <algorithm>

#include "core/propagation/improvement.h"
#include "core/propagation/open_dims.h"
#include "core/propagation/shard_groups.h"
#include "ir/sharding_algebra.h"

namespace gshard {
namespace {

constexpr uint32_t kNone = Worklist::kNone;

bool IsManual(const Sharding* s) { return s != nullptr && IsAll(s, ShardingKind::kManual); }

// Manual regions take over values that nobody has placed yet.
bool YieldsToManual(const Sharding* s) {
  return s == nullptr || IsAll(s, ShardingKind::kReplicated) || IsAll(s, ShardingKind::kMaximal);
}

bool HasSideEffect(const Instruction* x) {
  if (HasFlag(x->opcode(), kSideEffect)) return true;
  return x->opcode() == Opcode::kCustomCall &&
         x->attributes<CustomCallAttributes>().has_side_effect;
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
    default:
      return false;
  }
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
      provided_(annotations.provided),
      users_(module, &annotations.use_order),
      computations_(module),
      derive_(module.context()),
      rules_(derive_, shardings_, users_, computations_) {
  rules_.set_parameters_allowed(options.parameters_allowed);
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (x->sharding() == nullptr) continue;
      shardings_[x->id()] = x->sharding()->canonical;
      NoteManual(shardings_[x->id()]);
    }
  }
  ComputeOrder();
  ComputeLevels();
}

void Engine::ComputeOrder() {
  position_.assign(module_.instruction_limit(), 0);
  for (const Computation* computation : module_.computations()) {
    Range range;
    range.begin = static_cast<uint32_t>(order_.size());
    for (Instruction* x : PostOrder(*computation)) {
      position_[x->id()] = static_cast<uint32_t>(order_.size());
      order_.push_back(x);
    }
    range.end = static_cast<uint32_t>(order_.size());
    ranges_.push_back(range);
  }
  forward_.Resize(static_cast<uint32_t>(order_.size()));
  backward_.Resize(static_cast<uint32_t>(order_.size()));
  stale_forward_.Resize(static_cast<uint32_t>(order_.size()));
  stale_backward_.Resize(static_cast<uint32_t>(order_.size()));
}

void Engine::ComputeLevels() {
  forward_level_.assign(module_.instruction_limit(), 1);
  user_level_.assign(module_.instruction_limit(), 1);
  for (const Instruction* x : order_) {
    bool first = CountsAsElementwise(*x) || IsCustomCallTo(*x, "Sharding");
    switch (x->opcode()) {
      case Opcode::kBroadcast:
        forward_level_[x->id()] = 3;
        user_level_[x->id()] = 2;
        continue;
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
        first = true;
        break;
      default:
        break;
    }
    if (first) forward_level_[x->id()] = user_level_[x->id()] = 0;
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
        stale_forward_.Remove(p);
        VisitForward(order_[p]);
      }
      if (range.begin == range.end) continue;
      for (uint32_t p = backward_.Previous(range.end - 1); p != kNone && p >= range.begin;
           p = p == 0 ? kNone : backward_.Previous(p - 1)) {
        backward_.Remove(p);
        stale_backward_.Remove(p);
        VisitBackward(order_[p]);
      }
    }
    any = any || changed_;
  } while (changed_);
  return any;
}

// A new level re-examines everything that could come out differently. At levels 0 and 1 that is all
// (combining begins at 1); later only broadcasts, rules that look beyond their neighbours, and what
// changed after it was last examined.
void Engine::QueueForLevel(int level) {
  auto receives = [&](const Instruction* x) {
    return provided_[x->id()] == 0 || annotations_.open_dims.count(x) != 0;
  };
  if (level <= 1) {
    for (uint32_t p = 0; p < order_.size(); ++p) {
      if (!receives(order_[p])) continue;
      forward_.Add(p);
      backward_.Add(p);
    }
    return;
  }
  for (uint32_t p = 0; p < order_.size(); ++p) {
    const Instruction* x = order_[p];
    switch (x->opcode()) {
      case Opcode::kBroadcast:
        if (receives(x)) {
          forward_.Add(p);
          backward_.Add(p);
        }
        if (receives(x->operand(0))) backward_.Add(position_[x->operand(0)->id()]);
        break;
      case Opcode::kDot:
      case Opcode::kConvolution:
        if (receives(x)) forward_.Add(p);
        [[fallthrough]];
      case Opcode::kReduce:
      case Opcode::kScatter:
        for (const Instruction* operand : x->operands()) {
          if (receives(operand)) backward_.Add(position_[operand->id()]);
        }
        break;
      default:
        break;
    }
  }
  for (uint32_t p = stale_forward_.Next(0); p != kNone; p = stale_forward_.Next(p + 1)) {
    forward_.Add(p);
  }
  for (uint32_t p = stale_backward_.Next(0); p != kNone; p = stale_backward_.Next(p + 1)) {
    backward_.Add(p);
  }
}

void Engine::NoteManual(const Sharding* s) {
  if (s->IsManual() || (s->IsTuple() && std::any_of(s->elements.begin(), s->elements.end(),
                                                    [](const Sharding* e) {
                                                      return e->IsManual();
                                                    }))) {
    any_manual_ = true;
  }
}

void Engine::QueueNeighbours(const Instruction* x) {
  for (const Instruction* operand : x->operands()) {
    backward_.Add(position_[operand->id()]);
    // The copy before a manual region's boundary is refined by the boundary's users.
    if (!annotations_.open_dims.empty() && operand->opcode() == Opcode::kCustomCall &&
        operand->operand_count() == 1) {
      backward_.Add(position_[operand->operand(0)->id()]);
    }
  }
  for (const Instruction* user : users_.of(x)) {
    forward_.Add(position_[user->id()]);
    if (user->opcode() == Opcode::kConditional || user->opcode() == Opcode::kCall) {
      std::vector<Instruction*> parameters;
      computations_.AppendParametersOf(user, x, parameters);
      for (const Instruction* parameter : parameters) forward_.Add(position_[parameter->id()]);
    }
  }
}

void Engine::Set(Instruction* x, const Sharding* s, const Cause& cause) {
  s = s->canonical;
  const Sharding*& mine = shardings_[x->id()];
  if (mine == s) return;
  if (recorder_ != nullptr) {
    recorder_->Record({x, cause.from, cause.edge, static_cast<int8_t>(rules_.level()),
                       cause.offered, mine, s});
  }
  mine = s;
  changed_ = true;
  stale_forward_.Add(position_[x->id()]);
  stale_backward_.Add(position_[x->id()]);
  QueueNeighbours(x);
  if (computations_.MayHaveRelated(x)) {
    for (Instruction* other : computations_.RelatedTo(x)) {
      if (provided_[other->id()] != 0) continue;
      Set(other, s, {x, ShardingEdge::kControlFlow, s});
    }
  }
}

bool Engine::OfferTo(Instruction* x, const Sharding* s, bool aggressive, const Cause& cause) {
  if (s == nullptr) return false;
  s = s->canonical;
  const Sharding* better = Improve(derive_, x->shape(), of(x), s, rules_.may_combine(), aggressive);
  if (better == nullptr) return false;
  Set(x, better, {cause.from, cause.edge, s});
  return true;
}

bool Engine::OfferLeaf(Instruction* x, const Offer& offer, bool aggressive) {
  const Sharding* current = of(x);
  size_t leaf = static_cast<size_t>(offer.leaf);
  std::vector<const Sharding*> leaves;
  if (current != nullptr) {
    const Sharding* better =
        Improve(derive_, x->shape()->element(offer.leaf), current->elements[leaf], offer.sharding,
                rules_.may_combine(), aggressive);
    if (better == nullptr) return false;
    leaves = current->elements;
    leaves[leaf] = better;
  } else {
    leaves.assign(static_cast<size_t>(x->shape()->leaf_count()), context().Replicated());
    leaves[leaf] = offer.sharding;
  }
  Set(x, context().TupleOf(std::move(leaves)),
      {offer.from, ShardingEdge::kOperand, offer.sharding});
  return true;
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
  return RuleOf(x->opcode()).supported(rules_, *x);
}

bool Engine::SupportedBackward(const Instruction* x) const {
  if (x == x->parent()->root() && computations_.CallerOf(x->parent()) == nullptr) return false;
  return RuleOf(x->opcode()).supported(rules_, *x);
}

bool Engine::TakeManualForward(Instruction* x, bool& ends) {
  if (!YieldsToManual(of(x)) || !TakesManualFromOperands(x)) return false;
  if (IsCustomCallTo(*x, "SPMDShardToFullShape")) return false;
  for (const Instruction* operand : x->operands()) {
    if (!IsManual(of(operand))) continue;
    if (rules_.level() == 0 && (x->opcode() == Opcode::kConcatenate ||
                                x->opcode() == Opcode::kDynamicSlice)) {
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
      HasSideEffect(x)) {
    return;
  }
  for (const Instruction* operand : x->operands()) {
    const Sharding* s = of(operand);
    if (s == nullptr || !s->IsReplicated()) continue;
    OfferTo(x, s, false, {operand, ShardingEdge::kOperand, s});
    return;
  }
}

void Engine::VisitForward(Instruction* x) {
  auto open = annotations_.open_dims.find(x);
  if (open != annotations_.open_dims.end()) {
    if (rules_.level() >= 1) RefineOpenDimsForward(*this, x, open->second);
    return;
  }
  if (provided_[x->id()] != 0 || !LevelAllowsForward(x) || IsManual(of(x))) return;
  bool ends = false;
  if (any_manual_ && (TakeManualForward(x, ends) || ends)) return;
  if (!SupportedForward(x)) {
    TakeReplicationForward(x);
    return;
  }
  offers_.Clear();
  RuleOf(x->opcode()).forward(rules_, *x, offers_);
  if (offers_.list().empty()) return;
  bool single_use = IsSingleUse(x);
  for (const Offer& offer : offers_.list()) {
    if (offer.leaf >= 0) {
      OfferLeaf(x, offer, offer.aggressive && single_use);
    } else if (offer.as_it_is) {
      Set(x, offer.sharding, {offer.from, ShardingEdge::kOperand, offer.sharding});
    } else {
      OfferTo(x, offer.sharding, offer.aggressive && single_use,
              {offer.from, ShardingEdge::kOperand, offer.sharding});
    }
  }
}

bool Engine::TakeManualBackward(Instruction* x) {
  if (!YieldsToManual(of(x))) return false;
  for (Instruction* user : users_.of(x)) {
    const Sharding* s = of(user);
    if (s == nullptr || IsCustomCallTo(*user, "SPMDFullToShardShape")) continue;
    const Sharding* asked = nullptr;
    if (x->shape()->IsArray() && IsManual(s)) {
      asked = context().Manual();
    } else if (!IsManual(s) && (!s->IsTuple() || !user->shape()->IsTuple())) {
      continue;  // only a tuple can hold a manual leaf
    } else {
      asked = RuleOf(user->opcode()).backward(rules_, *user, s, *x);
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
    const Sharding* s = rules_.Partitioned(user);
    if (s == nullptr || !LevelAllowsThroughUser(user)) continue;
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
    const Sharding* asked = RuleOf(user->opcode()).backward(rules_, *user, s, *x);
    if (asked == nullptr) continue;
    if (IsCustomCallTo(*x, kShardBarrierTo)) asked = context().Replicated();
    OfferTo(x, asked, false, {user, ShardingEdge::kUser, asked});
  }
  flush();
}

void Engine::VisitBackward(Instruction* x) {
  auto open = annotations_.open_dims.find(x);
  if (open != annotations_.open_dims.end()) {
    if (rules_.level() >= 1) RefineOpenDimsBackward(*this, x, open->second);
    return;
  }
  if (provided_[x->id()] != 0 || IsManual(of(x))) return;
  if (x->opcode() == Opcode::kBroadcast && rules_.level() < 2) return;
  if (any_manual_ && TakeManualBackward(x)) return;
  if (!SupportedBackward(x)) return;
  for (const Instruction* user : users_.of(x)) {
    if (user->opcode() == Opcode::kRngBitGenerator) {
      const Sharding* replicated = context().Replicated();
      Set(x, replicated, {user, ShardingEdge::kUser, replicated});
      return;
    }
  }
  OfferFromUsers(x);
}

void Engine::FindConflicts(PropagationFindings& findings) {
  rules_.set_level(3);
  for (Instruction* x : order_) {
    const Sharding* mine = of(x);
    if (provided_[x->id()] == 0 || mine == nullptr || !mine->IsTiled() || !x->shape()->IsArray()) {
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
    if (RuleOf(x->opcode()).supported(rules_, *x)) {
      RuleOf(x->opcode()).forward(rules_, *x, offers_);
      for (const Offer& offer : offers_.list()) {
        if (offer.leaf < 0) check(offer.sharding, offer.from, false);
      }
    }
    for (const Instruction* user : users_.of(x)) {
      const Sharding* s = rules_.Partitioned(user);
      if (s != nullptr) check(RuleOf(user->opcode()).backward(rules_, *user, s, *x), user, true);
    }
  }
}

}  // namespace gshard
