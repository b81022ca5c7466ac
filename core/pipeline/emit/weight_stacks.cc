#include "core/pipeline/emit/weight_stacks.h"

#include <algorithm>
#include <unordered_map>

#include "core/pipeline/plan/layers.h"
#include "core/pipeline/plan/stage_tiles.h"
#include "ir/sharding_algebra.h"

namespace gshard::pipeline {

Instruction* StackWeights(Builder& b, const std::vector<StackRow>& rows, const Shape* shape,
                          std::unordered_set<const Instruction*>& unread) {
  std::vector<int64_t> dims(shape->dims().begin(), shape->dims().end());
  dims.insert(dims.begin(), 1);
  std::vector<Instruction*> parts;
  const Shape* row_shape = b.context().Array(shape->dtype(), dims);
  for (const StackRow& row : rows) {
    parts.push_back(row.value != nullptr ? b.Reshape(row.value, dims) : b.Zero(row_shape));
    if (row.value == nullptr) unread.insert(parts.back());
  }
  return b.Concatenate(parts, 0);
}

int64_t StageDim(const Shape* shape, const Sharding* s, int64_t stages, bool is_stack) {
  const bool is_whole = s == nullptr || s->TileCount(0) == 1;
  if (is_stack && is_whole && FillsTiles(shape->dim(0), stages)) return 0;
  for (int64_t d = 0; d < shape->rank(); ++d) {
    int64_t tiles = s == nullptr ? 1 : s->TileCount(d);
    if (shape->dim(d) > 0 && shape->dim(d) % (tiles * stages) == 0) return d;
  }
  return -1;
}

namespace {

using Annotations = std::function<const Sharding*(const Instruction*)>;

class AnnotationReader {
 public:
  AnnotationReader(const Annotations& annotation, Context& context)
      : annotation_(annotation), context_(context) {}

  const Sharding* Of(const Instruction* x) {
    if (const auto known = known_.find(x); known != known_.end()) return known->second;
    const Sharding* s = annotation_(x);
    if (s == nullptr && x->operand_count() > 0) s = FromOperands(x);
    known_.emplace(x, s);
    return s;
  }

 private:
  const Sharding* FromOperands(const Instruction* x) {
    const Instruction* from = x->operand(0);
    switch (x->opcode()) {
      case Opcode::kSlice: {
        const Sharding* s = Of(from);
        if (s == nullptr) return nullptr;
        std::vector<int64_t> kept;
        for (int64_t d = 0; d < x->shape()->rank(); ++d) {
          if (x->shape()->dim(d) == from->shape()->dim(d)) kept.push_back(d);
        }
        return KeepOnlyDims(context_, s, kept);
      }
      case Opcode::kCopy:
        return LayerGraph::IsConstraint(x) ? nullptr : Of(from);  // it says: whole
      case Opcode::kReshape: {
        const Sharding* s = Of(from);
        return s == nullptr ? nullptr
                            : PropagateThroughReshape(context_, s, from->shape()->dims(),
                                                      x->shape()->dims());
      }
      case Opcode::kTranspose: {
        const Sharding* s = Of(from);
        return s == nullptr ? nullptr
                            : TransposeSharding(context_, s,
                                                x->attributes<DimensionsAttributes>().dimensions);
      }
      default:  // element by element, or it changes the dims
        break;
    }
    if (!IsElementwise(x->opcode())) return nullptr;
    for (const Instruction* operand : x->operands()) {
      if (!std::ranges::equal(operand->shape()->dims(), x->shape()->dims())) continue;
      if (const Sharding* s = Of(operand)) return s;
    }
    return nullptr;
  }

  const Annotations& annotation_;
  Context& context_;
  std::unordered_map<const Instruction*, const Sharding*> known_;
};

}  // namespace

const Sharding* AnnotationOf(const Instruction* x,
                             const std::function<const Sharding*(const Instruction*)>& annotation,
                             Context& context) {
  return AnnotationReader(annotation, context).Of(x);
}

}  // namespace gshard::pipeline
