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

IndexedRelation::IndexedRelation(DimRelation of) : relation(std::move(of)) {
  for (const Factor& factor : relation.factors) {
    passes_only = passes_only && (factor.blocked || factor.kind == FactorKind::kPassThrough);
  }
  size_t tensors = 0, slot_count = 0;
  for (const auto* list : {&relation.operands, &relation.results}) {
    tensors += list->size();
    for (const std::vector<FactorList>& dims : *list) {
      for (const FactorList& factors : dims) slot_count += factors.size();
    }
  }
  slots.reserve(slot_count);
  first_slot.reserve(tensors + 1);
  first_of_factor.assign(relation.factors.size() + 1, 0);
  std::vector<int> last_tensor(relation.factors.size(), -1);
  int tensor = 0;
  for (const auto* list : {&relation.operands, &relation.results}) {
    for (const std::vector<FactorList>& dims : *list) {
      first_slot.push_back(static_cast<uint32_t>(slots.size()));
      for (size_t d = 0; d < dims.size(); ++d) {
        for (size_t k = 0; k < dims[d].size(); ++k) {
          const int factor = dims[d][k];
          if (std::exchange(last_tensor[At(factor)], tensor) != tensor) {
            ++first_of_factor[At(factor) + 1];
          }
          slots.push_back({factor, tensor, static_cast<int>(d), k + 1 == dims[d].size()});
          is_plain = is_plain && dims[d].size() == 1;
        }
      }
      ++tensor;
    }
  }
  first_slot.push_back(static_cast<uint32_t>(slots.size()));
  std::partial_sum(first_of_factor.begin(), first_of_factor.end(), first_of_factor.begin());
  by_factor.resize(first_of_factor.back());
  is_plain = is_plain && by_factor.size() == slots.size();
  std::ranges::fill(last_tensor, -1);
  std::vector<uint32_t> next(first_of_factor.begin(), first_of_factor.end() - 1);
  for (size_t s = 0; s < slots.size(); ++s) {
    const Slot& slot = slots[s];
    if (std::exchange(last_tensor[At(slot.factor)], slot.tensor) == slot.tensor) continue;
    by_factor[next[At(slot.factor)]++] = static_cast<uint32_t>(s);
  }
}

const IndexedRelation* RelationTable::Own(DimRelation relation) {
  relations_.push_back(std::make_unique<const IndexedRelation>(std::move(relation)));
  return relations_.back().get();
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
  DimRelation made;
  std::vector<FactorList> dims;
  for (int64_t d = 0; shape->IsArray() && d < shape->rank(); ++d) {
    made.factors.push_back({shape->dim(d)});
    dims.push_back({static_cast<int>(d)});
  }
  made.operands.assign(operands, dims);
  made.results.assign(1, dims);
  return known_.emplace(hash, Known{nullptr, shape, operands, Own(std::move(made))})
      ->second.relation;
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
