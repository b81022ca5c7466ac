#include "core/transforms/collectives/loop_accumulations.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <unordered_set>
#include <utility>

#include "core/analysis/combiner.h"
#include "core/transforms/collectives/collective_groups.h"
#include "core/transforms/collectives/values_alike_in_groups.h"
#include "ir/attribute_equality.h"
#include "ir/constant_fill.h"

namespace gshard {
namespace {

// A value, or with an index an element of the tuple that an instruction makes.
using Place = std::pair<Instruction*, std::optional<int64_t>>;

// Rounding apart, a sum of converted values is the converted sum: where nothing is lost.
bool Widens(const Instruction* convert) {
  const DType from = convert->operand(0)->shape()->dtype(), to = convert->shape()->dtype();
  return IsFloat(from) && IsFloat(to) && DTypeBits(to) >= 32 && DTypeBits(to) > DTypeBits(from);
}

// Follows an element of the state through a turn, in the body and in branches, to its next value.
// It may be each device's part on the way if
//   - only linear operations that are alike on all devices of a group read it;
//   - what is added to it, or written into it, is linear in collectives over the same groups too;
//   - a branch that does not hand it on as it is has such a collective: a group takes it together.
class AccumulationSearch {
 public:
  // `around`: of the loop in whose body this one is, where the element is a term of its
  // accumulator; null: none.
  AccumulationSearch(const LoopParts& parts, const BodyGraph& graph, const CallSites& sites,
                     DeviceFunctions* devices, bool may_branch, int64_t element,
                     const AccumulationSearch* around = nullptr)
      : parts_(parts),
        graph_(graph),
        sites_(sites),
        devices_(devices),
        may_branch_(may_branch),
        around_(around) {
    found_.element = element;
  }

  // Does the loop go on or end by it?
  static bool IsTested(const LoopParts& parts, int64_t element) {
    return std::ranges::any_of(parts.condition->instructions(), [&](const Instruction* x) {
      return ElementOf(x, parts.condition_state) == element;
    });
  }

  // Nothing if there is no collective on the way, or a use that needs the whole.
  std::optional<Accumulation> Run() {
    Reach({parts_.body_state, found_.element});
    while (!todo_.empty()) {
      const auto [x, element] = todo_.back();
      todo_.pop_back();
      if (element.has_value() ? !FollowElement(x, *element) : !Follow(x)) return std::nullopt;
    }
    must_be_parts_.push_back(parts_.Next(found_.element));
    for (Instruction* x : must_be_parts_) {
      if (!IsPart(x)) return std::nullopt;
    }
    for (Instruction* x : terms_) {
      const int64_t before = reached_again_;
      if (!IsPart(x)) return std::nullopt;
      if (reached_again_ > before) found_.keeps_places = false;
    }
    // Rows that are written once each are no fewer behind the loop.
    const bool saves = around_ != nullptr || !terms_.empty();
    if (!saves || found_.sums.empty() || !AreAlike()) return std::nullopt;
    for (const auto& [conditional, passage] : passages_) {
      if (!IsPassage(*conditional, passage)) return std::nullopt;
    }
    if (!MayChangeShape()) return std::nullopt;
    for (const auto& [x, i] : reached_) {
      if (!i.has_value()) found_.parts.push_back(x);
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
      case Opcode::kTuple:
        Reach({user, use.operand});
        return true;
      case Opcode::kConditional:
        return EnterBranch(use, std::nullopt);
      case Opcode::kReshape:
      case Opcode::kCopy:
        break;
      case Opcode::kAdd:
        terms_.push_back(user->operand(1 - use.operand));
        break;
      case Opcode::kSubtract:
        terms_.push_back(user->operand(1 - use.operand));
        if (use.operand == 1) found_.keeps_places = false;
        break;
      default:  // NoteOperands knows which of them are linear
        found_.keeps_places = false;
        if (!NoteOperands(user, use.operand)) return false;
    }
    Reach({user, std::nullopt});
    return true;
  }

