#include "core/propagation/improvement.h"

#include <algorithm>
#include <vector>

#include "ir/sharding_algebra.h"

namespace gshard {
namespace {

// Manual beats replicated and maximal outright.
bool LeafStrictlyBetter(const Sharding* a, const Sharding* b) {
  return a->IsManual() && (b->IsReplicated() || b->IsMaximal());
}

bool StrictlyBetter(const Sharding* a, const Sharding* b) {
  if (!a->IsTuple() || !b->IsTuple()) return LeafStrictlyBetter(a, b);
  bool better = false;
  for (size_t i = 0; i < a->elements.size(); ++i) {
    if (LeafStrictlyBetter(b->elements[i], a->elements[i])) return false;
    better = better || LeafStrictlyBetter(a->elements[i], b->elements[i]);
  }
  return better;
}

const Sharding* MergeLeaf(DerivedShardings& derive, const Sharding* current,
                          const Sharding* offered, bool combine) {
  if (current == offered) return nullptr;
  if (combine && current->IsTiled() && offered->IsTiled() && current->IsPartiallyReplicated() &&
      offered->IsPartiallyReplicated() && current->device_count() == offered->device_count()) {
    int64_t minimum = std::max(current->TileCount(), offered->TileCount()) + 1;
    if (const Sharding* merged = derive.Merge(current, offered, minimum)) {
      return merged;
    }
  }
  return IsMoreSpecific(offered, current) ? offered : nullptr;
}

}  // namespace

const Sharding* MergeIntoOffer(DerivedShardings& derive, const Sharding* current,
                               const Sharding* offered, bool combine) {
  if (current == offered) return nullptr;
  if (!current->IsTuple() || !offered->IsTuple()) {
    return MergeLeaf(derive, current, offered, combine);
  }
  bool success = false;
  std::vector<const Sharding*> leaves(offered->elements);
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (const Sharding* merged = MergeLeaf(derive, current->elements[i], leaves[i], combine)) {
      leaves[i] = merged;
      success = true;
    }
  }
  if (!success) return nullptr;
  return leaves == offered->elements ? offered
                                     : derive.context().TupleOf(std::move(leaves))->canonical;
}

const Sharding* ImproveLeaf(DerivedShardings& derive, const Sharding* current,
                            const Sharding* offered, bool combine) {
  if (offered == current) return nullptr;
  if (LeafStrictlyBetter(offered, current)) return offered;
  const Sharding* merged = MergeLeaf(derive, current, offered, combine);
  return merged == current ? nullptr : merged;
}

const Sharding* Improve(DerivedShardings& derive, const Shape* shape, const Sharding* current,
                        const Sharding* offered, bool combine, bool aggressive) {
  if (offered == current) return nullptr;
  if (current != nullptr && StrictlyBetter(offered, current)) return offered;
  if (offered->IsMaximal()) return nullptr;
  if (current == nullptr) return offered;
  if (offered->IsManual()) return nullptr;
  const Sharding* merged = MergeIntoOffer(derive, current, offered, combine);
  if (merged == nullptr) return nullptr;
  if (shape->IsArray() && !aggressive && current->IsTiled() &&
      merged->TileCount() == offered->TileCount() && !derive.IsSubTiling(merged, current, shape)) {
    return nullptr;
  }
  return merged == current ? nullptr : merged;
}

}  // namespace gshard
