#include "core/pipeline/emit/weight_stacks.h"

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

const Sharding* AnnotationOf(const Instruction* x,
                             const std::function<const Sharding*(const Instruction*)>& annotation,
                             Context& context) {
  if (const Sharding* s = annotation(x)) return s;
  if (x->operand_count() == 0) return nullptr;
  const Instruction* from = x->operand(0);
  switch (x->opcode()) {
    case Opcode::kSlice:
    case Opcode::kConvert:
    case Opcode::kCopy: {
      const Sharding* s = AnnotationOf(from, annotation, context);
      if (s == nullptr || x->opcode() != Opcode::kSlice) return s;
      std::vector<int64_t> kept;
      for (int64_t d = 0; d < x->shape()->rank(); ++d) {
        if (x->shape()->dim(d) == from->shape()->dim(d)) kept.push_back(d);
      }
      return KeepOnlyDims(context, s, kept);
    }
    case Opcode::kReshape: {
      const Sharding* s = AnnotationOf(from, annotation, context);
      return s == nullptr
                 ? nullptr
                 : PropagateThroughReshape(context, s, from->shape()->dims(), x->shape()->dims());
    }
    case Opcode::kTranspose: {
      const Sharding* s = AnnotationOf(from, annotation, context);
      return s == nullptr
                 ? nullptr
                 : TransposeSharding(context, s, x->attributes<DimensionsAttributes>().dimensions);
    }
    default:  // changes the weight
      return nullptr;
  }
}

}  // namespace gshard::pipeline
