// Dynamic-slice and dynamic-update-slice on cut dims: every device handles what lies in its own
// tile. Starts are clamped against the whole dim first. Part of the slice family.
#include <algorithm>
#include <optional>

#include "core/partition/ops/rules.h"
#include "core/partition/scope/range_cut.h"
#include "ir/dims.h"

namespace gshard::partition_rules {

namespace {

// The start indices as scalars; they may be written as one vector.
std::vector<Instruction*> StartsOf(PartitionContext& rule, int64_t first, int64_t rank) {
  std::vector<Instruction*> starts;
  auto count = static_cast<int64_t>(rule.operands().size()) - first;
  if (count == 1 && rule.operand_shape(first)->rank() == 1) {
    Instruction* vector = rule.Operand(first, rule.Whole(1));
    for (int64_t d = 0; d < rank; ++d) {
      starts.push_back(rule.builder().Reshape(rule.builder().SliceDim(vector, 0, d, d + 1), {}));
    }
    return starts;
  }
  for (int64_t i = 0; i < count; ++i) {
    starts.push_back(rule.Operand(first + i, rule.Whole(0)));
  }
  return starts;
}

// Scalars and vectors of indices are whole.
void AddIndexOperands(PartitionContext& rule, size_t first, Labels& labels) {
  labels.operands.resize(first);
  for (size_t i = first; i < rule.operands().size(); ++i) {
    labels.operands.emplace_back(At(rule.operands()[i]->shape->rank()), Labels::kWhole);
  }
}

// One dim of `whole`, cut by `layout`, at which a window of `width` elements starts at `start`.
OwnWindow WindowOf(PartitionContext& rule, const Shape* whole, const MeshLayout* layout,
                   int64_t dim, Instruction* start, int64_t width) {
  Instruction* clamped = ClampedIndex(rule.scope(), start, whole->dim(dim) - width);
  Instruction* offset = rule.geometry().Offset(whole, layout, dim);
  DType index = whole->dim(dim) > INT32_MAX ? DType::kS64 : DType::kS32;
  Instruction* delta =
      rule.builder().Binary(Opcode::kSubtract, rule.builder().Convert(clamped, index), offset);
  return FindOwnWindow(rule.scope(), delta, width,
                       CeilOfRatio(whole->dim(dim), layout->Count(dim)));
}

// The slice at constant starts, clamped.
std::optional<SliceAttributes> KnownSlice(PartitionContext& rule) {
  const Instruction& source = rule.source();
  const Shape* from = rule.operand_shape(0);
  const Shape* to = source.shape();
  std::vector<int64_t> starts, limits;
  for (int64_t d = 0; d < from->rank(); ++d) {
    int64_t start = 0;
    if (from->dim(d) != to->dim(d)) {
      if (source.operand_count() != 1 + from->rank()) return std::nullopt;
      const Instruction* index = source.operand(1 + d);
      if (index->opcode() != Opcode::kConstant || !index->shape()->IsScalar()) return std::nullopt;
      const Literal* literal = index->attributes<ConstantAttributes>().literal;
      if (literal->elided) return std::nullopt;
      start = ElementAsInt64(*literal, 0);
      if (start < 0 && index->shape()->dtype() == DType::kU64) start = from->dim(d);
      start = std::clamp<int64_t>(start, 0, from->dim(d) - to->dim(d));
    }
    starts.push_back(start);
    limits.push_back(start + to->dim(d));
  }
  std::vector<int64_t> strides(starts.size(), 1);
  Builder& builder = rule.builder();
  return SliceAttributes{builder.Copy(starts), builder.Copy(limits), builder.Copy(strides)};
}

}  // namespace

RuleResult DynamicSlice(PartitionContext& rule) {
  const Shape* from = rule.operand_shape(0);
  const Shape* to = rule.source().shape();
  int64_t rank = from->rank();
  const bool converts = from->dtype() != to->dtype();
  if (std::optional<SliceAttributes> known = KnownSlice(rule); known && !converts) {
    return SliceAt(rule, *known);
  }
  Labels labels;
  std::vector<int> in, out;
  for (int64_t d = 0; d < rank; ++d) {
    bool is_full = from->dim(d) == to->dim(d);
    if (!is_full && (to->dim(d) == 0 || !CanMerge(from->dtype()) || !CanMerge(to->dtype()))) {
      in.push_back(Labels::kWhole);
    } else {
      in.push_back(is_full ? labels.Add() : labels.Add({.summed = true}));
    }
    out.push_back(is_full ? in.back() : Labels::kWhole);
  }
  labels.operands = {in};
  labels.results = {out};
  labels.combiner = DisjointCombiner(to->dtype());
  labels.flops = static_cast<double>(to->element_count());
  AddIndexOperands(rule, 1, labels);
  const Strategy& strategy = rule.Choose(labels);
  const MeshLayout* layout = strategy.operands[0];
  const MeshLayout* result = strategy.results[0];
  Instruction* operand = rule.Operand(0, layout);
  std::vector<Instruction*> starts = StartsOf(rule, 1, rank);

  Builder& builder = rule.builder();
  std::vector<int64_t> sizes;
  std::vector<std::pair<int64_t, OwnWindow>> windows;
  for (int64_t d = 0; d < rank; ++d) {
    Instruction*& start = starts[At(d)];
    DType type = start->shape()->dtype();
    int64_t size = to->dim(d);
    if (from->dim(d) == size) {
      sizes.push_back(operand->shape()->dim(d));
      start = rule.geometry().Int(0, type);
    } else if (layout->IsSharded(d)) {
      OwnWindow own = WindowOf(rule, from, layout, d, start, size);
      sizes.push_back(own.width);
      start = builder.Convert(own.from, type);
      windows.emplace_back(d, own);
    } else {
      sizes.push_back(size);
    }
  }
  Instruction* local = builder.DynamicSlice(operand, starts, sizes);
  // To its place in the window; what other tiles hold is left out.
  Instruction* nothing = ReductionIdentity(rule.scope(), from->dtype());
  Instruction* is_in = nullptr;
  for (auto& [d, own] : windows) {
    if (to->dim(d) == 1) {
      is_in = is_in == nullptr ? own.is_in : builder.Binary(Opcode::kAnd, is_in, own.is_in);
    } else {
      local = SliceRange(rule.scope(), local, d, {own.shift, 0, -to->dim(d), own.width}, to->dim(d),
                         nothing);
    }
  }
  if (is_in != nullptr) {
    std::span<const int64_t> dims = local->shape()->dims();
    local = builder.Select(builder.BroadcastScalar(is_in, dims), local,
                           builder.BroadcastScalar(nothing, dims));
  }
  if (converts) local = builder.Convert(local, to->dtype());
  if (local != operand) {
    local->set_shape(LocalShape(rule.context(), to, result));
    rule.TakeName(local);
  }
  return rule.Result(local, result);
}

RuleResult DynamicUpdateSlice(PartitionContext& rule) {
  const Shape* to = rule.source().shape();
  const Shape* update_shape = rule.operand_shape(1);
  int64_t rank = to->rank();
  Labels labels = Labels::Pointwise(2, rank);
  for (int64_t d = 0; d < rank; ++d) {
    if (to->dim(d) != update_shape->dim(d)) labels.operands[1][At(d)] = Labels::kWhole;
  }
  AddIndexOperands(rule, 2, labels);
  labels.flops = static_cast<double>(update_shape->element_count());
  const Strategy& strategy = rule.Choose(labels);
  const MeshLayout* layout = strategy.results[0];
  Instruction* local = rule.Operand(0, layout);
  Instruction* whole_update = rule.Operand(1, strategy.operands[1]);
  Instruction* update = whole_update;
  std::vector<Instruction*> starts = StartsOf(rule, 2, rank);
  if (update_shape->element_count() == 0) return rule.Result(local, layout);

  Builder& builder = rule.builder();
  std::vector<int64_t> sizes(update->shape()->dims().begin(), update->shape()->dims().end());
  std::vector<std::pair<int64_t, OwnWindow>> windows;
  for (int64_t d = 0; d < rank; ++d) {
    Instruction*& start = starts[At(d)];
    DType type = start->shape()->dtype();
    if (to->dim(d) == update_shape->dim(d)) {
      start = rule.geometry().Int(0, type);
    } else if (layout->IsSharded(d)) {
      OwnWindow own = WindowOf(rule, to, layout, d, start, update_shape->dim(d));
      start = builder.Convert(own.from, type);
      sizes[At(d)] = own.width;
      windows.emplace_back(d, own);
    }
  }
  // Of the window only what the own tile holds is written: the rest is read and put back.
  Instruction* is_in = nullptr;
  auto add = [&](Instruction* condition) {
    is_in = is_in == nullptr ? condition : builder.Binary(Opcode::kAnd, is_in, condition);
  };
  for (auto& [d, own] : windows) {
    if (update_shape->dim(d) == 1) continue;
    Instruction* from = builder.Add(Opcode::kNegate, {own.shift});
    update = SliceRange(rule.scope(), update, d, {from, 0, -own.width, update_shape->dim(d)},
                        own.width, nullptr);
  }
  for (auto& [d, own] : windows) {
    if (update_shape->dim(d) == 1) {
      add(builder.BroadcastScalar(own.is_in, sizes));
      continue;
    }
    DType index = own.shift->shape()->dtype();
    Instruction* from = builder.Add(Opcode::kNegate, {own.shift});
    Instruction* positions = rule.geometry().Positions(sizes, d, from);
    auto bound = [&](int64_t value) {
      return builder.BroadcastScalar(rule.geometry().Int(value, index), sizes);
    };
    add(builder.Compare(ComparisonDirection::kGe, positions, bound(0)));
    add(builder.Compare(ComparisonDirection::kLt, positions, bound(update_shape->dim(d))));
  }
  if (is_in != nullptr) {
    Instruction* old = builder.DynamicSlice(local, starts, sizes);
    update = builder.Select(is_in, update, old);
  }
  Instruction* updated = builder.DynamicUpdateSlice(local, update, starts);
  if (updated != whole_update) {
    updated->set_shape(LocalShape(rule.context(), to, layout));
    rule.TakeName(updated);
  }
  return rule.Result(updated, layout);
}

// Shapes are static here: the answer is that of the whole value.
RuleResult GetDimensionSize(PartitionContext& rule) {
  int64_t dim = rule.attributes<DimensionsAttributes>().dimensions[0];
  const Shape* from = rule.operand_shape(0);
  if (from->IsDynamic(dim)) return rule.Default();
  Instruction* size = rule.builder().ScalarInt(DType::kS32, from->dim(dim));
  rule.TakeName(size);
  return rule.Result(size, rule.Whole(0));
}

}  // namespace gshard::partition_rules
