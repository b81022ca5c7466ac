#include "core/transforms/while_loop_all_reduce_code_motion.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/transforms/algebraic_simplifier.h"
#include "core/transforms/collective_groups.h"
#include "core/transforms/loop_parts.h"
#include "core/transforms/rewriter.h"

namespace gshard {
namespace {

// add(accumulator, movements(reduce(g))), operands in either order.
struct Sum {
  Instruction* add = nullptr;
  int64_t accumulator = 0;              // which operand
  std::vector<Instruction*> movements;  // last first
  Instruction* reduce = nullptr;
  Instruction* summand = nullptr;  // what is summed; of a shared all-reduce, the whole of it
};

struct Accumulation {
  int64_t element = 0;       // of the state
  std::vector<Sum> sums;     // all over the same groups
  bool keeps_places = true;  // without the sums, what is there stays as it is
};

bool IsMovement(Opcode opcode) {
  return opcode == Opcode::kReshape || opcode == Opcode::kTranspose;
}

// A value, or with an index an element of the tuple that an instruction makes.
using Place = std::pair<Instruction*, std::optional<int64_t>>;

// Who reads what, and who calls whom, in a loop's body and in the branches in it.
class BodyGraph {
 public:
  struct Use {
    Instruction* user;
    int64_t operand;
  };

  explicit BodyGraph(const Computation& body) {
    std::vector<const Computation*> todo = {&body};
    while (!todo.empty()) {
      const Computation& computation = *todo.back();
      todo.pop_back();
      for (Instruction* x : computation.instructions()) {
        AddUses(x);
        if (x->opcode() != Opcode::kConditional) continue;
        for (const Computation* branch : x->called()) {
          std::vector<Instruction*>& callers = callers_[branch];
          callers.push_back(x);
          if (callers.size() == 1) todo.push_back(branch);
        }
      }
    }
  }

  // Without the get-tuple-elements of `x`, which are ElementsOf.
  std::span<const Use> UsesOf(const Instruction* x) const { return Of<Use>(uses_, x); }
  std::span<Instruction* const> ElementsOf(const Instruction* x, int64_t i) const {
    return Of<Instruction*>(elements_, std::pair(x, i));
  }
  // The conditionals in the body that call it, once a call.
  std::span<Instruction* const> CallersOf(const Computation* branch) const {
    return Of<Instruction*>(callers_, branch);
  }
  bool HasOneUse(const Instruction* x) const {
    return UsesOf(x).size() == 1 && x->parent()->root() != x;
  }

 private:
  template <typename T>
  static std::span<const T> Of(const auto& lists, const auto& key) {
    const auto found = lists.find(key);
    return found == lists.end() ? std::span<const T>() : std::span<const T>(found->second);
  }

  void AddUses(Instruction* x) {
    if (x->opcode() == Opcode::kGetTupleElement) {
      elements_[{x->operand(0), x->attributes<GetTupleElementAttributes>().index}].push_back(x);
      return;
    }
    for (int64_t i = 0; i < x->operand_count(); ++i) uses_[x->operand(i)].push_back({x, i});
  }

  std::unordered_map<const Instruction*, std::vector<Use>> uses_;
  std::map<std::pair<const Instruction*, int64_t>, std::vector<Instruction*>> elements_;
  std::unordered_map<const Computation*, std::vector<Instruction*>> callers_;
};

// Follows an element of the state through an iteration, in the body and in branches, to its next
// value. On the way each device may have its own part of the sum instead of the whole if
//   - only movements, sums with all-reduces over the same groups, and updates of the accumulator by
//     itself read it, alike on all devices;
//   - a branch that does not hand it on as it is has such an all-reduce: a group takes it together.
class AccumulationSearch {
 public:
  AccumulationSearch(const LoopParts& parts, const BodyGraph& graph, const CallSites& sites,
                     DeviceFunctions* devices, bool may_branch, int64_t element)
      : parts_(parts), graph_(graph), sites_(sites), devices_(devices), may_branch_(may_branch) {
    found_.element = element;
  }

