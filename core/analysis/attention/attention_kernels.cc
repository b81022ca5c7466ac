// Grows and checks attention regions. See attention_kernels.h.

#include "core/analysis/attention/attention_kernels.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "core/analysis/attention/dependence_tree.h"
#include "ir/module.h"
#include "ir/op_traits.h"

namespace gshard {
namespace {

bool IsBatchedDot(const Instruction* x) {
  return x->opcode() == Opcode::kDot && !x->attributes<DotAttributes>().lhs_batch.empty();
}

// Moves or reinterprets elements, each once.
bool KeepsElements(const Instruction* x) {
  const Opcode opcode = x->opcode();
  return x->shape()->IsArray() &&
         (IsElementwise(opcode) || KeepsOrder(opcode) || opcode == Opcode::kTranspose);
}

double Contracted(const Instruction* dot) {
  double contracted = 1;
  for (int64_t dim : dot->attributes<DotAttributes>().lhs_contracting) {
    contracted *= static_cast<double>(dot->operand(0)->shape()->dim(dim));
  }
  return contracted;
}

double DotFlops(const Instruction* dot) {
  return 2 * Contracted(dot) * static_cast<double>(dot->shape()->element_count());
}

// One value for each of several elements of `x`, which a broadcast repeats.
bool RepeatsRows(const Instruction* x) {
  while (KeepsOrder(x->opcode()) || x->opcode() == Opcode::kConvert) x = x->operand(0);
  if (x->opcode() != Opcode::kBroadcast) return false;
  const int64_t rows = x->operand(0)->shape()->element_count();
  return rows > 1 && rows < x->shape()->element_count();
}

// One value for all rows of a head, say: a learned sink, to which each row may attend.
bool IsSpread(const Instruction* x) {
  while (KeepsOrder(x->opcode()) || x->opcode() == Opcode::kConvert) x = x->operand(0);
  return x->opcode() == Opcode::kBroadcast &&
         x->operand(0)->shape()->element_count() < x->shape()->element_count();
}

// exp(scores - statistics of rows), as a softmax has it; exp(-x) of a sigmoid is none.
bool IsExponentialOfDifference(const Instruction* x) {
  if (x->opcode() != Opcode::kExponential) return false;
  x = x->operand(0);
  while (x->opcode() == Opcode::kConvert || KeepsOrder(x->opcode())) x = x->operand(0);
  return x->opcode() == Opcode::kSubtract && RepeatsRows(x->operand(1));
}

// What a loop carries, or what a branch is given.
bool IsCarried(const Instruction* x) {
  return x->opcode() == Opcode::kGetTupleElement && x->operand(0)->opcode() == Opcode::kParameter;
}

// Where masks that are spread over the scores are saved, for the backward pass. All layers may have
// one mask, so its users are looked through once.
class MaskStores {
 public:
  explicit MaskStores(const Users& users) : users_(users) {}

  const std::vector<const Instruction*>& Of(const Instruction* mask) {
    const auto [known, is_new] = stores_.try_emplace(mask);
    if (is_new) Add(mask, mask->shape()->element_count(), known->second);
    return known->second;
  }

 private:
  void Add(const Instruction* x, int64_t elements, std::vector<const Instruction*>& stores) const {
    for (const Instruction* user : users_.of(x)) {
      const Opcode opcode = user->opcode();
      if (opcode == Opcode::kDynamicUpdateSlice && user->operand(1) == x) {
        stores.push_back(user);
      } else if ((opcode == Opcode::kReshape || opcode == Opcode::kBitcast ||
                  opcode == Opcode::kBroadcast) &&
                 user->shape()->element_count() == elements) {
        Add(user, elements, stores);
      }
    }
  }