  static bool IsUnaryMap(const Instruction* x) {
    switch (x->opcode()) {
      case Opcode::kReshape:
      case Opcode::kTranspose:
      case Opcode::kSlice:
      case Opcode::kCopy:
      case Opcode::kNegate:
        return true;
      case Opcode::kConvert:
        return Widens(x);
      case Opcode::kReduce:  // as the gradient of a broadcast
        return x->operand_count() == 2 && CombinerOf(x->called(0)) == Opcode::kAdd &&
               IsFilledWith(x->operand(1), 0.0);
      default:  // not a linear map of one operand
        return false;
    }
  }

  // Of a linear operation that reads a part as operand `part`: what else must be a part or alike.
  // False: it is none.
  bool NoteOperands(Instruction* x, int64_t part) {
    if (IsUnaryMap(x)) return true;
    switch (x->opcode()) {
      case Opcode::kMultiply:
        must_be_alike_.push_back(x->operand(1 - part));
        return true;
      case Opcode::kDivide:
        must_be_alike_.push_back(x->operand(1));
        return part == 0 && IsFloat(x->shape()->dtype());
      case Opcode::kConcatenate:
        must_be_parts_.insert(must_be_parts_.end(), x->operands().begin(), x->operands().end());
        return true;
      case Opcode::kDynamicSlice:
        return part == 0 && NoteStarts(x, 1);
      case Opcode::kDynamicUpdateSlice:
        must_be_parts_.insert(must_be_parts_.end(), {x->operand(0), x->operand(1)});
        return part < 2 && NoteStarts(x, 2);
      default:  // not linear
        return false;
    }
  }
  bool NoteStarts(const Instruction* x, int64_t first) {
    for (int64_t i = first; i < x->operand_count(); ++i) must_be_alike_.push_back(x->operand(i));
    return true;
  }

  // Reached from the accumulator, or linear in collectives that nobody else reads.
  bool IsPart(Instruction* x) {
    if (IsReached(x)) return ++reached_again_, true;
    if (IsFilledWith(x, 0.0)) return true;
    if (!graph_.HasOneUse(x) || depth_ == BodyGraph::kMaxDepth) return false;
    ++depth_;
    const bool is_part = FindPart(x);
    --depth_;
    if (is_part && !IsCollective(x->opcode())) found_.parts.push_back(x);
    return is_part;
  }

  bool FindPart(Instruction* x) {
    if (IsCollective(x->opcode())) return AddSum(x);
    if (x->opcode() == Opcode::kGetTupleElement) return AddSumsOfLoop(x);
    if (IsUnaryMap(x)) return IsPart(x->operand(0));
    switch (x->opcode()) {
      case Opcode::kMultiply:
        for (int64_t part : {0, 1}) {
          if (!MayBePart(x->operand(part))) continue;
          must_be_alike_.push_back(x->operand(1 - part));
          return IsPart(x->operand(part));
        }
        return false;
      case Opcode::kDivide:
        must_be_alike_.push_back(x->operand(1));
        return IsFloat(x->shape()->dtype()) && IsPart(x->operand(0));
      case Opcode::kAdd:
      case Opcode::kSubtract:
      case Opcode::kConcatenate:
        return std::ranges::all_of(x->operands(), [&](Instruction* from) { return IsPart(from); });
      case Opcode::kDynamicSlice:
        return NoteStarts(x, 1) && IsPart(x->operand(0));
      case Opcode::kDynamicUpdateSlice:
        return NoteStarts(x, 2) && IsPart(x->operand(0)) && IsPart(x->operand(1));
      default:  // not linear
        return false;
    }
  }

  // Which factor of a product it is that has a collective behind it.
  bool MayBePart(Instruction* x) const {
    for (; graph_.HasOneUse(x); x = x->operand(0)) {
      if (IsReached(x) || IsCollective(x->opcode())) return true;
      const bool goes_on = IsUnaryMap(x) || x->opcode() == Opcode::kMultiply ||
                           x->opcode() == Opcode::kDivide || x->opcode() == Opcode::kAdd ||
                           x->opcode() == Opcode::kSubtract;
      if (!goes_on) return x->opcode() == Opcode::kGetTupleElement;
    }
    return IsReached(x);
  }