  // Nothing if there is no all-reduce on the way, or a use that needs the whole.
  std::optional<Accumulation> Run() {
    Reach({parts_.body_state, found_.element});
    while (!todo_.empty()) {
      const auto [x, element] = todo_.back();
      todo_.pop_back();
      if (element.has_value() ? !FollowElement(x, *element) : !Follow(x)) return std::nullopt;
    }
    must_be_reached_.push_back(parts_.Next(found_.element));
    const bool is_closed =
        std::ranges::all_of(must_be_reached_, [&](Instruction* x) { return IsReached(x); });
    if (found_.sums.empty() || !is_closed) return std::nullopt;
    for (const auto& [conditional, passage] : passages_) {
      if (!IsPassage(*conditional, passage)) return std::nullopt;
    }
    return std::move(found_);
  }

 private:
  // Where a conditional takes the accumulator, and where it returns it; without index: itself.
  struct Passage {
    std::set<std::optional<int64_t>> in, out;
  };

  void Reach(Place place) {
    if (reached_.insert(place).second) todo_.push_back(place);
  }
  bool IsReached(Instruction* x) const { return reached_.contains({x, std::nullopt}); }

  bool Follow(Instruction* x) {
    if (x->parent()->root() == x && !LeaveBranch(x->parent(), std::nullopt)) return false;
    return std::ranges::all_of(graph_.UsesOf(x),
                               [&](const BodyGraph::Use& use) { return FollowInto(use); });
  }

  bool FollowElement(Instruction* tuple, int64_t i) {
    if (tuple == parts_.body->root()) return i == found_.element;
    if (tuple == tuple->parent()->root() && !LeaveBranch(tuple->parent(), i)) return false;
    for (Instruction* x : graph_.ElementsOf(tuple, i)) Reach({x, std::nullopt});
    return std::ranges::all_of(graph_.UsesOf(tuple), [&](const BodyGraph::Use& use) {
      return use.user->opcode() == Opcode::kConditional && EnterBranch(use, i);
    });
  }

  bool FollowInto(const BodyGraph::Use& use) {
    Instruction* user = use.user;
    switch (user->opcode()) {
      case Opcode::kReshape:
      case Opcode::kCopy:
        break;
      case Opcode::kTranspose:
      case Opcode::kSlice:
        found_.keeps_places = false;
        break;
      case Opcode::kAdd:
        if (!AddSum(use)) return false;
        break;
      case Opcode::kConcatenate:
        found_.keeps_places = false;
        for (Instruction* x : user->operands()) must_be_reached_.push_back(x);
        break;
      case Opcode::kDynamicUpdateSlice:
        for (int64_t i = 2; i < user->operand_count(); ++i) {
          if (user->operand(i)->opcode() != Opcode::kConstant) return false;
        }
        must_be_reached_.insert(must_be_reached_.end(), {user->operand(0), user->operand(1)});
        break;
      case Opcode::kTuple:
        Reach({user, use.operand});
        return true;
      case Opcode::kConditional:
        return EnterBranch(use, std::nullopt);
      default:
        return false;
    }
    Reach({user, std::nullopt});
    return true;
  }

  // False if the sum is one with an all-reduce over other groups.
  bool AddSum(const BodyGraph::Use& use) {
    Instruction* term = use.user->operand(1 - use.operand);
    Sum sum{use.user, use.operand, {}, term, nullptr};
    while (IsMovement(sum.reduce->opcode()) && graph_.HasOneUse(sum.reduce)) {
      sum.movements.push_back(sum.reduce);
      sum.reduce = sum.reduce->operand(0);
    }
    if (Instruction* slice = SharedSlice(sum.reduce)) {
      sum.reduce = sum.reduce->operand(0);
      sum.summand = slice->operand(0);
    } else if (sum.reduce->operand_count() > 0) {
      sum.summand = sum.reduce->operand(0);
    }
    if (!IsPlainCollective(sum.reduce, Opcode::kAllReduce) || !graph_.HasOneUse(sum.reduce) ||
        ReductionOf(sum.reduce) != Opcode::kAdd) {
      found_.keeps_places = false;
      must_be_reached_.push_back(term);
      return true;
    }
    if (!found_.sums.empty() && !SameCommunication(found_.sums[0].reduce, sum.reduce)) return false;
    summing_.insert(sum.add->parent());
    found_.sums.push_back(std::move(sum));
    return true;
  }

