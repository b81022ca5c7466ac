#include "backends/cpu/verify/index_coverage.h"

#include <algorithm>

#include "backends/cpu/arrays/index_value.h"
#include "core/analysis/indexed_dims.h"
#include "ir/dims.h"
#include "ir/sharding.h"

namespace gshard::cpu {
namespace {

// Calls visit(component, value) for every element of the indices of `x`.
template <typename Visit>
void VisitIndices(const Instruction& x, const IndexedDims& indexed, ConstBuffers operands,
                  Visit visit) {
  const auto first = At(indexed.first_operand);
  if (indexed.dims.empty()) return;
  const Shape* shape = x.operand(indexed.first_operand)->shape();
  const DType dtype = shape->dtype();
  if (indexed.are_scalars) {
    for (size_t k = 0; k < indexed.dims.size(); ++k) {
      visit(k, IndexValue(dtype, operands[first + k], 0));
    }
    return;
  }
  int64_t inner = 1;
  for (int64_t d = indexed.vector_dim + 1; d < shape->rank(); ++d) inner *= shape->dim(d);
  const auto components = static_cast<int64_t>(indexed.dims.size());
  for (int64_t i = 0; i < shape->element_count(); ++i) {
    visit(At(i / inner % components), IndexValue(dtype, operands[first], i));
  }
}

}  // namespace

IndexCoverage::IndexCoverage(const Module& whole, std::span<const LocalForm> forms,
                             std::span<const IndexInput> inputs) {
  std::vector<std::string_view> drawn;
  for (const IndexInput& input : inputs) {
    const bool goes_beyond = std::ranges::any_of(input.ranges, &IndexRange::has_beyond);
    if (!goes_beyond) continue;
    drawn.insert(drawn.end(), input.readers.begin(), input.readers.end());
  }
  std::ranges::sort(drawn);
  for (const Computation* computation : whole.computations()) {
    for (const Instruction* x : computation->instructions()) {
      Add(*x, forms, std::ranges::binary_search(drawn, x->name()));
    }
  }
}

void IndexCoverage::Add(const Instruction& x, std::span<const LocalForm> forms, bool is_drawn) {
  Entry entry;
  entry.x = &x;
  if (x.opcode() == Opcode::kConditional) {
    IndexedDim branches;
    branches.size = branches.tile = 1;
    branches.starts = static_cast<int64_t>(x.called().size());
    branches.reached.assign(At(branches.starts), false);
    branches.below = branches.beyond = !is_drawn || x.operand(0)->shape()->dtype() == DType::kPred;
    entry.dims.push_back(std::move(branches));
  } else {
    const std::optional<IndexedDims> indexed = IndexedDimsOf(x);
    if (!indexed) return;
    const Instruction& array = *x.operand(0);
    const auto form = std::ranges::find(forms, array.name(), &LocalForm::name);
    for (size_t k = 0; k < indexed->dims.size(); ++k) {
      IndexedDim dim;
      dim.dim = indexed->dims[k];
      dim.size = indexed->sizes[k];
      const int64_t extent = array.shape()->dim(dim.dim);
      dim.starts = extent - dim.size + 1;
      int64_t tiles = 1;
      if (form != forms.end() && form->sharding != nullptr && form->sharding->IsTiled()) {
        tiles = form->sharding->TileCount(dim.dim);
      }
      dim.tile = std::max<int64_t>((extent + tiles - 1) / tiles, 1);
      // Tiles that are padding only have nothing to reach.
      dim.reached.assign(At((extent + dim.tile - 1) / dim.tile), false);
      dim.below = dim.beyond = !is_drawn || dim.size == extent;
      entry.dims.push_back(std::move(dim));
    }
  }
  entries_.emplace(&x, list_.size());
  list_.push_back(std::move(entry));
}

void IndexCoverage::Reach(int64_t start, IndexedDim& dim) {
  dim.below |= start < 0;
  dim.beyond |= start >= dim.starts;
  if (start < 0 || start >= dim.starts) return;
  const int64_t last = (start + std::max<int64_t>(dim.size, 1) - 1) / dim.tile;
  for (int64_t tile = start / dim.tile; tile <= last; ++tile) {
    if (tile < static_cast<int64_t>(dim.reached.size())) dim.reached[At(tile)] = true;
  }
}

bool IndexCoverage::IsComplete(const Entry& entry) {
  return std::ranges::all_of(entry.dims, [](const IndexedDim& dim) {
    return dim.below && dim.beyond && std::ranges::find(dim.reached, false) == dim.reached.end();
  });
}

void IndexCoverage::Indexed(const Instruction& x, ConstBuffers operands) {
  const auto found = entries_.find(&x);
  if (found == entries_.end()) return;
  const std::lock_guard lock(mutex_);
  Entry& entry = list_[found->second];
  entry.has_run = true;
  if (entry.is_complete) return;
  VisitIndices(x, *IndexedDimsOf(x), operands,
               [&](size_t k, int64_t start) { Reach(start, entry.dims[k]); });
  entry.is_complete = IsComplete(entry);
}

void IndexCoverage::Chosen(const Instruction& x, int64_t branch) {
  const auto found = entries_.find(&x);
  if (found == entries_.end()) return;
  const std::lock_guard lock(mutex_);
  Entry& entry = list_[found->second];
  entry.has_run = true;
  Reach(branch, entry.dims[0]);
}

std::vector<NotExercised> IndexCoverage::Missing() const {
  const std::lock_guard lock(mutex_);
  std::vector<NotExercised> missing;
  for (const Entry& entry : list_) {
    if (!entry.has_run) continue;
    for (const IndexedDim& dim : entry.dims) {
      NotExercised not_exercised;
      not_exercised.instruction = std::string(entry.x->name());
      not_exercised.dim = dim.dim;
      not_exercised.parts = static_cast<int64_t>(dim.reached.size());
      for (size_t tile = 0; tile < dim.reached.size(); ++tile) {
        if (!dim.reached[tile]) not_exercised.missed.push_back(static_cast<int64_t>(tile));
      }
      if (dim.reached.size() == 1) not_exercised.missed.clear();  // all out of range, of one tile
      not_exercised.no_below = !dim.below;
      not_exercised.no_beyond = !dim.beyond;
      if (!not_exercised.missed.empty() || !dim.below || !dim.beyond) {
        missing.push_back(std::move(not_exercised));
      }
    }
  }
  return missing;
}

}  // namespace gshard::cpu
