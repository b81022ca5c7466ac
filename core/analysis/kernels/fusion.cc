// Cuts a computation into kernels, consumers first. See fusion.h.

#include "core/analysis/kernels/fusion.h"

#include <algorithm>
#include <span>
#include <unordered_map>
#include <utility>

#include "core/analysis/gradient_sums.h"
#include "core/analysis/kernels/aliases.h"
#include "core/analysis/kernels/copied_chains.h"
#include "core/analysis/kernels/copy_costs.h"
#include "core/analysis/kernels/eager_calls.h"
#include "core/analysis/kernels/evaluations.h"
#include "core/analysis/kernels/kernel_drafts.h"
#include "core/analysis/kernels/moved_values.h"
#include "core/analysis/kernels/roles.h"
#include "core/analysis/kernels/scaled_casts.h"
#include "ir/dims.h"
#include "ir/module.h"
#include "ir/op_traits.h"

namespace gshard {
namespace {

using Role = KernelRole;

// One iteration's rows of a loop's array that stacks them: autograd keeps the value itself.
bool IsRowOfStack(const Instruction* x) {
  if (x->opcode() != Opcode::kDynamicUpdateSlice) return false;
  const Instruction* stack = x->operand(0);
  return stack->opcode() == Opcode::kGetTupleElement &&
         stack->operand(0)->opcode() == Opcode::kParameter && stack->shape()->rank() > 1 &&
         IsRowOf(x->operand(1)->shape(), stack->shape());
}

bool IsNarrowingCast(const Instruction* x) {
  return x->opcode() == Opcode::kConvert &&
         x->shape()->byte_size() < x->operand(0)->shape()->byte_size();
}

// Changes layout or type only: products are written so in the first place.
bool IsLayoutChange(const Instruction* x) {
  return x->opcode() == Opcode::kTranspose || x->opcode() == Opcode::kConvert ||
         x->opcode() == Opcode::kCopy;
}

// A product of a vector and a matrix, or of two vectors, for each element of a batch.
bool IsVectorProduct(const Instruction& x) {
  if (x.opcode() != Opcode::kDot) return false;
  const auto& dims = x.attributes<DotAttributes>();
  const auto is_vector = [](const Shape* shape, Dims batch, Dims contracting) {
    int64_t elements = 1;
    for (const int64_t dim : FreeDims(shape->rank(), batch, contracting))
      elements *= shape->dim(dim);
    return elements == 1;
  };
  return !dims.lhs_batch.empty() && !dims.lhs_contracting.empty() &&
         (is_vector(x.operand(0)->shape(), dims.lhs_batch, dims.lhs_contracting) ||
          is_vector(x.operand(1)->shape(), dims.rhs_batch, dims.rhs_contracting));
}

}  // namespace

class FusionBuilder {
 public:
  FusionBuilder(const Computation& computation, const Users& users, const FusionOptions& options,
                FusionModel& model)
      : computation_(computation),
        users_(users),
        options_(options),
        model_(model),
        order_(PostOrder(computation)),
        drafts_(computation, order_, model.first_id_, model.members_, options.for_tpu),
        copy_costs_(drafts_, options.vector_operations_per_byte),
        evaluations_(users, drafts_) {}

  void Run() {
    if (model_.spared_ != nullptr) TakeAttention();
    for (const Instruction* x : order_) drafts_.kind(x) = KindOf(x);
    if (!options_.fuses_calls) calls_.emplace(order_);
    if (!options_.is_compiled && options_.copies_values && options_.fuses_calls) {
      (options_.for_tpu ? chains_ : chains_of_gpu_)
          .emplace(computation_, users_, model_.first_id_, drafts_.kinds(), drafts_.places(),
                   options_.fuses_row_statistics);
    }
    for (size_t i = order_.size(); i-- > 0;) Place(order_[i]);
    Finish();
  }

 private:
  static constexpr int32_t kOutside = KernelDrafts::kOutside;
  using KernelList = KernelDrafts::KernelList;
  using Values = std::vector<const Instruction*>;

  void TakeAttention() {
    model_.attention_ = &options_.attention->KernelsOf(computation_);
    for (size_t i = 0; i < model_.attention_->size(); ++i) {
      KernelDraft draft;
      draft.kernel.attention = static_cast<int>(i);
      draft.has_dot = true;
      draft.root_role = Role::kDot;
      const auto& members = (*model_.attention_)[i].members;
      draft.kernel.root = members.back();
      draft.elements = members.back()->shape()->element_count();
      const int32_t number = drafts_.Add(std::move(draft));
      for (size_t k = members.size(); k-- > 0;) drafts_.AddMember(number, members[k]);
    }
  }

