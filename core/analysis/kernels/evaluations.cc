// See evaluations.h.

#include "core/analysis/kernels/evaluations.h"

#include <algorithm>
#include <utility>

namespace gshard {

const Evaluations::Needs* Evaluations::Find(int32_t kernel, const Instruction* x) const {
  const auto of_kernel = needs_.find(kernel);
  if (of_kernel == needs_.end()) return nullptr;
  const auto known = of_kernel->second.find(x);
  return known == of_kernel->second.end() ? nullptr : &known->second;
}

void Evaluations::Add(int32_t kernel, const Instruction* of, Needs& needs) const {
  if (std::ranges::find(needs.of, of) != needs.of.end()) return;
  needs.of.push_back(of);
  const Needs* own = of == nullptr ? nullptr : Find(kernel, of);
  needs.count += own == nullptr ? 1 : own->count;
}

bool Evaluations::AreTooMany(int32_t kernel, const Instruction* x) {
  Needs needs;
  for (const Instruction* user : users_.of(x)) {
    const KernelDrafts::KernelList theirs = drafts_.KernelsOf(user);
    if (std::ranges::find(theirs, kernel) == theirs.end()) continue;
    const Needs* of_user = Find(kernel, user);
    if (drafts_.kind(user).role == KernelRole::kMovement) {
      Add(kernel, user, needs);
    } else if (of_user == nullptr) {
      Add(kernel, nullptr, needs);
    } else {
      for (const Instruction* of : of_user->of) Add(kernel, of, needs);
    }
    if (needs.count > kMax) return true;
  }
  const bool is_once = needs.of.size() == 1 && needs.of[0] == nullptr;
  if (!needs.of.empty() && !is_once) needs_[kernel].insert_or_assign(x, std::move(needs));
  return false;
}

}  // namespace gshard
