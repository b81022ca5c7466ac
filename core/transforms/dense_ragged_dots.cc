#include "core/transforms/dense_ragged_dots.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "core/transforms/rewriter.h"
#include "ir/attribute_names.h"
#include "ir/dims.h"
#include "ir/metadata.h"

namespace gshard {
namespace {

constexpr std::array<int64_t, 1> kFirst = {0};

// pred[g,m]: is row m of group g?
Instruction* RowsOfGroups(Builder& b, Instruction* sizes, int64_t rows) {
  const DType type = sizes->shape()->dtype();
  const int64_t groups = sizes->shape()->dim(0);
  const std::array<int64_t, 2> pairs = {groups, groups}, all = {groups, rows};
  const Shape* square = b.context().Array(type, pairs);
  // The end of a group is the sum of the sizes up to its own.
  Instruction* before = b.Compare(ComparisonDirection::kLe, b.Iota(square, 0), b.Iota(square, 1));
  Instruction* summed = b.Select(before, b.Broadcast(sizes, pairs, kFirst), b.Zero(square));
  Instruction* ends =
      b.Reduce(summed, b.ScalarInt(type, 0), kFirst, b.BinaryComputation(Opcode::kAdd, type));
  Instruction* starts = b.Subtract(ends, sizes);
  Instruction* row = b.Iota(b.context().Array(type, all), 1);
  return b.And(b.Compare(ComparisonDirection::kGe, row, b.Broadcast(starts, all, kFirst)),
               b.Compare(ComparisonDirection::kLt, row, b.Broadcast(ends, all, kFirst)));
}

std::vector<int64_t> Shifted(std::span<const int64_t> dims) {
  std::vector<int64_t> shifted(dims.begin(), dims.end());
  for (int64_t& dim : shifted) ++dim;
  return shifted;
}

// x[..] as [g,..]: zero but in the rows, along `dim`, of each group.
Instruction* Masked(Builder& b, Instruction* x, int64_t dim, Instruction* mask) {
  std::vector<int64_t> sizes = {mask->shape()->dim(0)}, places;
  sizes.insert(sizes.end(), x->shape()->dims().begin(), x->shape()->dims().end());
  for (int64_t i = 1; i <= x->shape()->rank(); ++i) places.push_back(i);
  const std::array<int64_t, 2> mask_places = {0, dim + 1};
  Instruction* copies = b.Broadcast(x, sizes, places);
  return b.Select(b.Broadcast(mask, sizes, mask_places), copies, b.Zero(copies->shape()));
}

Instruction* Dense(Instruction* x, Rewriter& rewriter) {
  if (x->opcode() != Opcode::kRaggedDot) return x;
  const auto& dims = x->attributes<DotAttributes>();
  Instruction *lhs = x->operand(0), *rhs = x->operand(1), *sizes = x->operand(2);
  const int64_t ragged = dims.lhs_ragged[0];
  if (Contains(dims.lhs_batch, ragged) || sizes->shape()->rank() != 1) return x;
  Builder& b = rewriter.builder();
  Instruction* mask = RowsOfGroups(b, sizes, lhs->shape()->dim(ragged));
  DotAttributes dense;
  dense.precision = dims.precision;
  dense.algorithm = dims.algorithm;
  std::vector<int64_t> lhs_batch = Shifted(dims.lhs_batch);
  std::vector<int64_t> lhs_contracting = Shifted(dims.lhs_contracting);
  std::vector<int64_t> rhs_batch(dims.rhs_batch.begin(), dims.rhs_batch.end());
  std::vector<int64_t> rhs_contracting(dims.rhs_contracting.begin(), dims.rhs_contracting.end());
  lhs = Masked(b, lhs, ragged, mask);
  for (size_t i = 0; i < dims.lhs_contracting.size(); ++i) {
    if (dims.lhs_contracting[i] != ragged) continue;
    rhs = Masked(b, rhs, rhs_contracting[i], mask);
    rhs_batch = Shifted(rhs_batch);
    rhs_contracting = Shifted(rhs_contracting);
    lhs_batch.insert(lhs_batch.begin(), 0);
    rhs_batch.insert(rhs_batch.begin(), 0);
  }
  if (!Contains(dims.lhs_contracting, ragged)) {
    lhs_contracting.push_back(0);
    rhs_contracting.push_back(dims.rhs_group[0]);
  }
  dense.lhs_batch = b.Copy(lhs_batch);
  dense.rhs_batch = b.Copy(rhs_batch);
  dense.lhs_contracting = b.Copy(lhs_contracting);
  dense.rhs_contracting = b.Copy(rhs_contracting);
  const std::array<Instruction*, 2> factors = {lhs, rhs};
  Instruction* product = b.Add(Opcode::kDot, factors, dense, x->shape(), {}, x->name());
  product->set_frontend_attributes(
      WithFrontendAttribute(x->parent()->module().arena(), x->frontend_attributes(),
                            kRaggedGroupsAttribute, std::to_string(mask->shape()->dim(0))));
  return product;
}

}  // namespace

bool HasRaggedDots(const Module& module) {
  return std::ranges::any_of(module.computations(), [](const Computation* computation) {
    return std::ranges::any_of(computation->instructions(), [](const Instruction* x) {
      return x->opcode() == Opcode::kRaggedDot;
    });
  });
}

bool MakeRaggedDotsDense(Module& module) { return RewriteModule(module, Dense); }

}  // namespace gshard