  KernelKind KindOf(const Instruction* x) const {
    const Role role = model_.ComparesPositions(x)               ? Role::kElementwise
                      : options_.for_gpu && IsVectorProduct(*x) ? Role::kReduce
                                                                : KernelRoleOf(x);
    return {role, gshard::IsAlias(x, options_.is_compiled)};
  }
  bool IsAlias(const Instruction* x) const { return drafts_.kind(x).is_alias; }
  Role RoleHere(const Instruction* x) const { return drafts_.kind(x).role; }
  bool Updates(const Instruction* user, const Instruction* x) const {
    return RoleHere(user) == Role::kUpdate && IsUpdatedBy(user, x);
  }

  // The kernels that need x: of each user the kernels it is in. Valid until the next call.
  KernelList KernelsOfUsers(const Instruction* x) const {
    std::vector<int32_t>& kernels = of_users_;
    kernels.clear();
    auto add = [&](int32_t kernel) {
      if (kernels.empty() || kernels.back() < kernel) return kernels.push_back(kernel);
      auto at = std::lower_bound(kernels.begin(), kernels.end(), kernel);
      if (*at != kernel) kernels.insert(at, kernel);
    };
    if (x == computation_.root()) add(kOutside);
    for (const Instruction* user : users_.of(x)) {
      if (user->shape()->IsArray() && model_.IsSpared(user)) continue;
      const KernelList theirs = drafts_.KernelsOf(user);
      if (theirs.empty() || Updates(user, x)) add(kOutside);
      for (int32_t kernel : theirs) add(kernel);
    }
    if (kernels.empty() && !users_.of(x).empty()) add(kOutside);  // attention reads it
    return kernels;
  }

  void Place(const Instruction* x) {
    KernelMembership& member = drafts_.member(x);
    if (member.kernel >= 0) {
      member.is_fused = StaysInAttention(x, member.kernel);
      return;
    }
    if ((x->shape()->IsArray() && model_.IsSpared(x)) || IsOnHost(x)) return;
    const bool is_alias = IsAlias(x);
    const Role role = is_alias ? Role::kFree : RoleHere(x);
    if (role == Role::kBoundary) return;
    if (role == Role::kFree) {
      if (!is_alias) return;
      const KernelList kernels = KernelsOfUsers(x);
      if (kernels.empty() || kernels[0] == kOutside) return;
      for (const int32_t kernel : kernels) IsComputedTooOften(x, kernel);  // as its users are
      // In memory if its operand is; else part of what computes the operand.
      drafts_.SetKernels(x, kernels);
      return;
    }
    if (!options_.is_compiled && CanFuse(x, role)) return;
    if (JoinsAttention(x) || JoinsSibling(x) || JoinsReduce(x, role)) return;
    NewKernel(x, role);
  }

  // Is x on the host, or on its way from there?
  bool IsOnHost(const Instruction* x) const {
    if (options_.host == nullptr || options_.host->IsEmpty()) return false;
    return (x->shape()->IsArray() && options_.host->Has(x)) || options_.host->IsTransfer(x);
  }

  // Is a member's value needed by its attention kernel only? Others compute scores again.
  bool StaysInAttention(const Instruction* x, int32_t own) const {
    const auto users = users_.of(x);
    const bool is_for_spared_ones =
        x != computation_.root() && !users.empty() &&
        std::all_of(users.begin(), users.end(), [&](const Instruction* user) {
          return user->shape()->IsArray() && model_.IsSpared(user);
        });
    if (is_for_spared_ones) return true;  // scores on their way to a stack that nobody reads
    const KernelList kernels = KernelsOfUsers(x);
    if (kernels.size() == 1 && kernels[0] == own) return true;
    return !kernels.empty() && std::all_of(kernels.begin(), kernels.end(), [&](int32_t kernel) {
      if (kernel == kOutside) return false;
      const int attention = drafts_[kernel].kernel.attention;
      return attention >= 0 && x->shape()->IsArray() &&
             (*model_.attention_)[static_cast<size_t>(attention)].HasScores(*x->shape());
    });
  }

