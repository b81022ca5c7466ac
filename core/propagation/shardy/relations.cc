#include "core/propagation/shardy/relations.h"

#include <algorithm>
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

size_t HashOf(const Instruction& x) {
  size_t hash = HashPointer(HashOfAttributes(x), x.shape()->bare());
  hash = HashCombine(hash, static_cast<uint64_t>(x.opcode()));
  for (const Instruction* operand : x.operands()) {
    hash = HashPointer(hash, operand->shape()->bare());
  }
  return hash;
}

bool AreAlike(const Instruction& a, const Instruction& b) {
  return a.opcode() == b.opcode() && Compatible(a.shape(), b.shape()) &&
         std::ranges::equal(a.operands(), b.operands(),
                            [](const Instruction* p, const Instruction* q) {
                              return Compatible(p->shape(), q->shape());
                            }) &&
         SameAttributes(a, b);
}

}  // namespace

IndexedRelation::IndexedRelation(DimRelation of) : relation(std::move(of)) {
  for (const Factor& factor : relation.factors) {
    passes_only = passes_only && (factor.blocked || factor.kind == FactorKind::kPassThrough);
  }
  std::vector<std::vector<uint32_t>> of_factor(relation.factors.size());
  int tensor = 0;
  for (const auto* tensors : {&relation.operands, &relation.results}) {
    for (const std::vector<FactorList>& dims : *tensors) {
      first_slot.push_back(static_cast<uint32_t>(slots.size()));
      for (size_t d = 0; d < dims.size(); ++d) {
        for (size_t k = 0; k < dims[d].size(); ++k) {
          const int factor = dims[d][k];
          std::vector<uint32_t>& others = of_factor[At(factor)];
          if (others.empty() || slots[others.back()].tensor != tensor) {
            others.push_back(static_cast<uint32_t>(slots.size()));
          }
          slots.push_back({factor, tensor, static_cast<int>(d), k + 1 == dims[d].size()});
        }
      }
      ++tensor;
    }
  }
  first_slot.push_back(static_cast<uint32_t>(slots.size()));
  for (const std::vector<uint32_t>& list : of_factor) {
    first_of_factor.push_back(static_cast<uint32_t>(by_factor.size()));
    by_factor.insert(by_factor.end(), list.begin(), list.end());
  }
  first_of_factor.push_back(static_cast<uint32_t>(by_factor.size()));
}

const IndexedRelation* RelationTable::Own(DimRelation relation) {
  relations_.push_back(std::make_unique<const IndexedRelation>(std::move(relation)));
  return relations_.back().get();
}

const IndexedRelation* RelationTable::Identity(const Shape* shape, size_t operands) {
  const size_t hash = HashPointer(operands, shape);
  const auto [first, last] = known_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const Known& known = it->second;
    if (known.instruction == nullptr && known.shape == shape && known.operands == operands) {
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