  const Users& users_;
  std::unordered_map<const Instruction*, std::vector<const Instruction*>> stores_;
};

// Sets of instructions of one computation, made and emptied often.
class InstructionSet {
 public:
  explicit InstructionSet(const Computation& computation) {
    uint32_t last = 0;
    for (const Instruction* x : computation.instructions()) {
      first_id_ = std::min(first_id_, x->id());
      last = std::max(last, x->id());
    }
    if (first_id_ <= last) is_in_.resize(last - first_id_ + 1);
  }
  void Clear() {
    for (const Instruction* x : list_) is_in_[x->id() - first_id_] = false;
    list_.clear();
  }
  bool Has(const Instruction* x) const { return is_in_[x->id() - first_id_] != 0; }
  // False: it is there already.
  bool Add(const Instruction* x) {
    if (Has(x)) return false;
    is_in_[x->id() - first_id_] = true;
    list_.push_back(x);
    return true;
  }
  const std::vector<const Instruction*>& list() const { return list_; }

 private:
  uint32_t first_id_ = UINT32_MAX;
  std::vector<uint8_t> is_in_;  // by id
  std::vector<const Instruction*> list_;
};

// May statistics of rows be joined with others that are given, as attention over one block of
// positions after another (ring attention, arXiv 2310.01889) carries the maximum and the sum so
// far?
enum class GivenRows : uint8_t { kNone, kJoined };

// One at a time: they share their sets.
class Region {
 public:
  Region(const Users& users, MaskStores& mask_stores, InstructionSet& scores, InstructionSet& rows,
         const Instruction* seed, GivenRows given_rows)
      : users_(users),
        mask_stores_(mask_stores),
        elements_(seed->shape()->element_count()),
        given_rows_(given_rows),
        scores_(scores),
        rows_(rows) {
    scores_.Clear();
    rows_.Clear();
    AddScores(seed);
    while (!pending_.empty()) {
      const Instruction* x = pending_.back();
      pending_.pop_back();
      ExpandToUsers(x);
      if (scores_.Has(x)) ExpandToOperands(x);
    }
  }

  // Products of saved scores with what a product of this region consumes: dv = dot(p, do).
  void AddProductsOfLoads() {
    for (const Instruction* product : std::vector<const Instruction*>(producing_)) {
      for (const Instruction* operand : product->operands()) {
        for (const Instruction* user : users_.of(operand)) {
          if (!IsBatchedDot(user) || scores_.Has(user) || IsConsuming(user)) continue;
          const Instruction* other = user->operand(user->operand(0) == operand ? 1 : 0);
          if (other->shape()->element_count() == elements_ && AddLoad(other, user)) {
            consuming_.push_back(user);
          }
        }
      }
    }
  }

  bool IsAttention() const {
    if (producing_.empty() || consuming_.empty()) return false;
    const bool has_softmax = has_row_reduction_ && has_row_broadcast_;
    const bool has_given_statistics =
        has_exponential_ && producing_.size() >= 2 && consuming_.size() >= 2;
    return has_softmax || has_given_statistics;
  }
  bool has_row_reduction() const { return has_row_reduction_; }
  int64_t elements() const { return elements_; }
  int64_t sink_elements() const { return sink_elements_; }
  const std::vector<const Instruction*>& producing() const { return producing_; }
  const std::vector<const Instruction*>& consuming() const { return consuming_; }

  // All of it, in text order (ids of one computation ascend in the text or not: by position).
  std::vector<const Instruction*> Members() const {
    std::vector<const Instruction*> members = scores_.list();
    members.insert(members.end(), rows_.list().begin(), rows_.list().end());
    members.insert(members.end(), consuming_.begin(), consuming_.end());
    members.insert(members.end(), stores_.begin(), stores_.end());
    members.insert(members.end(), loads_.begin(), loads_.end());
    return members;
  }
  bool IsResidual(const Instruction* x) const {
    return std::find(stores_.begin(), stores_.end(), x) != stores_.end() ||
           std::find(loads_.begin(), loads_.end(), x) != loads_.end();
  }

 private:
  void AddScores(const Instruction* x) {
    if (!scores_.Add(x)) return;
    if (IsBatchedDot(x)) producing_.push_back(x);
    has_exponential_ = has_exponential_ || IsExponentialOfDifference(x);
    pending_.push_back(x);
  }
  void AddRow(const Instruction* x) {
    if (rows_.Add(x)) pending_.push_back(x);
  }