  // A layout change of what an attention kernel makes, for nobody else, is a result of that kernel.
  bool JoinsAttention(const Instruction* x) {
    if (model_.attention_ == nullptr || !options_.fuses_movement || !IsLayoutChange(x))
      return false;
    const Instruction* source = x->operand(0);
    while (users_.of(source).size() == 1 && (IsLayoutChange(source) || IsAlias(source))) {
      source = source->operand(0);
    }
    const int32_t kernel = drafts_.member(source).kernel;
    if (kernel < 0 || users_.of(source).size() != 1) return false;
    if (drafts_[kernel].kernel.attention < 0) return false;
    drafts_.AddMember(kernel, x);
    return true;
  }

  // Is x made with its operands, or left where they are?
  bool IsFree(const Instruction* x) const {
    if (options_.is_compiled) return false;
    return (!options_.copies_into_stacks && IsRowOfStack(x)) ||
           (options_.casts_in_producers && (IsLargestMagnitude(x) || IsCastByKnownScale(x))) ||
           (options_.sums_in_products && IsSumWithProduct(x));
  }

  // Do the kernels of x's users launch with x in them, where each call is one?
  bool MayJoinCalls(const Instruction* x, Role role) const {
    if (options_.fuses_calls || role != Role::kElementwise) return true;
    std::vector<const Instruction*> made = {x};  // x under other names
    for (size_t i = 0; i < made.size(); ++i) {
      for (const Instruction* user : users_.of(made[i])) {
        if (IsAlias(user)) {
          made.push_back(user);
        } else if (!calls_->AreOne(*x, *user)) {
          return false;
        }
      }
    }
    return true;
  }

  // Fuses x into the kernels of its users if they take it.
  bool CanFuse(const Instruction* x, Role role) {
    if (!x->shape()->IsArray() || !MayJoinCalls(x, role)) return false;
    if (options_.for_tpu && (IsMovedAlone(*x) || IsReadFromMemory(x, role))) return false;
    const KernelList kernels = KernelsOfUsers(x);
    if (kernels.empty()) return false;
    if (kernels[0] == kOutside) return JoinsReader(x, role, kernels);
    const bool is_statistic = IsStatisticOf(x, kernels);
    for (int32_t kernel : kernels) {
      if (!is_statistic && !Accepts(drafts_[kernel], x, role)) return false;
    }
    if (kernels.size() > 1 && !IsWorthCopying(x, role, kernels)) {
      const bool is_with_dot =
          IsWrittenByDot(x, role) ||
          (chains_ && options_.products_have_row_statistics && chains_->EndsRowStatistic(x));
      return !is_with_dot && JoinsFirstUser(x, role, kernels);
    }
    const bool is_apart =
        (IsNarrowingCast(x) && IsWrittenByDot(x, role)) || HasTooLongRows(x, kernels);
    if (kernels.size() == 1 && is_apart) return false;
    const bool is_too_often =
        role != Role::kCheap &&
        std::ranges::any_of(kernels, [&](int32_t kernel) { return IsComputedTooOften(x, kernel); });
    if (is_too_often) return false;
    KernelMembership& member = drafts_.member(x);
    member.kernel = kernels[0];
    member.is_fused = true;
    for (size_t i = 0; i < kernels.size(); ++i) {
      KernelDraft& draft = drafts_[kernels[i]];
      draft.has_dot = draft.has_dot || role == Role::kDot;
      draft.has_movement = draft.has_movement || (role == Role::kMovement && !IsSmallIn(x, draft) &&
                                                  !IsLayoutOfProduct(x));
      draft.has_row_statistic = draft.has_row_statistic || is_statistic;
      draft.changes_layout_only = draft.changes_layout_only && IsLayoutChange(x);
      (i == 0 ? draft.kernel.members : draft.kernel.copies).push_back(x);
    }
    drafts_.SetKernels(x, kernels);
    return true;
  }

  // Would a GPU's kernel compute x for more of the positions at which it needs it than XLA's does?
  bool IsComputedTooOften(const Instruction* x, int32_t kernel) {
    return !options_.for_tpu && drafts_[kernel].has_movement && evaluations_.AreTooMany(kernel, x);
  }

  // Is x a product with its dims in another order? A TPU's kernel writes it so, and computes with
  // it as with the product itself: JAX transposes the gradients of weights.
  bool IsLayoutOfProduct(const Instruction* x) const {
    if (!options_.for_tpu || x->opcode() != Opcode::kTranspose) return false;
    while (IsLayoutChange(x) && users_.of(x->operand(0)).size() == 1) x = x->operand(0);
    return RoleHere(x) == Role::kDot;
  }

