// See copied_chains.h.

#include "core/analysis/kernels/copied_chains.h"

#include <algorithm>

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

const Instruction* OnlyUser(const Instruction* x, const Users& users) {
  const auto all = users.of(x);
  return all.size() == 1 ? all[0] : nullptr;
}

}  // namespace

double VectorOperations(const Instruction* x) {
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
  const Shape* array = reduce->operand(0)->shape();
  if (std::ranges::count_if(array->dims(), [](int64_t size) { return size > 1; }) < 3 ||
      reduce->attributes<DimensionsAttributes>().dimensions.size() != 1) {
    return;
  }
  const Instruction* spread = OnlyUser(reduce, users_);
  while (spread != nullptr && KindOf(spread).is_alias) spread = OnlyUser(spread, users_);
  if (spread == nullptr || spread->opcode() != Opcode::kBroadcast) return;
  const bool is_whole = std::ranges::equal(spread->shape()->dims(), array->dims());
  if (spread->operand(0) == reduce ? !IsSpreadBack(spread, reduce) : !is_whole) return;
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
      const bool is_own = std::ranges::all_of(users_.of(value), [&](auto* user) {
        return std::ranges::find(expanded_, user) != expanded_.end();
      });
      if (!is_chain || is_small || (is_private && !is_own) || ends_.contains(value)) {
        chain.sources.push_back(value);
        chain.source_bytes += value->shape()->byte_size();
        if (kind.role == KernelRole::kDot && is_own &&
            value->shape()->element_count() == x->shape()->element_count()) {
          chain.product = value;
        }
        continue;
      }
    }
    if (expanded_.size() == kMaxChain) return false;
    expanded_.push_back(value);
    if (kind.role == KernelRole::kElementwise && !kind.is_alias) {
      chain.operations +=
          VectorOperations(value) * static_cast<double>(value->shape()->element_count()) / elements;
      chain.is_wide =
          chain.is_wide || value->shape()->byte_size() >= 4 * value->shape()->element_count();
    }
    for (const Instruction* operand : value->operands()) {
      if (std::ranges::find(open_, operand) == open_.end()) open_.push_back(operand);
    }
  }
  return true;
}

}  // namespace gshard
