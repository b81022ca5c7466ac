// Steps that both graphs make alike are found one by one; what only such steps use is inside.
#include "backends/cpu/verify/analysis/chain_ends.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "backends/cpu/mesh/partial_values.h"
#include "backends/cpu/verify/analysis/graph_walk.h"
#include "core/analysis/trip_count.h"
#include "core/op_dims/dim_relation.h"
#include "ir/computation.h"
#include "ir/dims.h"
#include "ir/equality.h"
#include "ir/shape_inference.h"
#include "ir/sharding_algebra.h"

namespace gshard::cpu {
namespace {

// Dims that are cut alike: of an operand, and of the result.
using CutDims = std::vector<std::pair<int64_t, int64_t>>;

// Tells which arrays need not be looked at.
class ChainFinder {
 public:
  explicit ChainFinder(std::span<const Candidate> candidates)
      : candidates_(candidates),
        is_same_step_(candidates.size(), 0),
        is_inside_(candidates.size(), 0),
        moved_from_(candidates.size(), kNone),
        users_(candidates.size()) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      places_.emplace(candidates[i].x, i);
      const Instruction* made_by = MadeBy(*candidates[i].x);
      if (made_by != candidates[i].x) elements_[made_by].push_back(i);
    }
    for (size_t i = 0; i < candidates.size(); ++i) {
      const Candidate* source = LeftByLoop(candidates[i]);
      if (source == nullptr && IsSameMove(candidates[i])) {
        source = &candidates_[places_.at(MovedFrom(*candidates[i].x))];
      }
      if (source != nullptr) moved_from_[i] = static_cast<size_t>(source - candidates_.data());
      is_same_step_[i] = source != nullptr || IsSameStep(candidates[i]);
    }
    // Where no sum is cut, both graphs make the same bits nearly always, and sums are steps of
    // chains; else a pick among what is made of one may flip.
    std::vector<size_t> sums;
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (IsSum(MadeBy(*candidates[i].x)->opcode())) sums.push_back(i);
    }
    if (!std::ranges::all_of(sums, [&](size_t i) { return IsSameSum(candidates_[i]); })) return;
    for (const size_t i : sums) is_same_step_[i] = 1;
  }

  std::vector<Candidate> Run() {
    is_inside_ = is_same_step_;
    std::set<const Computation*> computations;
    for (const Candidate& candidate : candidates_) computations.insert(candidate.x->parent());
    for (const Computation* computation : computations) FindUsers(*computation);
    FindCopies();
    std::vector<Candidate> ends;
    std::vector<size_t> end_of(candidates_.size(), 0);
    // Users come after what they use.
    for (size_t i = candidates_.size(); i-- > 0;) {
      if (copy_of_[i] != kNone) continue;
      if (IsInside(i)) {
        end_of[i] = end_of[users_[i].front()];  // one is enough to count it
        ++ends[end_of[i]].stands_for;
        for (size_t user : users_[i]) ends[end_of[user]].ends_chain = true;
      } else {
        end_of[i] = ends.size();
        ends.push_back(candidates_[i]);
      }
    }
    for (const size_t source : copy_of_) {
      if (source != kNone) ++ends[end_of[source]].stands_for;
    }
    std::reverse(ends.begin(), ends.end());
    return ends;
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;

  bool IsInside(size_t i) const { return is_inside_[i] != 0 && !users_[i].empty(); }

  // Where what is moved is looked at, the whole graph goes on with the mesh's elements: what they
  // are moved to is equal, whoever uses it.
  void FindCopies() {
    copy_of_.assign(candidates_.size(), kNone);
    for (size_t i = 0; i < candidates_.size(); ++i) {
      const size_t from = moved_from_[i];
      if (from == kNone) continue;
      const bool is_given = candidates_[from].x->opcode() == Opcode::kParameter;
      if (copy_of_[from] != kNone) {
        copy_of_[i] = copy_of_[from];
      } else if (!IsInside(from) && !is_given) {
        copy_of_[i] = from;
      }
    }
  }

  // What a loop leaves behind is what its body has made in the last iteration, in both graphs.
  const Candidate* LeftByLoop(const Candidate& candidate) const {
    const Instruction* made = MadeByBody(*candidate.x);
    const Instruction* local = MadeByBody(*candidate.form->local);
    if (made == nullptr || local == nullptr) return nullptr;
    const auto found = places_.find(made);
    if (found == places_.end()) return nullptr;
    const Candidate& source = candidates_[found->second];
    const int64_t trips = TripCount(*candidate.x->operand(0)).value_or(0);
    const bool is_compared = trips > 0 && trips % source.stride_in_iterations == 0;
    const bool is_same = source.form->local == local &&
                         SameSharding(source.form->sharding, candidate.form->sharding);
    return is_compared && is_same && candidate.stride_in_iterations == 1 ? &source : nullptr;
  }
  static const Instruction* MadeByBody(const Instruction& x) {
    if (x.opcode() != Opcode::kGetTupleElement || x.operand(0)->opcode() != Opcode::kWhile) {
      return nullptr;
    }
    const Instruction& root = *x.operand(0)->called(1)->root();
    if (root.opcode() != Opcode::kTuple) return nullptr;
    return root.operand(x.attributes<GetTupleElementAttributes>().index);
  }

  // Does the mesh move its parts of the same array in the same way? Of what only has another name
  // it may have one array.
  bool IsSameMove(const Candidate& candidate) const {
    const Instruction &x = *candidate.x, &local = *candidate.form->local;
    const Instruction* source = MovedFrom(x);
    if (source == nullptr || source->parent() != x.parent()) return false;
    if (x.opcode() != Opcode::kReshape && x.opcode() != Opcode::kTranspose) {
      const Candidate* same = HeldIn(*source, local, candidate);
      if (same == nullptr && local.opcode() == Opcode::kCopy) {
        same = HeldIn(*source, *local.operand(0), candidate);
      }
      return same != nullptr && SameSharding(same->form->sharding, candidate.form->sharding);
    }
    return SameOperation(x, local) && HasParts(candidate, 0);
  }

  // One device has it, or what the devices have is no tile.
  static bool HoldsElsewhere(const Sharding& sharding) {
    return sharding.IsMaximal() || IsPartial(&sharding);
  }

  // Is each of the pairs of dims cut in the same way, and has every device the same tile of both?
  static bool HaveSameTiles(const Sharding& from, int64_t from_rank, const Sharding& to,
                            int64_t to_rank, const CutDims& pairs) {
    bool is_split = false;
    for (const auto& [a, b] : pairs) {
      if (from.TileCount(a) != to.TileCount(b)) return false;
      is_split = is_split || from.TileCount(a) > 1;
    }
    if (!is_split) return true;
    if (from.device_count() != to.device_count()) return false;
    for (int64_t device = 0; device < from.device_count(); ++device) {
      const auto of_from = TileIndexOf(&from, device, from_rank);
      const auto of_to = TileIndexOf(&to, device, to_rank);
      for (const auto& [a, b] : pairs) {
        if (of_from[static_cast<size_t>(a)] != of_to[static_cast<size_t>(b)]) return false;
      }
    }
    return true;
  }

  // Does the mesh make it by the same elementwise operation, or broadcast, of its parts of the same
  // operands? Then the step is right, whatever the values are.
  bool IsSameStep(const Candidate& candidate) const {
    const Instruction &x = *candidate.x, &local = *candidate.form->local;
    if (!SameOperation(x, local) || x.operand_count() != local.operand_count()) return false;
    if (x.opcode() == Opcode::kBroadcast) return HasParts(candidate, 0);
    if (!IsElementwise(x.opcode()) || x.opcode() == Opcode::kStochasticConvert) return false;
    for (int64_t k = 0; k < x.operand_count(); ++k) {
      if (!IsSameOperand(candidate, *x.operand(k), *local.operand(k))) return false;
    }
    return true;
  }

  // The candidate that `whole` is, if the mesh has it in `local`.
  const Candidate* HeldIn(const Instruction& whole, const Instruction& local,
                          const Candidate& user) const {
    const auto found = places_.find(&whole);
    if (found == places_.end()) return nullptr;
    const Candidate& candidate = candidates_[found->second];
    const bool fits = candidate.form->local == &local &&
                      candidate.stride_in_iterations == user.stride_in_iterations;
    return fits ? &candidate : nullptr;
  }

  // What computes x, which may be an element of a reduction of several arrays.
  static const Instruction* MadeBy(const Instruction& x) {
    const bool is_element =
        x.opcode() == Opcode::kGetTupleElement && x.operand(0)->opcode() == Opcode::kReduce;
    return is_element ? x.operand(0) : &x;
  }

  // Does every device sum over whole rows, of its parts of the same operands?
  bool IsSameSum(const Candidate& candidate) const {
    const Instruction &x = *MadeBy(*candidate.x), &local = *MadeBy(*candidate.form->local);
    if (!SameOperation(x, local) || x.operand_count() != local.operand_count()) return false;
    const bool is_element = &x != candidate.x;
    if (is_element && !SameOperation(*candidate.x, *candidate.form->local)) return false;
    const bool is_dot = x.opcode() == Opcode::kDot;
    const bool reduces = x.opcode() == Opcode::kReduce ||
                         (x.opcode() == Opcode::kReduceWindow && x.operand_count() == 2);
    if (!is_dot && !reduces) return false;
    for (int64_t k = 0; k < x.operand_count(); ++k) {
      const bool is_array = is_dot || k < x.operand_count() / 2;
      const bool is_same = is_array ? HasParts(candidate, k)
                                    : IsSameOperand(candidate, *x.operand(k), *local.operand(k));
      if (!is_same) return false;
    }
    return true;
  }

  // Has every device of operand k the part that its part of the result is made of, and all of each
  // dim that is summed?
  bool HasParts(const Candidate& user, int64_t k) const {
    const Instruction &x = *MadeBy(*user.x), &local = *MadeBy(*user.form->local);
    const Candidate* operand = HeldIn(*x.operand(k), *local.operand(k), user);
    if (operand == nullptr) return false;
    const Sharding *from = operand->form->sharding, *to = user.form->sharding;
    if (from == nullptr || to == nullptr || HoldsElsewhere(*from) || HoldsElsewhere(*to)) {
      return false;
    }
    const DimRelation relation = RelationOf(x);
    const std::vector<FactorList>& of_operand = relation.operands[At(k)];
    const std::vector<FactorList>& of_result = relation.results[0];
    const Shape &part = *operand->x->shape(), &result = *user.x->shape();
    CutDims pairs;
    for (int64_t a = 0; a < part.rank(); ++a) {
      const FactorList& factors = of_operand[At(a)];
      const bool is_kept = relation.factors[At(factors.front())].kind == FactorKind::kPassThrough;
      const auto same = std::ranges::find_if(of_result, [&](const FactorList& of_dim) {
        return is_kept && of_dim.front() == factors.front();
      });
      const int64_t b = same - of_result.begin(), tiles = from->TileCount(a);
      // Of several factors only the major one may be cut, and evenly.
      const bool fits =
          same != of_result.end() &&
          (*same == factors || (part.dim(a) % tiles == 0 && result.dim(b) % tiles == 0));
      if (fits) pairs.emplace_back(a, b);
      if (!fits && tiles > 1) return false;
    }
    for (int64_t b = 0; b < result.rank(); ++b) {
      const bool is_paired = std::ranges::count(pairs, b, &CutDims::value_type::second) > 0;
      const bool is_made_of_operand = std::ranges::any_of(of_operand, [&](const FactorList& dim) {
        return std::ranges::find_first_of(dim, of_result[At(b)]) != dim.end();
      });
      if (to->TileCount(b) > 1 && !is_paired && is_made_of_operand) return false;
    }
    return HaveSameTiles(*from, part.rank(), *to, result.rank(), pairs);
  }

  bool IsSameOperand(const Candidate& user, const Instruction& whole,
                     const Instruction& local) const {
    if (places_.contains(&whole)) {
      const Candidate* operand = HeldIn(whole, local, user);
      return operand != nullptr && SameSharding(operand->form->sharding, user.form->sharding);
    }
    if (whole.opcode() != local.opcode()) return false;
    const bool is_spread = whole.opcode() == Opcode::kBroadcast;
    const Instruction& scalar = is_spread ? *whole.operand(0) : whole;
    const Instruction& local_scalar = is_spread ? *local.operand(0) : local;
    if (!scalar.shape()->IsScalar()) return false;
    return HeldIn(scalar, local_scalar, user) != nullptr || SameConstant(scalar, local_scalar);
  }

  // What such operations make differs by roundings whatever their operands' roundings are.
  static bool IsSum(Opcode opcode) {
    return opcode == Opcode::kDot || opcode == Opcode::kConvolution || opcode == Opcode::kReduce ||
           opcode == Opcode::kReduceWindow;
  }

  // What anything but a chain or a sum wants is no inside of a chain.
  void FindUsers(const Computation& computation) {
    for (const Instruction* user : computation.instructions()) {
      std::vector<size_t> by;  // the candidates that it makes
      if (const auto place = places_.find(user); place != places_.end()) by = {place->second};
      if (const auto parts = elements_.find(user); parts != elements_.end()) by = parts->second;
      const bool goes_on = !by.empty() && std::ranges::all_of(by, [&](size_t i) {
        return is_same_step_[i] != 0 || IsSum(candidates_[i].x->opcode());
      });
      for (const Instruction* operand : user->operands()) {
        const auto used = places_.find(operand);
        if (used == places_.end()) continue;
        if (goes_on) {
          std::vector<size_t>& users = users_[used->second];
          users.insert(users.end(), by.begin(), by.end());
        } else {
          is_inside_[used->second] = 0;
        }
      }
    }
    const auto root = places_.find(computation.root());
    if (root != places_.end()) is_inside_[root->second] = 0;
  }

  std::span<const Candidate> candidates_;
  std::unordered_map<const Instruction*, size_t> places_;
  std::unordered_map<const Instruction*, std::vector<size_t>> elements_;  // by what makes several
  std::vector<uint8_t> is_same_step_, is_inside_;                         // by candidate
  std::vector<size_t> moved_from_;  // of a same move: the candidate; else none
  std::vector<size_t> copy_of_;     // what is looked at in its place, or none
  std::vector<std::vector<size_t>> users_;
};

}  // namespace

std::vector<Candidate> ChainEnds(std::span<const Candidate> candidates) {
  return ChainFinder(candidates).Run();
}

}  // namespace gshard::cpu