  // Of all-gather(all-reduce(slice(g))), which is all-reduce(g) where devices with the same g share
  // the work: the slice. Null: not that.
  Instruction* SharedSlice(const Instruction* gather) const {
    if (devices_ == nullptr || !IsPlainCollective(gather, Opcode::kAllGather)) return nullptr;
    const Instruction* reduce = gather->operand(0);
    if (!IsPlainCollective(reduce, Opcode::kAllReduce) || !graph_.HasOneUse(gather)) return nullptr;
    Instruction* slice = reduce->operand(0);
    const bool is_own = slice->opcode() == Opcode::kDynamicSlice && graph_.HasOneUse(slice) &&
                        IsOwnTileOf(slice, gather, *devices_);
    return is_own ? slice : nullptr;
  }

  bool EnterBranch(const BodyGraph::Use& use, std::optional<int64_t> i) {
    if (use.operand == 0 || !may_branch_) return false;
    passages_[use.user].in.insert(i);
    Reach({use.user->called(use.operand - 1)->parameter(0), i});
    return true;
  }

  bool LeaveBranch(const Computation* branch, std::optional<int64_t> i) {
    const std::span<Instruction* const> callers = graph_.CallersOf(branch);
    if (sites_.Count(branch) != static_cast<int64_t>(callers.size())) return false;
    for (Instruction* conditional : callers) {
      passages_[conditional].out.insert(i);
      Reach({conditional, i});
    }
    return true;
  }

  // One way in, one way out, and in every branch a sum or the value as it came.
  bool IsPassage(const Instruction& conditional, const Passage& passage) const {
    if (passage.in.size() != 1 || passage.out.size() != 1) return false;
    const std::optional<int64_t> in = *passage.in.begin(), out = *passage.out.begin();
    for (int64_t k = 1; k < conditional.operand_count(); ++k) {
      const Computation& branch = *conditional.called(k - 1);
      Instruction* given = ValueAt(conditional.operand(k), in);
      Instruction* result = ValueAt(branch.root(), out);
      if (given == nullptr || !IsReached(given) || result == nullptr || !IsReached(result)) {
        return false;
      }
      const Instruction* parameter = branch.parameter(0);
      const bool is_handed_on =
          in.has_value() ? ElementOf(result, parameter) == in : result == parameter;
      if (!is_handed_on && !summing_.contains(&branch)) return false;
    }
    return true;
  }

  // Null if the instruction does not show it.
  static Instruction* ValueAt(Instruction* x, std::optional<int64_t> i) {
    if (!i.has_value()) return x;
    return x->opcode() == Opcode::kTuple ? x->operand(*i) : nullptr;
  }

  const LoopParts& parts_;
  const BodyGraph& graph_;
  const CallSites& sites_;
  DeviceFunctions* devices_;  // null: groups are not by device numbers alone
  bool may_branch_;
  Accumulation found_;
  std::set<Place> reached_;
  std::vector<Place> todo_;
  std::vector<Instruction*> must_be_reached_;  // for the accumulator to be made of nothing else
  std::unordered_set<const Computation*> summing_;
  std::unordered_map<const Instruction*, Passage> passages_;
};

std::vector<Accumulation> FindAccumulations(const LoopParts& parts, const CallSites& sites,
                                            DeviceFunctions* devices, bool may_branch) {
  std::unordered_set<int64_t> tested;
  for (const Instruction* x : parts.condition->instructions()) {
    if (auto element = ElementOf(x, parts.condition_state)) tested.insert(*element);
  }
  const BodyGraph graph(*parts.body);
  std::vector<Accumulation> found;
  for (int64_t i = 0; i < parts.size(); ++i) {
    if (tested.contains(i)) continue;
    auto accumulation = AccumulationSearch(parts, graph, sites, devices, may_branch, i).Run();
    if (accumulation) found.push_back(*std::move(accumulation));
  }
  return found;
}

class LoopShortener {
 public:
  explicit LoopShortener(Module& module)
      : module_(module), sites_(module), devices_(module.DeviceCount()) {}