  bool IsRowOrScalar(const Instruction* x) const {
    return rows_.Has(x) || x->opcode() == Opcode::kConstant ||
           (x->opcode() == Opcode::kBroadcast && x->operand(0)->shape()->element_count() == 1);
  }

  // One value for each row, as `row` has them.
  bool IsGivenRow(const Instruction* x, const Instruction* row) const {
    return given_rows_ == GivenRows::kJoined && x->shape()->IsArray() &&
           x->shape()->element_count() == row->shape()->element_count();
  }

  bool HasScores(const Instruction* x) const {
    return IsScoreSized(*x->shape(), elements_, sink_elements_);
  }

  // Are scores given a few columns more, or rid of them? A sink is joined to the scores before the
  // softmax and sliced off behind it.
  bool ChangesColumns(const Instruction* x) {
    const Opcode opcode = x->opcode();
    const bool is_wider = opcode == Opcode::kConcatenate || opcode == Opcode::kPad;
    if (!is_wider && opcode != Opcode::kSlice) return false;
    const int64_t from = x->operand(0)->shape()->element_count();
    const int64_t to = x->shape()->element_count();
    if (!is_wider) return from == sink_elements_ && to == elements_;
    if (from != elements_ || to <= from || to > from + from / 8) return false;
    if (sink_elements_ == 0) sink_elements_ = to;
    return to == sink_elements_;
  }

  // The columns that sinks have in their gradient: one value for each row.
  bool IsSinkColumn(const Instruction* x) const {
    return x->opcode() == Opcode::kSlice && sink_elements_ > 0 &&
           x->operand(0)->shape()->element_count() == sink_elements_ &&
           x->shape()->element_count() <= sink_elements_ - elements_;
  }

  bool IsOfScores(const Instruction* x) {
    return (KeepsElements(x) && HasScores(x)) || ChangesColumns(x);
  }

  void ExpandToUsers(const Instruction* x) {
    const bool is_row = rows_.Has(x);
    for (const Instruction* user : users_.of(x)) {
      if (user->opcode() == Opcode::kReduce && !is_row) {
        // Statistics of rows: max, sum, also of pairs of arrays.
        if (user->shape()->IsArray() && user->operand(0) == x &&
            user->shape()->element_count() < elements_ && user->shape()->element_count() > 1) {
          has_row_reduction_ = true;
          AddRow(user);
        }
      } else if (is_row) {
        ExpandRow(user);
      } else if (IsSinkColumn(user)) {
        AddRow(user);
      } else if (IsBatchedDot(user)) {
        if (!IsConsuming(user)) consuming_.push_back(user);
      } else if (IsOfScores(user)) {
        AddScores(user);
      } else if (user->opcode() == Opcode::kDynamicUpdateSlice && user->operand(1) == x) {
        stores_.push_back(user);
      }
    }
  }

  void ExpandRow(const Instruction* user) {
    if (user->opcode() == Opcode::kReduce && user->shape()->IsArray() &&
        user->shape()->element_count() == user->operand(0)->shape()->element_count()) {
      AddRow(user);  // over dims of size 1: a reshape
      return;
    }
    if (user->opcode() == Opcode::kBroadcast) {
      if (HasScores(user)) {
        has_row_broadcast_ = true;
        AddScores(user);
      } else if (user->shape()->element_count() == user->operand(0)->shape()->element_count()) {
        AddRow(user);
      }
      return;
    }
    if (!KeepsElements(user) || user->shape()->element_count() >= elements_) return;
    if (std::all_of(user->operands().begin(), user->operands().end(), [&](const Instruction* x) {
          return IsRowOrScalar(x) || IsSpread(x) || IsGivenRow(x, user);
        })) {
      AddRow(user);
    }
  }

  bool IsConsuming(const Instruction* x) const {
    return std::find(consuming_.begin(), consuming_.end(), x) != consuming_.end();
  }

  // Scores of the forward pass, a slice of what a loop carries, that only `user` needs.
  bool AddLoad(const Instruction* x, const Instruction* user) {
    return users_.of(x).size() == 1 && users_.of(x)[0] == user && AddLoads(x);
  }