  // Is x read as it is, as a row of biases?
  static bool IsSmallIn(const Instruction* x, const KernelDraft& draft) {
    return draft.root_role != Role::kUpdate && 8 * x->shape()->element_count() <= draft.elements;
  }

  bool IsReadFromMemory(const Instruction* x, Role role) const {
    return role != Role::kCheap && std::ranges::any_of(users_.of(x), [&](const Instruction* user) {
             const bool is_gathered = options_.gathers_from_memory &&
                                      user->opcode() == Opcode::kGather && user->operand(0) == x;
             return is_gathered || gshard::IsReadFromMemory(x, user, users_);
           });
  }

  // Is x a row statistic that its only kernel computes beside what it goes into?
  bool IsStatisticOf(const Instruction* x, KernelList kernels) const {
    if (!chains_ || kernels.size() != 1 || !chains_->IsRowStatistic(x)) return false;
    const KernelDraft& draft = drafts_[kernels[0]];
    return !draft.has_dot && !draft.kernel.is_free &&
           (draft.root_role == Role::kReduce || draft.root_role == Role::kElementwise);
  }

  // Are the rows of x, of which a kernel takes a statistic and computes with the elements, too long
  // to be made there?
  bool HasTooLongRows(const Instruction* x, KernelList kernels) const {
    return chains_ && !options_.products_have_row_statistics && kernels[0] != kOutside &&
           drafts_[kernels[0]].has_row_statistic && chains_->HasTooLongRows(x);
  }

  // Is x the end of an elementwise chain over a dot's elements that no one else reads? The dot's
  // kernel can write it then.
  bool IsWrittenByDot(const Instruction* x, Role role) const {
    if (!chains_ || role != Role::kElementwise) return false;
    CopiedChain chain;
    return chains_->Find(x, true, chain) && chain.product != nullptr;
  }

  // Is x a sum of AddsReceived that another kernel of such operations reads, too?
  bool IsResidual(const Instruction* x, KernelList kernels) const {
    return AddsReceived(x) && std::ranges::any_of(kernels, [&](int32_t kernel) {
             const KernelDraft& draft = drafts_[kernel];
             return !draft.has_dot && draft.root_role == Role::kElementwise;
           });
  }

  // Does each kernel compute x, rather than that one writes it and all read it?
  bool IsWorthCopying(const Instruction* x, Role role, KernelList kernels) {
    if (role == Role::kCheap) return true;
    if (!options_.copies_values || role == Role::kDot || role == Role::kReduce) return false;
    if (!chains_ || role != Role::kElementwise) {
      return copy_costs_.ReadsNoMore(x, role) || (role == Role::kElementwise && IsMadeOfNoMore(x));
    }
    if (chains_->EndsRowStatistic(x) || IsResidual(x, kernels)) return false;
    CopiedChain chain;
    for (const bool is_private : {true, false}) {
      if (!chains_->Find(x, is_private, chain)) continue;
      const CopyCost cost = copy_costs_.Of(x, chain, kernels);
      const bool is_tie_apart = chain.product != nullptr && users_.of(chain.product).size() == 1;
      if (is_tie_apart ? cost.together < cost.apart : cost.together <= cost.apart) return true;
    }
    return chains_->StartsNarrower(x);
  }

  // Is x a narrow form of what a chain makes of no more bytes than x has, in no time?
  bool IsMadeOfNoMore(const Instruction* x) const {
    CopiedChain chain;
    const int64_t made = x->shape()->byte_size();
    return IsNarrowingCast(x) && chains_of_gpu_ && chains_of_gpu_->Find(x, false, chain) &&
           !chain.is_slow && chain.source_bytes <= made + made / 8;
  }

  // A value of several kernels that is to be in memory is written by the first of them, which
  // computes it anyway: an output beside its own.
  bool JoinsFirstUser(const Instruction* x, Role role, KernelList kernels) {
    if (!options_.copies_values) return false;
    if (role != Role::kElementwise) return false;
    const int32_t first = kernels.back();
    KernelDraft& draft = drafts_[first];
    const Instruction* root = draft.kernel.root;
    const bool is_reduce = draft.root_role == Role::kReduce && root->opcode() == Opcode::kReduce;
    if (draft.has_dot || (!is_reduce && draft.root_role != Role::kElementwise)) return false;
    const Shape* work = is_reduce ? root->operand(0)->shape() : root->shape();
    if (!work->IsArray() || work->element_count() != x->shape()->element_count()) return false;
    // The others read what it writes: it must not wait for them.
    return MakesToo(first, x, kernels);
  }

