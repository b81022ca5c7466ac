// Kernels while the fusion model (fusion.h) puts them together: what each has taken in so far,
// which of them compute a value, and whether one waits for another.
#ifndef GSHARD_CORE_ANALYSIS_KERNELS_KERNEL_DRAFTS_H_
#define GSHARD_CORE_ANALYSIS_KERNELS_KERNEL_DRAFTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/analysis/attention/dependence_tree.h"
#include "core/analysis/kernels/fusion.h"
#include "core/analysis/kernels/roles.h"
#include "ir/computation.h"

namespace gshard {

// The arrays that instructions of a kernel, to which more are added, read but the kernel does not
// compute: those of the first `count` of them.
struct KernelReads {
  std::vector<const Instruction*> arrays;
  size_t count = 0;
};

struct KernelDraft {
  FusionKernel kernel;
  KernelReads of_members, of_copies;  // as KernelDrafts::UpdateReads leaves them
  KernelRole root_role = KernelRole::kOpaque;
  bool has_dot = false, has_movement = false, has_row_statistic = false;
  int search = 0;  // that came to it last
  // A search from this kernel that began at this place found more than it may visit, so one that
  // begins before it would, too.
  size_t too_many_from = 0;
  bool changes_layout_only = false;
  int64_t elements = 0;  // of the root
};

// Not thread-safe.
class KernelDrafts {
 public:
  using KernelList = std::span<const int32_t>;  // ascending, each once; kOutside: in memory
  static constexpr int32_t kOutside = -1;

  // `order`: the computation's instructions in an order of execution; `first_id`: the least of
  // their ids, from which on `members` are counted. The computation and `members` live as long as
  // this. `for_tpu`: what is fused is computed where it is needed, whichever kernel has it.
  KernelDrafts(const Computation& computation, std::span<Instruction* const> order,
               uint32_t first_id, std::span<KernelMembership> members, bool for_tpu);

  int32_t count() const { return static_cast<int32_t>(drafts_.size()); }
  KernelDraft& operator[](int32_t kernel) { return drafts_[static_cast<size_t>(kernel)]; }
  const KernelDraft& operator[](int32_t kernel) const {
    return drafts_[static_cast<size_t>(kernel)];
  }
  // Returns its number.
  int32_t Add(KernelDraft draft) {
    drafts_.push_back(std::move(draft));
    return count() - 1;
  }
  // Makes x a member of a kernel, which alone computes it.
  void AddMember(int32_t kernel, const Instruction* x) {
    member(x).kernel = kernel;
    (*this)[kernel].kernel.members.push_back(x);
    SetKernels(x, kernel);
  }

  KernelMembership& member(const Instruction* x) const { return members_[Index(x)]; }
  KernelKind& kind(const Instruction* x) { return kinds_[Index(x)]; }
  const KernelKind& kind(const Instruction* x) const { return kinds_[Index(x)]; }
  size_t place(const Instruction* x) const { return places_[Index(x)]; }
  std::span<const KernelKind> kinds() const { return kinds_; }  // by id from the first on
  std::span<const size_t> places() const { return places_; }    // in the order, likewise

  // The kernels that compute x; empty: none.
  KernelList KernelsOf(const Instruction* x) const {
    const Range& range = kernels_of_[Index(x)];
    return {lists_.data() + range.begin, range.size};
  }
  void SetKernels(const Instruction* x, KernelList kernels) {
    kernels_of_[Index(x)] = {lists_.size(), kernels.size()};
    for (const int32_t kernel : kernels) lists_.push_back(kernel);
  }
  void SetKernels(const Instruction* x, int32_t kernel) { SetKernels(x, KernelList(&kernel, 1)); }
  // Brings the kernel's of_members and of_copies up to date.
  void UpdateReads(int32_t kernel);

  // Does the kernel need x, through all that other kernels need for their results? Nothing found
  // within a bound counts as yes.
  bool Needs(int32_t kernel, const Instruction* x);
  // Does it need something `is_wanted`? What is wanted stands behind `first`.
  template <typename IsWanted>
  bool NeedsAny(int32_t kernel, const Instruction* first, IsWanted is_wanted) {
    constexpr int kMaxVisited = 4000;
    const size_t begin = place(first);
    StartSearch();
    pending_.clear();
    if (!VisitMembers(kernel, begin)) return true;
    for (int visited = 0; !pending_.empty(); ++visited, ++visited_in_all_) {
      if (visited > kMaxVisited) {
        (*this)[kernel].too_many_from = begin;
        return true;
      }
      const Instruction* value = pending_.back();
      pending_.pop_back();
      for (const Instruction* operand : value->operands()) {
        if (is_wanted(operand)) return true;
        if (place(operand) < begin || !Visit(operand)) continue;
        pending_.push_back(operand);
        const KernelMembership& of = member(operand);
        const int32_t makes_it = for_tpu_ && of.is_fused ? -1 : of.kernel;
        if (makes_it >= 0 && !VisitMembers(makes_it, begin)) {
          (*this)[kernel].too_many_from = begin;
          return true;
        }
      }
    }
    return false;
  }

  // From here on no value has been visited.
  void StartSearch() { ++search_; }
  // False: x was visited in this search.
  bool Visit(const Instruction* x) {
    int& last = seen_[Index(x)];
    if (last == search_) return false;
    last = search_;
    return true;
  }

 private:
  struct Range {
    size_t begin = 0, size = 0;  // in lists_
  };
  size_t Index(const Instruction* x) const { return x->id() - first_id_; }
  // A kernel runs when all that its members need is there. Returns false if that is known to be
  // more than a search that begins at that place may visit.
  bool VisitMembers(int32_t kernel, size_t begin);

  const Computation& computation_;
  uint32_t first_id_;
  std::span<KernelMembership> members_;
  bool for_tpu_;
  std::vector<KernelDraft> drafts_;
  std::vector<KernelKind> kinds_;  // by index
  std::vector<size_t> places_;     // by index
  std::vector<Range> kernels_of_;  // by index: of each instruction, that compute it
  std::vector<int32_t> lists_;     // of all instructions, one after the other
  std::vector<int> seen_;          // by index: the last search that came by
  int search_ = 0;
  size_t visited_in_all_ = 0;  // by searches
  std::vector<const Instruction*> pending_;
  std::optional<DependenceTree> tree_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_KERNELS_KERNEL_DRAFTS_H_