  // The same that products of the region take, too, dv = dot(p, do), and nobody else.
  bool AddLoadOfProducts(const Instruction* x) {
    bool has_product = false;
    for (const Instruction* user : users_.of(x)) {
      const bool is_product = IsBatchedDot(user) && !scores_.Has(user);
      has_product = has_product || is_product;
      if (!is_product && !scores_.Has(user)) return false;
    }
    if (!has_product || !AddLoads(x)) return false;
    for (const Instruction* user : users_.of(x)) {
      if (!scores_.Has(user) && !IsConsuming(user)) consuming_.push_back(user);
    }
    return true;
  }

  // `x` and what it is made of, up to what a loop carries.
  bool AddLoads(const Instruction* x) {
    std::vector<const Instruction*> chain;
    for (;; x = x->operand(0)) {
      if (!chain.empty() && IsCarried(x)) break;
      if (!chain.empty() && users_.of(x).size() != 1) return false;
      chain.push_back(x);
      if (x->opcode() == Opcode::kDynamicSlice) break;
      if (!KeepsElements(x) || x->operand_count() != 1) return false;
    }
    loads_.insert(loads_.end(), chain.begin(), chain.end());
    return true;
  }

  // What a score is made of: dots of this kind, and values that nobody else needs.
  void ExpandToOperands(const Instruction* x) {
    if (IsBatchedDot(x)) return;
    for (const Instruction* operand : x->operands()) {
      if (scores_.Has(operand) || !operand->shape()->IsArray() || !HasScores(operand)) {
        continue;
      }
      if (IsBatchedDot(operand)) {
        AddScores(operand);
        continue;
      }
      if (IsResidual(operand) || AddLoadOfProducts(operand)) continue;
      const Instruction* source = operand;  // a mask may have another name
      while (KeepsOrder(source->opcode())) source = source->operand(0);
      if (source->opcode() == Opcode::kBroadcast && !rows_.Has(source->operand(0))) {
        const std::vector<const Instruction*>& stores = mask_stores_.Of(operand);
        stores_.insert(stores_.end(), stores.begin(), stores.end());
        continue;
      }
      auto uses = users_.of(operand);
      bool only_here = std::all_of(uses.begin(), uses.end(),
                                   [&](const Instruction* user) { return scores_.Has(user); });
      if (!only_here) continue;
      if (IsOfScores(operand)) AddScores(operand);
      if (operand->opcode() == Opcode::kDynamicSlice) loads_.push_back(operand);
    }
  }