  // A product, or the end of the chain behind it, whose first reader sums its elements up, on TPUs:
  // one kernel makes both.
  bool JoinsReduce(const Instruction* x, Role role) {
    if (!chains_ || !(role == Role::kDot || IsWrittenByDot(x, role))) return false;
    const KernelList kernels = KernelsOfUsers(x);
    if (kernels.size() < 2 || kernels[0] == kOutside) return false;
    const int32_t first = kernels.back();
    KernelDraft& draft = drafts_[first];
    return IsReduceOf(draft, x) && !draft.has_row_statistic && MakesToo(first, x, kernels);
  }

  // Does the kernel sum up as many elements as x has?
  static bool IsReduceOf(const KernelDraft& draft, const Instruction* x) {
    const Instruction* root = draft.kernel.root;
    return draft.root_role == Role::kReduce && root->opcode() == Opcode::kReduce &&
           !draft.has_dot && !draft.kernel.is_free && draft.kernel.attention < 0 &&
           root->operand(0)->shape()->element_count() == x->shape()->element_count();
  }

  // Makes x a second output of the kernel, unless that waits for others of `kernels`, which read x.
  bool MakesToo(int32_t kernel, const Instruction* x, KernelList kernels) {
    const auto is_reader = [&](const Instruction* operand) {
      const KernelMembership& member = drafts_.member(operand);
      return member.kernel >= 0 && member.kernel != kernel &&
             !(options_.for_tpu && member.is_fused) &&
             std::ranges::find(kernels, member.kernel) != kernels.end();
    };
    if (drafts_.NeedsAny(kernel, x, is_reader)) return false;
    KernelDraft& draft = drafts_[kernel];
    draft.has_dot = draft.has_dot || RoleHere(x) == Role::kDot;
    drafts_.AddMember(kernel, x);
    return true;
  }

  // What is to be in memory anyway, a result or what a collective sends, is written by the first
  // kernel that computes with it, too: Adam's moments and parameters are one kernel.
  bool JoinsReader(const Instruction* x, Role role, KernelList kernels) {
    if (!options_.fuses_calls || kernels.size() < 2) return false;
    for (const Instruction* user : users_.of(x)) {
      const bool is_outside = drafts_.KernelsOf(user).empty() || Updates(user, x);
      if (is_outside && drafts_.Needs(kernels.back(), user)) return false;
    }
    return JoinsFirstUser(x, role, kernels);
  }

  // Over the same dims of arrays of the same shape?
  static bool ReducesAlike(const Instruction* a, const Instruction* b) {
    return std::ranges::equal(a->attributes<DimensionsAttributes>().dimensions,
                              b->attributes<DimensionsAttributes>().dimensions) &&
           std::ranges::equal(a->operand(0)->shape()->dims(), b->operand(0)->shape()->dims());
  }

  // The arrays that a reduce's operand is computed from elementwise, each of its size: what the
  // kernel reads. Stops at values that are worth keeping apart. Valid until the next call.
  const Values& SourcesOf(const Instruction* reduce) const {
    constexpr size_t kMax = 32;
    Values &sources = source_values_, &pending = open_values_, &seen = seen_values_;
    sources.clear();
    pending.assign(1, reduce->operand(0));
    seen.clear();
    const int64_t elements = reduce->operand(0)->shape()->element_count();
    while (!pending.empty() && seen.size() < kMax) {
      const Instruction* x = pending.back();
      pending.pop_back();
      if (std::find(seen.begin(), seen.end(), x) != seen.end()) continue;
      seen.push_back(x);
      if (x->shape()->element_count() != elements) continue;
      const bool is_computed = IsElementwise(x->opcode()) || x->opcode() == Opcode::kReshape ||
                               x->opcode() == Opcode::kBitcast;
      if (is_computed) {
        for (const Instruction* operand : x->operands()) pending.push_back(operand);
      } else if (x->opcode() != Opcode::kBroadcast && x->opcode() != Opcode::kIota &&
                 x->opcode() != Opcode::kConstant) {
        sources.push_back(x);
      }
    }
    return sources;
  }