  bool AddSum(Instruction* x) {
    LoopSum sum{x, x};
    if (SharesWork(x)) sum.repeated = x->operand(0);
    const bool sums = IsPlainCollective(sum.repeated, Opcode::kAllReduce) ||
                      IsPlainCollective(x, Opcode::kReduceScatter);
    if (!sums && !IsPlainCollective(x, Opcode::kAllGather)) return false;
    if (sums && ReductionOf(sum.repeated) != Opcode::kAdd) return false;
    if (const LoopSum* first = FirstSum()) {
      if (first->repeated->opcode() != sum.repeated->opcode()) return false;
      // Their types may differ: behind the loop all are of the accumulator's.
      if (!SameAttributes(*first->repeated, *sum.repeated)) return false;
    }
    summing_.insert(x->parent());
    found_.sums.push_back(sum);
    return true;
  }

  const LoopSum* FirstSum() const {
    if (!found_.sums.empty()) return &found_.sums[0];
    return around_ == nullptr ? nullptr : around_->FirstSum();
  }

  // all-gather(all-reduce(slice(g))), which is all-reduce(g) where devices with the same g share
  // the work.
  bool SharesWork(const Instruction* gather) const {
    if (devices_ == nullptr || !IsPlainCollective(gather, Opcode::kAllGather)) return false;
    const Instruction* reduce = gather->operand(0);
    if (!IsPlainCollective(reduce, Opcode::kAllReduce) || !graph_.HasOneUse(reduce)) return false;
    const Instruction* slice = reduce->operand(0);
    return slice->opcode() == Opcode::kDynamicSlice && graph_.HasOneUse(slice) &&
           IsOwnTileOf(slice, gather, *devices_);
  }

  // Of a loop in the body, as over layers: an element that begins with zeros and is a sum, too.
  bool AddSumsOfLoop(Instruction* x) {
    Instruction* loop = x->operand(0);
    const int64_t element = x->attributes<GetTupleElementAttributes>().index;
    const std::optional<LoopParts> parts = PartsOf(loop, sites_);
    if (!parts || loop->parent()->root() == loop || loop->operand(0)->opcode() != Opcode::kTuple) {
      return false;
    }
    if (!graph_.UsesOf(loop).empty() || graph_.ElementsOf(loop, element).size() != 1) return false;
    if (!IsFilledWith(loop->operand(0)->operand(element), 0.0) || IsTested(*parts, element)) {
      return false;
    }
    const BodyGraph graph(*parts->body);
    const bool may_branch = may_branch_ && loop->parent() == parts_.body;
    AccumulationSearch inner(*parts, graph, sites_, devices_, may_branch, element, this);
    const std::optional<Accumulation> sums = inner.Run();
    if (!sums || sums->changes_shape()) return false;
    found_.sums.insert(found_.sums.end(), sums->sums.begin(), sums->sums.end());
    found_.parts.insert(found_.parts.end(), sums->parts.begin(), sums->parts.end());
    return true;
  }

  ValuesAlikeInGroups AlikeFor(const Instruction* collective) const {
    if (around_ == nullptr) return {parts_, graph_, devices_, collective, nullptr};
    ValuesAlikeInGroups outer = around_->AlikeFor(collective);
    return {parts_, graph_, devices_, collective, &outer};
  }

