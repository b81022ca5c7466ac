#include "core/analysis/kernels/kernel_drafts.h"

#include <algorithm>

namespace gshard {

KernelDrafts::KernelDrafts(const Computation& computation, std::span<Instruction* const> order,
                           uint32_t first_id, std::span<KernelMembership> members, bool for_tpu)
    : computation_(computation),
      first_id_(first_id),
      members_(members),
      for_tpu_(for_tpu),
      kinds_(members.size()),
      places_(members.size()),
      kernels_of_(members.size()),
      seen_(members.size()) {
  lists_.reserve(2 * members.size());
  drafts_.reserve(members.size() / 4);
  for (size_t i = 0; i < order.size(); ++i) places_[Index(order[i])] = i;
}

// Where searches take longer than making the tree of dependences, that answers first.
bool KernelDrafts::Needs(int32_t kernel, const Instruction* x) {
  if (!tree_ && visited_in_all_ > places_.size()) tree_.emplace(computation_);
  const bool is_below =
      tree_ && std::ranges::any_of((*this)[kernel].kernel.members, [&](const Instruction* member) {
        return member != x && tree_->IsBelow(member, x);
      });
  return is_below || NeedsAny(kernel, x, [&](const Instruction* operand) { return operand == x; });
}

void KernelDrafts::UpdateReads(int32_t kernel) {
  const auto is_computed = [&](const Instruction* x) {
    const KernelList theirs = KernelsOf(x);
    return std::ranges::find(theirs, kernel) != theirs.end();
  };
  const auto update = [&](const std::vector<const Instruction*>& all, KernelReads& reads) {
    for (; reads.count < all.size(); ++reads.count) {
      for (const Instruction* operand : all[reads.count]->operands()) {
        const Shape* shape = operand->shape();
        if (shape->IsArray() && shape->rank() > 0) reads.arrays.push_back(operand);
      }
    }
    std::erase_if(reads.arrays, is_computed);
  };
  KernelDraft& draft = (*this)[kernel];
  update(draft.kernel.members, draft.of_members);
  update(draft.kernel.copies, draft.of_copies);
}

bool KernelDrafts::VisitMembers(int32_t kernel, size_t begin) {
  KernelDraft& draft = (*this)[kernel];
  if (begin < draft.too_many_from) return false;
  if (draft.search == search_) return true;
  draft.search = search_;
  for (const auto* list : {&draft.kernel.members, &draft.kernel.copies}) {
    for (const Instruction* member : *list) {
      Visit(member);
      pending_.push_back(member);
    }
  }
  return true;
}

}  // namespace gshard