  const Users& users_;
  MaskStores& mask_stores_;
  const int64_t elements_;
  const GivenRows given_rows_;
  int64_t sink_elements_ = 0;  // of the scores with the columns of sinks; 0: they have none
  InstructionSet &scores_, &rows_;
  std::vector<const Instruction*> pending_, producing_, consuming_, stores_, loads_;
  bool has_row_reduction_ = false, has_row_broadcast_ = false, has_exponential_ = false;
};

// Positions of a computation's instructions, and walks along them.
class TextPositions {
 public:
  explicit TextPositions(const Computation& computation)
      : list_(computation.instructions()), tree_(computation) {
    uint32_t last = 0;
    for (const Instruction* x : list_) {
      first_id_ = std::min(first_id_, x->id());
      last = std::max(last, x->id());
    }
    position_.resize(list_.empty() ? 0 : last - first_id_ + 1);
    for (size_t i = 0; i < list_.size(); ++i) position_[list_[i]->id() - first_id_] = i;
  }
  size_t of(const Instruction* x) const { return position_[x->id() - first_id_]; }
  void Sort(std::vector<const Instruction*>& list) const {
    std::sort(list.begin(), list.end(),
              [&](const Instruction* a, const Instruction* b) { return of(a) < of(b); });
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  // Is `x` the batched dot, or does it need it, directly or through others? What the tree of
  // dependences leaves open a walk through the text tells, as far as is asked: for kDotsAtOnce dots
  // at once, so that asking about dots in the order of the text takes time linear in the text for
  // each so many of them.
  bool DependsOn(const Instruction* x, const Instruction* dot) {
    if (tree_.IsBelow(x, dot)) return true;
    if (StandsBefore(x, dot)) return false;
    if (bit_of_.find(dot) == bit_of_.end()) FollowDots(of(dot));
    FollowTo(of(x));
    const size_t bit = bit_of_.at(dot);
    return of(x) >= first_ && (dots_behind_[of(x) - first_][bit / 64] >> bit % 64 & 1) != 0;
  }
  // Does a member need another through values outside?
  bool IsCyclic(const std::vector<const Instruction*>& members) const {
    enum : uint8_t { kApart, kInside, kBehind };
    const size_t first = of(members.front());
    std::vector<uint8_t> is(of(members.back()) - first + 1, kApart);
    for (const Instruction* member : members) is[of(member) - first] = kInside;
    for (size_t i = 0; i < is.size(); ++i) {
      for (const Instruction* operand : list_[first + i]->operands()) {
        const size_t at = of(operand);
        if (at < first || is[at - first] == kApart) continue;
        if (is[i] != kInside) {
          is[i] = kBehind;
        } else if (is[at - first] == kBehind) {
          return true;
        }
      }
    }
    return false;
  }

 private:
  static constexpr size_t kDotsAtOnce = 256;
  using DotBits = std::array<uint64_t, kDotsAtOnce / 64>;

  // Does all that `x`, which is not below the dot in the tree, is made of stand before the dot in
  // the text, but for operations that rearrange it? The backward pass has these of scores of the
  // forward pass.
  bool StandsBefore(const Instruction* x, const Instruction* dot) const {
    while (of(x) > of(dot) && KeepsElements(x) && x->operand_count() == 1) x = x->operand(0);
    return of(x) < of(dot) || std::ranges::all_of(x->operands(), [&](const Instruction* operand) {
             return of(operand) < of(dot);
           });
  }

  // The dot at `first` and those next to it.
  void FollowDots(size_t first) {
    first_ = first;
    dots_behind_.clear();
    bit_of_.clear();
    for (size_t i = first; i < list_.size() && bit_of_.size() < kDotsAtOnce; ++i) {
      if (IsBatchedDot(list_[i])) bit_of_.emplace(list_[i], bit_of_.size());
    }
  }
  // On to what needs them, as far as `last`.
  void FollowTo(size_t last) {
    for (size_t i = first_ + dots_behind_.size(); i <= last; ++i) {
      DotBits behind = {};
      for (const Instruction* operand : list_[i]->operands()) {
        const size_t at = of(operand);
        if (at < first_) continue;
        const DotBits& more = dots_behind_[at - first_];
        for (size_t word = 0; word < behind.size(); ++word) behind[word] |= more[word];
      }
      if (IsBatchedDot(list_[i])) {
        if (const auto dot = bit_of_.find(list_[i]); dot != bit_of_.end()) {
          behind[dot->second / 64] |= uint64_t{1} << dot->second % 64;
        }
      }
      dots_behind_.push_back(behind);
    }
  }

  std::span<Instruction* const> list_;
  DependenceTree tree_;
  uint32_t first_id_ = UINT32_MAX;
  std::vector<size_t> position_;                           // by id
  std::unordered_map<const Instruction*, size_t> bit_of_;  // of the dots that were followed
  size_t first_ = 0;                                       // position of the first of them
  std::vector<DotBits> dots_behind_;                       // by position from there on
};

class Finder {
 public:
  Finder(const Computation& computation, const Users& users)
      : computation_(computation),
        users_(users),
        mask_stores_(users),
        scores_(computation),
        rows_(scores_),
        backward_(scores_),
        all_(scores_),
        taken_(scores_),
        order_(computation) {}

  std::vector<AttentionKernel> Run() {
    for (const Instruction* x : computation_.instructions()) {
      if (!IsBatchedDot(x) || taken_.Has(x)) continue;
      // Scores outnumber what they are made of; others are no attention worth a kernel.
      if (x->shape()->element_count() <= 1) continue;
      if (!Add(x, GivenRows::kNone)) Add(x, GivenRows::kJoined);
    }
    return std::move(kernels_);
  }