  bool AreAlike() {
    if (must_be_alike_.empty()) return true;
    ValuesAlikeInGroups alike = AlikeFor(found_.sums[0].repeated);
    return std::ranges::all_of(must_be_alike_, [&](const Instruction* x) { return alike.Is(x); });
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

  // Where the collective's operand has another shape than its result, what is between it and the
  // next turn gets that, too: it must be elementwise, by factors of one number, or transposed.
  bool MayChangeShape() {
    const Instruction* first = found_.sums[0].collective;
    if (SameDims(first->shape(), found_.sums[0].part()->shape())) return true;
    if (!passages_.empty() || around_ != nullptr) return false;
    found_.keeps_places = false;
    for (const LoopSum& sum : found_.sums) {
      if (!ReshapeTerm(sum)) return false;
    }
    for (const auto& [x, i] : reached_) {
      if (i.has_value()) continue;
      const bool is_state = ElementOf(x, parts_.body_state).has_value();
      const bool maps = IsElementwise(x->opcode()) || x->opcode() == Opcode::kCopy;
      if (x->parent() != parts_.body || !(is_state || maps)) return false;
      found_.reshaped[x] = Scaled(x->shape()->dims(), found_.dimension, *first);
    }
    found_.part_dims = found_.reshaped.at(parts_.Next(found_.element));
    const auto is_number = [](const Instruction* x) {
      return x->opcode() == Opcode::kBroadcast && x->operand(0)->shape()->rank() == 0;
    };
    return std::ranges::all_of(must_be_alike_, is_number);
  }

  // From the collective to where it meets the accumulator.
  bool ReshapeTerm(const LoopSum& sum) {
    const Instruction* x = sum.collective;
    int64_t d = x->attributes<CollectiveAttributes>().dimension;
    while (true) {
      Instruction* user = graph_.UsesOf(x)[0].user;
      if (user->opcode() == Opcode::kTranspose) {
        const auto dims = user->attributes<DimensionsAttributes>().dimensions;
        d = std::ranges::find(dims, d) - dims.begin();
      } else if (!IsElementwise(user->opcode()) && user->opcode() != Opcode::kCopy) {
        return false;
      }
      if (IsReached(user)) break;
      std::vector<int64_t> dims = Scaled(user->shape()->dims(), d, *sum.collective);
      const auto [known, is_new] = found_.reshaped.emplace(user, dims);
      if (!is_new && known->second != dims) return false;
      x = user;
    }
    const bool is_same = found_.dimension < 0 || found_.dimension == d;
    found_.dimension = d;
    return is_same;
  }

  // The dims of parts whose collective has these along `d`.
  static std::vector<int64_t> Scaled(std::span<const int64_t> dims, int64_t d,
                                     const Instruction& collective) {
    const int64_t at = collective.attributes<CollectiveAttributes>().dimension;
    const int64_t whole = collective.operand(0)->shape()->dim(at);
    const int64_t made = collective.shape()->dim(at);
    std::vector<int64_t> scaled(dims.begin(), dims.end());
    int64_t& size = scaled[static_cast<size_t>(d)];
    size = whole > made ? size * (whole / made) : size / (made / whole);
    return scaled;
  }

  const LoopParts& parts_;
  const BodyGraph& graph_;
  const CallSites& sites_;
  DeviceFunctions* devices_;  // null: groups are not by device numbers alone
  bool may_branch_;
  const AccumulationSearch* around_;
  Accumulation found_;
  std::set<Place> reached_;
  std::vector<Place> todo_;
  std::vector<Instruction*> must_be_parts_;  // for the accumulator to be made of nothing else
  std::vector<Instruction*> terms_;          // the same, of what is added to it
  std::vector<Instruction*> must_be_alike_;  // on all devices of a group
  int64_t reached_again_ = 0;  // how often the accumulator was found in what must be a part
  int depth_ = 0;
  std::unordered_set<const Computation*> summing_;
  std::unordered_map<const Instruction*, Passage> passages_;
};

}  // namespace

std::vector<Accumulation> FindAccumulations(const LoopParts& parts, const CallSites& sites,
                                            DeviceFunctions* devices, bool may_branch) {
  const BodyGraph graph(*parts.body);
  std::vector<Accumulation> found;
  for (int64_t i = 0; i < parts.size(); ++i) {
    if (AccumulationSearch::IsTested(parts, i)) continue;
    auto accumulation = AccumulationSearch(parts, graph, sites, devices, may_branch, i).Run();
    if (accumulation) found.push_back(*std::move(accumulation));
  }
  return found;
}

}  // namespace gshard