  // A reduce of what a later one reads, too, over the same dims, is its second output.
  bool JoinsSibling(const Instruction* x) {
    if (x->opcode() != Opcode::kReduce || options_.is_compiled) return false;
    const Values& sources = SourcesOf(x);
    std::vector<int32_t> refused;  // found by many of its reduces, of each of the sources
    for (const Instruction* source : sources) {
      auto known = reduces_of_.find(source);
      if (known == reduces_of_.end()) continue;
      for (const Instruction* other : known->second) {
        const int32_t kernel = drafts_.member(other).kernel;
        if (kernel < 0 || drafts_[kernel].has_dot || !ReducesAlike(other, x) ||
            std::ranges::find(refused, kernel) != refused.end()) {
          continue;
        }
        if (drafts_.Needs(kernel, x)) {
          refused.push_back(kernel);
          continue;
        }
        drafts_.AddMember(kernel, x);
        return true;
      }
    }
    for (const Instruction* source : sources) reduces_of_[source].push_back(x);
    return false;
  }

  // May the kernel compute x, an operand of one of its members?
  bool Accepts(const KernelDraft& draft, const Instruction* x, Role role) const {
    if (draft.kernel.is_free) {
      // The sum's rows are read where they lie.
      if (x->opcode() == Opcode::kDynamicSlice) return IsSumWithProduct(draft.kernel.root);
      return role == Role::kCheap || (role == Role::kElementwise && users_.of(x).size() == 1 &&
                                      draft.root_role != Role::kUpdate);
    }
    if (role == Role::kMovement && !options_.fuses_movement) return false;
    if (options_.for_tpu && draft.kernel.root->opcode() == Opcode::kScatter &&
        draft.root_role == Role::kUpdate) {
      return role == Role::kCheap;
    }
    switch (draft.root_role) {
      case Role::kElementwise:
      case Role::kMovement:
      case Role::kReduce:
      case Role::kUpdate:
        if (draft.has_dot) return AcceptsIntoDot(draft, x, role);
        if (role == Role::kDot) return AcceptsDot(draft, x);
        return role == Role::kCheap || role == Role::kElementwise || role == Role::kMovement;
      case Role::kDot:
        return AcceptsIntoDot(draft, x, role);
      default:
        return false;
    }
  }

  // What follows a dot runs in its kernel if it is one elementwise chain over the dot's elements,
  // or a change of layout.
  bool AcceptsDot(const KernelDraft& draft, const Instruction* x) const {
    if (draft.has_row_statistic && !options_.products_have_row_statistics) return false;
    if (chains_ && IsReduceOf(draft, x)) return !draft.has_movement;
    if (draft.root_role != Role::kUpdate && draft.elements != x->shape()->element_count()) {
      return false;
    }
    if (draft.changes_layout_only) return options_.fuses_movement;
    return options_.for_tpu && draft.root_role != Role::kReduce &&
           draft.root_role != Role::kMovement && !draft.has_movement;
  }

  bool AcceptsIntoDot(const KernelDraft& draft, const Instruction* x, Role role) const {
    if (role == Role::kCheap) return true;
    // Attention kernels make masks out of positions themselves.
    if (draft.kernel.attention >= 0 && role == Role::kElementwise &&
        !IsFloat(x->shape()->dtype())) {
      return true;
    }
    if (role == Role::kMovement) {
      return x->opcode() == Opcode::kTranspose || x->opcode() == Opcode::kSlice ||
             x->opcode() == Opcode::kDynamicSlice || options_.for_tpu;
    }
    // Libraries widen operands as they load them; what they multiply narrower is written so.
    return role == Role::kElementwise &&
           (options_.for_tpu || (x->opcode() == Opcode::kConvert && !IsNarrowingCast(x)));
  }

  void NewKernel(const Instruction* x, Role role) {
    KernelDraft draft;
    draft.kernel.root = x;
    draft.kernel.members.reserve(4);
    draft.kernel.is_free = IsFree(x);
    draft.root_role = role == Role::kCheap ? Role::kElementwise : role;
    draft.has_dot = role == Role::kDot;
    draft.changes_layout_only = IsLayoutChange(x);
    draft.elements = x->shape()->element_count();
    drafts_.AddMember(drafts_.Add(std::move(draft)), x);
  }