  Instruction* Visit(Instruction* x, Rewriter& rewriter) {
    if (x->opcode() == Opcode::kWhile) Shorten(x, rewriter.builder());
    if (x->opcode() != Opcode::kGetTupleElement) return x;
    auto moved = moved_.find({x->operand(0), x->attributes<GetTupleElementAttributes>().index});
    if (moved == moved_.end()) return x;
    // The reduction that each iteration used to do, once.
    Builder& builder = rewriter.builder();
    Instruction* mine = builder.Add(Opcode::kGetTupleElement, x->operands(),
                                    GetTupleElementAttributes{moved->first.second}, x->shape());
    Instruction* sum = SameCollectiveOn(builder, moved->second.reduce, mine);
    Instruction* init = moved->second.init;
    return IsFilledWith(init, 0.0) ? sum : builder.Add(init, sum);
  }

 private:
  struct Moved {
    const Instruction* reduce;
    Instruction* init;
  };

  void Shorten(Instruction* loop, Builder& builder) {
    std::optional<LoopParts> parts = PartsOf(loop, sites_);
    if (!parts || !UsedByElement(loop)) return;
    // Of a loop that itself is in a branch, not all of a group may come by.
    const bool may_branch = loop->parent() == module_.entry();
    DeviceFunctions* devices = module_.header().replica_count > 1 ? nullptr : &devices_;
    const std::vector<Accumulation> accumulations =
        FindAccumulations(*parts, sites_, devices, may_branch);
    if (accumulations.empty()) return;
    std::vector<Instruction*> inits;
    for (int64_t i = 0; i < parts->size(); ++i) inits.push_back(parts->Init(builder, i));
    std::unordered_map<const Instruction*, const Sum*> sum_of;
    std::vector<Computation*> summing;
    for (const Accumulation& a : accumulations) {
      // What is there on entry is added at the end: where it was.
      if (!a.keeps_places && !IsFilledWith(inits[static_cast<size_t>(a.element)], 0.0)) continue;
      for (const Sum& sum : a.sums) {
        sum_of[sum.add] = &sum;
        Computation* parent = sum.add->parent();
        if (std::ranges::find(summing, parent) == summing.end()) summing.push_back(parent);
      }
      Instruction*& init = inits[static_cast<size_t>(a.element)];
      moved_[{loop, a.element}] = {a.sums[0].reduce, init};
      init = builder.Zero(init->shape());
    }
    if (sum_of.empty()) return;
    SetState(*parts, builder, inits);
    for (Computation* computation : summing) {
      Rewriter(module_).Run(computation, [&](Instruction* x, Rewriter& rewriter) {
        auto found = sum_of.find(x);
        return found == sum_of.end() ? x : OwnSum(*found->second, rewriter.builder());
      });
    }
  }

  // What the device adds up itself.
  static Instruction* OwnSum(const Sum& sum, Builder& builder) {
    Instruction* term = sum.summand;
    for (auto it = sum.movements.rbegin(); it != sum.movements.rend(); ++it) {
      term = builder.CloneWith(*it, {&term, 1}, (*it)->shape());
    }
    Instruction* accumulator = sum.add->operand(sum.accumulator);
    return sum.accumulator == 0 ? builder.Add(accumulator, term) : builder.Add(term, accumulator);
  }

  static bool UsedByElement(const Instruction* loop) {
    const Computation& computation = *loop->parent();
    if (computation.root() == loop) return false;
    for (const Instruction* x : computation.instructions()) {
      if (x->opcode() == Opcode::kGetTupleElement) continue;
      for (const Instruction* operand : x->operands()) {
        if (operand == loop) return false;
      }
    }
    return true;
  }

  Module& module_;
  CallSites sites_;
  DeviceFunctions devices_;
  std::map<std::pair<const Instruction*, int64_t>, Moved> moved_;
};

}  // namespace

bool MoveAllReducesOutOfLoops(Module& module) {
  LoopShortener sweep(module);
  return RewriteModule(
      module, [&](Instruction* x, Rewriter& rewriter) { return sweep.Visit(x, rewriter); });
}

}  // namespace gshard