 private:
  // True: nothing else can come of the dot.
  bool Add(const Instruction* dot, GivenRows given_rows) {
    Region region(users_, mask_stores_, scores_, rows_, dot, given_rows);
    if (!region.IsAttention()) return !region.has_row_reduction();
    region.AddProductsOfLoads();
    Split(region);
    return true;
  }

  // One kernel, or two where the backward pass uses scores of the forward pass.
  void Split(const Region& region) {
    std::vector<const Instruction*> members = region.Members();
    order_.Sort(members);
    std::erase_if(members, [&](const Instruction* x) { return taken_.Has(x); });
    if (members.empty()) return;
    const Instruction* first = *std::min_element(
        region.consuming().begin(), region.consuming().end(),
        [&](const Instruction* a, const Instruction* b) { return order_.of(a) < order_.of(b); });
    backward_.Clear();
    all_.Clear();
    for (const Instruction* x : members) {
      all_.Add(x);
      if (x != first && order_.DependsOn(x, first)) backward_.Add(x);
    }
    // Values that only the backward part uses belong to it.
    for (size_t i = members.size(); i-- > 0;) {
      const Instruction* x = members[i];
      auto uses = users_.of(x);
      const bool has_uses =
          std::ranges::any_of(uses, [&](const Instruction* user) { return all_.Has(user); });
      if (x != first && has_uses &&
          std::ranges::all_of(uses, [&](const Instruction* user) { return backward_.Has(user); })) {
        backward_.Add(x);
      }
    }
    std::vector<const Instruction*> parts[2];
    for (const Instruction* x : members) {
      parts[backward_.Has(x) ? 1 : 0].push_back(x);
    }
    for (const auto& part : parts) AddKernel(region, part);
  }

  void AddKernel(const Region& region, const std::vector<const Instruction*>& members) {
    if (members.empty() || order_.IsCyclic(members)) return;
    AttentionKernel kernel;
    double done = 0, longest = 1;
    size_t consuming = 0;
    for (const Instruction* x : members) {
      if (region.IsResidual(x)) kernel.residuals.push_back(x);
      if (!IsBatchedDot(x)) continue;
      bool consumes = std::find(region.consuming().begin(), region.consuming().end(), x) !=
                      region.consuming().end();
      if (consumes) {
        ++consuming;
        longest = std::max(longest, Contracted(x));
      }
      double flops = DotFlops(x);
      kernel.score_flops = std::max(kernel.score_flops, flops);
      done += flops;
    }
    if (consuming == 0 || kernel.score_flops == 0) return;
    kernel.is_backward = consuming >= 2;
    // Forward two dots; backward five, the scores' among them.
    double dots = (consuming == 1 || consuming >= 4 ? 2 : 0) + (consuming >= 2 ? 5 : 0);
    kernel.recomputed_flops = std::max(0.0, dots * kernel.score_flops - done);
    kernel.score_elements = region.elements();
    kernel.sink_elements = region.sink_elements();
    kernel.row_elements = static_cast<int64_t>(static_cast<double>(region.elements()) / longest);
    kernel.members = members;
    for (const Instruction* x : members) taken_.Add(x);
    kernels_.push_back(std::move(kernel));
  }

  const Computation& computation_;
  const Users& users_;
  MaskStores mask_stores_;
  InstructionSet scores_, rows_, backward_, all_;  // of the region at hand
  InstructionSet taken_;
  TextPositions order_;
  std::vector<AttentionKernel> kernels_;
};

}  // namespace

std::vector<AttentionKernel> FindAttention(const Computation& computation, const Users& users) {
  bool has_dot = std::any_of(computation.instructions().begin(), computation.instructions().end(),
                             [](const Instruction* x) { return IsBatchedDot(x); });
  if (!has_dot) return {};
  return Finder(computation, users).Run();
}

bool SpellsAttentionOut(const Module& module) {
  const Users users(module);
  return std::ranges::any_of(module.computations(), [&](const Computation* computation) {
    return !FindAttention(*computation, users).empty();
  });
}

}  // namespace gshard