  // Kernels in the order of their roots, members in text order.
  void Finish() {
    std::vector<int32_t> number(static_cast<size_t>(drafts_.count()), -1);
    std::span<Instruction* const> list = computation_.instructions();
    for (const Instruction* x : list) {
      int32_t kernel = drafts_.member(x).kernel;
      if (kernel < 0) continue;
      KernelDraft& draft = drafts_[kernel];
      if (draft.kernel.root != x) continue;
      number[static_cast<size_t>(kernel)] = static_cast<int32_t>(model_.kernels_.size());
      std::reverse(draft.kernel.members.begin(), draft.kernel.members.end());
      std::reverse(draft.kernel.copies.begin(), draft.kernel.copies.end());
      model_.kernels_.push_back(std::move(draft.kernel));
    }
    for (const Instruction* x : list) {
      KernelMembership& member = drafts_.member(x);
      // Of a kernel of attention, and read by others: a value of its own.
      const bool leaves_attention = member.kernel >= 0 && !member.is_fused;
      if (member.kernel >= 0) member.kernel = number[static_cast<size_t>(member.kernel)];
      if (!IsAlias(x)) continue;
      // A reshape of a fused value has no memory of its own either.
      const KernelMembership& of = drafts_.member(x->operand(0));
      member.is_fused = of.is_fused && !leaves_attention && !drafts_.KernelsOf(x).empty();
    }
    for (FusionKernel& kernel : model_.kernels_) {
      if (kernel.attention < 0) continue;
      // Producers taken in after the recogniser stand between its members in the text.
      std::sort(kernel.members.begin(), kernel.members.end(),
                [&](const Instruction* a, const Instruction* b) {
                  return drafts_.place(a) < drafts_.place(b);
                });
    }
  }

  const Computation& computation_;
  const Users& users_;
  const FusionOptions& options_;
  FusionModel& model_;
  // Not the text's order: that of a program's lines says nothing of its kernels.
  std::vector<Instruction*> order_;
  KernelDrafts drafts_;
  CopyCosts copy_costs_;
  Evaluations evaluations_;
  std::optional<EagerCalls> calls_;
  std::optional<CopiedChains> chains_, chains_of_gpu_;
  std::unordered_map<const Instruction*, std::vector<const Instruction*>>
      reduces_of_;                                            // of sources
  mutable std::vector<int32_t> of_users_;                     // memory of KernelsOfUsers
  mutable Values open_values_, seen_values_, source_values_;  // memory of walks over operands
};

FusionModel::FusionModel(const Computation& computation, const Users& users,
                         const FusionOptions& options) {
  is_compiled_ = options.is_compiled;
  for_tpu_ = options.for_tpu;
  spared_ = options.is_compiled ? nullptr : options.attention;
  uint32_t last = 0;
  first_id_ = UINT32_MAX;
  for (const Instruction* instruction : computation.instructions()) {
    first_id_ = std::min(first_id_, instruction->id());
    last = std::max(last, instruction->id());
  }
  if (first_id_ > last) return;
  members_.resize(last - first_id_ + 1);
  FusionBuilder(computation, users, options, *this).Run();
}

// As gradients of what takes one element of each row do.
bool FusionModel::ComparesPositions(const Instruction* x) const {
  if (!for_tpu_ || x->opcode() != Opcode::kScatter || !x->shape()->IsArray()) return false;
  const Instruction* array = x->operand(0);
  if (array->opcode() != Opcode::kBroadcast || array->operand(0)->shape()->rank() != 0)
    return false;
  const auto& scatter = x->attributes<ScatterAttributes>();
  if (!scatter.update_window_dims.empty()) return false;
  int64_t rows = 1;
  for (const int64_t dim : scatter.input_batching_dims) rows *= x->shape()->dim(dim);
  return x->operand(2)->shape()->element_count() == rows;
}

std::vector<const Instruction*> FusionModel::Inputs(const Instruction* instruction) const {
  std::vector<const Instruction*> inputs,
      pending(instruction->operands().begin(), instruction->operands().end());
  std::vector<const Instruction*> seen;
  while (!pending.empty()) {
    const Instruction* value = pending.back();
    pending.pop_back();
    if (std::find(seen.begin(), seen.end(), value) != seen.end()) continue;
    seen.push_back(value);
    if (IsFused(value)) {
      pending.insert(pending.end(), value->operands().begin(), value->operands().end());
    } else {
      inputs.push_back(value);
    }
  }
  return inputs;
}

}  // namespace gshard
