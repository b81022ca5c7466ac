#include "core/propagation/shardy/relations.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ir/attribute_equality.h"
#include "ir/dims.h"
#include "ir/hash.h"

namespace gshard::shardy {
namespace {

// Is all that its relation depends on in the opcode, the attributes and the shapes?
// A scatter's asks what its computation does, a custom call may bring a rule of its own.
bool IsOfShapesAlone(const Instruction& x) {
  return x.opcode() != Opcode::kScatter && x.opcode() != Opcode::kCustomCall;
}

// Relations are of dims, not of types.
size_t HashDims(size_t hash, const Shape* shape) {
  return shape->IsArray() ? HashSpan(hash, shape->dims()) : HashPointer(hash, shape->bare());
}

bool HaveSameDims(const Shape* a, const Shape* b) {
  if (Compatible(a, b)) return true;
  return a->IsArray() && b->IsArray() && std::ranges::equal(a->dims(), b->dims());
}

size_t HashOf(const Instruction& x) {
  size_t hash = HashDims(HashOfAttributes(x), x.shape());
  for (const Instruction* operand : x.operands()) hash = HashDims(hash, operand->shape());
  return hash;
}

bool AreAlike(const Instruction& a, const Instruction& b) {
  return a.opcode() == b.opcode() && HaveSameDims(a.shape(), b.shape()) &&
         std::ranges::equal(a.operands(), b.operands(),
                            [](const Instruction* p, const Instruction* q) {
                              return HaveSameDims(p->shape(), q->shape());
                            }) &&
         SameAttributes(a, b);
}

}  // namespace

DimRelation ToDimRelation(const IndexedRelation& indexed) {
  DimRelation relation;
  relation.relates = indexed.relates;
  relation.factors.assign(indexed.factors.begin(), indexed.factors.end());
  for (size_t tensor = 0; tensor + 1 < indexed.first_slot.size(); ++tensor) {
    auto& list = tensor < indexed.operand_count ? relation.operands : relation.results;
    std::vector<FactorList>& dims = list.emplace_back();
    for (const IndexedRelation::Slot& slot : indexed.SlotsOfTensor(tensor)) {
      dims.resize(At(slot.dim) + 1);
      dims.back().push_back(slot.factor);
    }
  }
  return relation;
}

const IndexedRelation* RelationTable::Own(const DimRelation& relation) {
  size_t tensors = 0, slot_count = 0;
  for (const auto* list : {&relation.operands, &relation.results}) {
    tensors += list->size();
    for (const std::vector<FactorList>& dims : *list) {
      for (const FactorList& factors : dims) slot_count += factors.size();
    }
  }
  const std::span<IndexedRelation::Slot> slots = arena_.NewSpan<IndexedRelation::Slot>(slot_count);
  const std::span<uint32_t> first_slot = arena_.NewSpan<uint32_t>(tensors + 1);
  size_t slot = 0, tensor = 0;
  for (const auto* list : {&relation.operands, &relation.results}) {
    for (const std::vector<FactorList>& dims : *list) {
      first_slot[tensor] = static_cast<uint32_t>(slot);
      for (size_t d = 0; d < dims.size(); ++d) {
        for (size_t k = 0; k < dims[d].size(); ++k) {
          slots[slot++] = {dims[d][k], static_cast<int>(tensor), static_cast<int>(d),
                           k + 1 == dims[d].size()};
        }
      }
      ++tensor;
    }
  }
  first_slot[tensor] = static_cast<uint32_t>(slot);
  IndexedRelation made;
  made.factors = arena_.Copy(relation.factors);
  made.slots = slots;
  made.first_slot = first_slot;
  made.operand_count = relation.operands.size();
  made.relates = relation.relates;
  return Finish(made);
}

const IndexedRelation* RelationTable::Finish(IndexedRelation made) {
  for (const Factor& factor : made.factors) {
    made.passes_only =
        made.passes_only && (factor.blocked || factor.kind == FactorKind::kPassThrough);
  }
  const std::span<uint32_t> first = arena_.NewSpan<uint32_t>(made.factors.size() + 1);
  std::ranges::fill(first, 0);
  last_tensor_.assign(made.factors.size(), -1);
  for (const IndexedRelation::Slot& slot : made.slots) {
    made.is_plain = made.is_plain && slot.is_minor_most;
    if (std::exchange(last_tensor_[At(slot.factor)], slot.tensor) == slot.tensor) continue;
    ++first[At(slot.factor) + 1];
  }
  std::partial_sum(first.begin(), first.end(), first.begin());
  const std::span<uint32_t> by_factor = arena_.NewSpan<uint32_t>(first.back());
  std::ranges::fill(last_tensor_, -1);
  next_.assign(first.begin(), first.end() - 1);
  for (size_t s = 0; s < made.slots.size(); ++s) {
    const IndexedRelation::Slot& slot = made.slots[s];
    if (std::exchange(last_tensor_[At(slot.factor)], slot.tensor) == slot.tensor) continue;
    by_factor[next_[At(slot.factor)]++] = static_cast<uint32_t>(s);
  }
  made.first_of_factor = first;
  made.by_factor = by_factor;
  made.is_plain = made.is_plain && by_factor.size() == made.slots.size();
  return arena_.New<IndexedRelation>(made);
}

const IndexedRelation* RelationTable::Identity(const Shape* shape, size_t operands) {
  const size_t hash = HashDims(operands, shape);
  const auto [first, last] = known_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const Known& known = it->second;
    if (known.instruction == nullptr && known.operands == operands &&
        HaveSameDims(known.shape, shape)) {
      return known.relation;
    }
  }
  std::span<const int64_t> sizes;
  if (shape->IsArray()) sizes = shape->dims();
  const std::span<Factor> factors = arena_.NewSpan<Factor>(sizes.size());
  for (size_t d = 0; d < sizes.size(); ++d) factors[d] = {sizes[d]};
  const std::span<IndexedRelation::Slot> slots =
      arena_.NewSpan<IndexedRelation::Slot>((operands + 1) * sizes.size());
  const std::span<uint32_t> first_slot = arena_.NewSpan<uint32_t>(operands + 2);
  for (size_t s = 0; s < slots.size(); ++s) {
    const auto dim = static_cast<int>(s % sizes.size());
    slots[s] = {dim, static_cast<int>(s / sizes.size()), dim, true};
  }
  for (size_t tensor = 0; tensor < first_slot.size(); ++tensor) {
    first_slot[tensor] = static_cast<uint32_t>(tensor * sizes.size());
  }
  IndexedRelation made;
  made.factors = factors;
  made.slots = slots;
  made.first_slot = first_slot;
  made.operand_count = operands;
  return known_.emplace(hash, Known{nullptr, shape, operands, Finish(made)})->second.relation;
}

const IndexedRelation* RelationTable::Of(const Instruction& x) {
  if (!IsOfShapesAlone(x)) return Own(RelationOf(x));
  const size_t hash = HashOf(x);
  const auto [first, last] = known_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const Known& known = it->second;
    if (known.instruction != nullptr && AreAlike(*known.instruction, x)) return known.relation;
  }
  return known_.emplace(hash, Known{&x, nullptr, 0, Own(RelationOf(x))})->second.relation;
}

}  // namespace gshard::shardy
