// See copied_chains.h.

#include "core/analysis/kernels/copied_chains.h"

#include <algorithm>

#include "ir/constant_fill.h"
#include "ir/op_traits.h"

namespace gshard {
namespace {

// Is b, a broadcast of what `reduce` makes, as `reduce` found it: each dim in its place?
bool IsSpreadBack(const Instruction* b, const Instruction* reduce) {
  if (b->opcode() != Opcode::kBroadcast) return false;
  const Shape* array = reduce->operand(0)->shape();
  if (!std::ranges::equal(b->shape()->dims(), array->dims())) return false;
  const int64_t reduced = reduce->attributes<DimensionsAttributes>().dimensions[0];
  int64_t next = 0;
  for (const int64_t dim : b->attributes<DimensionsAttributes>().dimensions) {
    if (next == reduced) ++next;
    if (dim != next++) return false;
  }
  return true;
}

// Is it the largest of casts to a wider type? That of what is cast is taken, and cast then.
bool IsLargestOfCasts(const Instruction* reduce) {
  const Instruction* cast = reduce->operand(0);
  return cast->opcode() == Opcode::kConvert &&
         cast->operand(0)->shape()->byte_size() < cast->shape()->byte_size() &&
         reduce->called()[0]->root()->opcode() == Opcode::kMaximum;
}

// Is x the larger of `value` and of what a maximum starts from, which `reduce` has seen already?
bool ChangesNothing(const Instruction* x, const Instruction* value, const Instruction* reduce) {
  if (x->opcode() != Opcode::kMaximum) return false;
  const Instruction* other = x->operand(0) == value ? x->operand(1) : x->operand(0);
  const std::optional<double> least = FillingNumber(other);
  return least && least == FillingNumber(reduce->operand(1));
}

const Instruction* OnlyUser(const Instruction* x, const Users& users) {
  const auto all = users.of(x);
  return all.size() == 1 ? all[0] : nullptr;
}

// Is each element one of two constants, as a comparison says: a one-hot vector, the gradient of
// integer labels?
bool ChoosesConstants(const Instruction* x, int depth = 0) {
  constexpr int kDeepest = 6;
  if (depth == kDeepest || !x->shape()->IsArray()) return false;
  if (x->shape()->dtype() == DType::kPred) return true;
  const auto chooses = [&](const Instruction* y) { return ChoosesConstants(y, depth + 1); };
  switch (x->opcode()) {
    case Opcode::kConvert:
    case Opcode::kReshape:
    case Opcode::kBroadcast:
      return chooses(x->operand(0));
    case Opcode::kAdd:
    case Opcode::kSubtract:
    case Opcode::kMultiply:
    case Opcode::kDivide:
      return (ConstantFill(x->operand(1)) != nullptr && chooses(x->operand(0))) ||
             (ConstantFill(x->operand(0)) != nullptr && chooses(x->operand(1)));
    case Opcode::kScatter:
      return x->operand_count() == 3 && ConstantFill(x->operand(0)) != nullptr &&
             ConstantFill(x->operand(2)) != nullptr;
    default:  // its elements are what they are
      return false;
  }
}

}  // namespace

double VectorOperations(const Instruction* x) {
  // The comparison counts; its constants are converted and scaled by the compiler.
  const bool has_constants = x->opcode() != Opcode::kScatter && x->shape()->dtype() != DType::kPred;
  if (has_constants && ChoosesConstants(x)) return 0;
  switch (x->opcode()) {
    case Opcode::kDivide:
      return 10;
    case Opcode::kErf:
    case Opcode::kSine:
    case Opcode::kCosine:
      return 40;
    default:  // one instruction each, transcendentals among them
      return 1;
  }
}

bool AddsReceived(const Instruction* x) {
  return x->opcode() == Opcode::kAdd &&
         std::ranges::any_of(x->operands(),
                             [](const Instruction* of) { return IsCollective(of->opcode()); });
}

CopiedChains::CopiedChains(const Computation& computation, const Users& users, uint32_t first_id,
                           std::span<const KernelKind> kinds, std::span<const size_t> places,
                           bool has_row_statistics)
    : users_(users), first_id_(first_id), kinds_(kinds), places_(places) {
  if (!has_row_statistics) return;
  for (const Instruction* x : computation.instructions()) {
    if (x->opcode() == Opcode::kReduce && x->shape()->IsArray()) FindRowStatistic(x);
  }
}

void CopiedChains::FindRowStatistic(const Instruction* reduce) {
  constexpr int64_t kLongestRow = 8192;  // longer ones, 16,384, have kernels of their own
  const Shape* array = reduce->operand(0)->shape();
  if (std::ranges::count_if(array->dims(), [](int64_t size) { return size > 1; }) < 3 ||
      reduce->attributes<DimensionsAttributes>().dimensions.size() != 1 ||
      array->dim(reduce->attributes<DimensionsAttributes>().dimensions[0]) > kLongestRow ||
      IsLargestOfCasts(reduce)) {
    return;
  }
  const Instruction* made = reduce;
  const Instruction* spread = OnlyUser(made, users_);
  while (spread != nullptr && (KindOf(spread).is_alias || ChangesNothing(spread, made, reduce))) {
    made = spread;
    spread = OnlyUser(made, users_);
  }
  if (spread == nullptr || spread->opcode() != Opcode::kBroadcast) return;
  const bool is_whole = std::ranges::equal(spread->shape()->dims(), array->dims());
  const bool has_same_dims = spread->operand(0)->shape()->rank() == reduce->shape()->rank();
  if (has_same_dims ? !IsSpreadBack(spread, reduce) : !is_whole) return;
  const Instruction* end = OnlyUser(spread, users_);
  const auto continues = [&](const Instruction* x) {
    return KindOf(x).role == KernelRole::kElementwise && x->shape()->IsArray() &&
           x->shape()->element_count() == array->element_count();
  };
  if (end == nullptr || !continues(end)) return;
  while (true) {
    const Instruction* next = OnlyUser(end, users_);
    if (next == nullptr || !(continues(next) || KindOf(next).is_alias)) break;
    end = next;
  }
  // A product would compute the chain for itself.
  const Instruction* next = OnlyUser(end, users_);
  if (next != nullptr && KindOf(next).role == KernelRole::kDot) return;
  statistics_.insert(reduce);
  ends_.insert(end);
}

bool CopiedChains::Find(const Instruction* x, bool is_private, CopiedChain& chain) const {
  constexpr size_t kMaxChain = 64;
  chain = {};
  const int64_t made = x->shape()->byte_size();
  const auto elements = static_cast<double>(x->shape()->element_count());
  const auto before = [&](const Instruction* a, const Instruction* b) {
    return PlaceOf(a) < PlaceOf(b);
  };
  open_.assign(1, x);
  expanded_.clear();
  leaving_.clear();
  // The last first: what reads a value is known when it comes.
  while (!open_.empty()) {
    const auto last = std::ranges::max_element(open_, before);
    const Instruction* value = *last;
    *last = open_.back();
    open_.pop_back();
    const KernelKind& kind = KindOf(value);
    if (!value->shape()->IsArray() || value->opcode() == Opcode::kConstant) continue;
    if (value != x && value->opcode() != Opcode::kBroadcast) {
      if (kind.role == KernelRole::kCheap || value->shape()->rank() == 0) continue;
      const bool is_small = 8 * value->shape()->byte_size() <= made;
      const bool is_chain = kind.is_alias || kind.role == KernelRole::kElementwise;
      const auto is_in = [&](const auto& list) {
        return [&](const Instruction* user) { return std::ranges::find(list, user) != list.end(); };
      };
      const bool is_own = std::ranges::all_of(users_.of(value), is_in(expanded_));
      const bool leaves = !is_own || std::ranges::any_of(users_.of(value), is_in(leaving_));
      if (!is_chain || is_small || (is_private && !is_own && !IsMadeOfLess(value)) ||
          ends_.contains(value)) {
        chain.sources.push_back(value);
        chain.source_bytes += value->shape()->byte_size();
        if (kind.role == KernelRole::kDot && !leaves &&
            value->shape()->element_count() == x->shape()->element_count()) {
          chain.product = value;
        }
        continue;
      }
      if (leaves) leaving_.push_back(value);
    }
    if (expanded_.size() == kMaxChain) return false;
    expanded_.push_back(value);
    if (kind.role == KernelRole::kElementwise && !kind.is_alias) {
      chain.operations +=
          VectorOperations(value) * static_cast<double>(value->shape()->element_count()) / elements;
      chain.is_slow =
          chain.is_slow || value->opcode() == Opcode::kDivide || IsTranscendental(*value);
      chain.is_wide =
          chain.is_wide || value->shape()->byte_size() >= 4 * value->shape()->element_count();
    }
    for (const Instruction* operand : value->operands()) {
      if (std::ranges::find(open_, operand) == open_.end()) open_.push_back(operand);
    }
  }
  return true;
}

bool CopiedChains::IsMadeOfLess(const Instruction* x) const {
  const auto [known, is_new] = made_of_less_.try_emplace(x, false);
  if (!is_new) return known->second;
  // Find's memory is in use.
  std::vector<const Instruction*> open, expanded, leaving;
  open.swap(open_), expanded.swap(expanded_), leaving.swap(leaving_);
  CopiedChain chain;
  const bool is_less = Find(x, false, chain) && chain.source_bytes <= x->shape()->byte_size();
  open_.swap(open), expanded_.swap(expanded), leaving_.swap(leaving);
  made_of_less_[x] = is_less;
  return is_less;
}

bool CopiedChains::HasTooLongRows(const Instruction* x) const {
  constexpr int64_t kLongest = 2048, kLongestMasked = 1024;
  for (const Instruction* user : users_.of(x)) {
    if (!IsRowStatistic(user)) continue;
    const Shape& array = *x->shape();
    const int64_t reduced = user->attributes<DimensionsAttributes>().dimensions[0];
    const int64_t other = reduced + 1 == array.rank() ? reduced - 1 : array.rank() - 1;
    CopiedChain chain;
    const bool is_masked = !Find(x, true, chain) || chain.sources.size() > 1;
    return array.dim(reduced) <= array.dim(other) &&
           array.dim(reduced) > (is_masked ? kLongestMasked : kLongest);
  }
  return false;
}

bool CopiedChains::StartsNarrower(const Instruction* x) const {
  constexpr int kMaxLength = 16;
  const int64_t made = x->shape()->byte_size();
  for (int length = 0; length < kMaxLength; ++length) {
    const Instruction* next = nullptr;
    for (const Instruction* operand : x->operands()) {
      while (operand->opcode() == Opcode::kBroadcast) operand = operand->operand(0);
      if (operand == next || 8 * operand->shape()->byte_size() <= made) continue;
      if (next != nullptr) return false;
      next = operand;
    }
    if (next == nullptr || next->shape()->element_count() != x->shape()->element_count())
      return false;
    if (next->shape()->byte_size() < made) return true;
    const KernelKind& kind = KindOf(next);
    if (kind.role != KernelRole::kElementwise && !kind.is_alias) return false;
    x = next;
  }
  return false;
}

}  // namespace gshard
