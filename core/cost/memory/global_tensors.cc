// From tiles back to tensors. See global_tensors.h.

#include "core/cost/memory/global_tensors.h"

#include "core/analysis/axis_text.h"
#include "core/analysis/meshes.h"
#include "ir/context.h"
#include "ir/dims.h"
#include "ir/sharding_algebra.h"

namespace gshard {
namespace {

// Is `local` the tile (rounded up) of `tensor`? A TPU's compiler makes bf16 of f32
// (core/transforms/tpu/rounded_operands.h).
bool IsTileOf(const Shape* local, const GlobalTensors::Tensor& tensor) {
  const DType type = tensor.shape->dtype();
  const bool is_rounded = local->dtype() == DType::kBF16 && type == DType::kF32;
  if (local->rank() != tensor.shape->rank() || (local->dtype() != type && !is_rounded))
    return false;
  for (int64_t d = 0; d < local->rank(); ++d) {
    int64_t tiles = tensor.sharding != nullptr ? tensor.sharding->TileCount(d) : 1;
    int64_t size = tensor.shape->dim(d);
    if (local->dim(d) != size / tiles + (size % tiles != 0)) return false;
  }
  return true;
}

// The shape whose tiles are `local`, as exactly as they tell.
const Shape* GlobalShape(Context& context, const Shape* local, const Sharding* sharding) {
  std::vector<int64_t> dims(local->dims().begin(), local->dims().end());
  for (size_t d = 0; d < dims.size(); ++d) dims[d] *= sharding->TileCount(static_cast<int64_t>(d));
  return context.Array(local->dtype(), dims);
}

}  // namespace

void GlobalTensors::Record(const Module& propagated) {
  for (const Computation* computation : propagated.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (x->source().empty()) continue;
      const std::vector<const Shape*> leaves = LeafShapes(x->shape());
      for (size_t i = 0; i < leaves.size(); ++i) {
        if (leaves[i]->IsArray() && leaves[i]->rank() > 0)
          by_place_.insert(
              {x->source().begin, {x->opcode(), leaves[i], LeafSharding(x->sharding(), i)}});
      }
    }
  }
}

const GlobalTensors::Tensor* GlobalTensors::Find(const Instruction* x, const Shape* local) const {
  auto [begin, end] = by_place_.equal_range(x->source().begin);
  for (auto it = begin; it != end; ++it) {
    bool is_value = x->opcode() == it->second.opcode || x->opcode() == Opcode::kAllReduce ||
                    x->opcode() == Opcode::kReduceScatter || x->opcode() == Opcode::kConvert;
    if (is_value && local->IsArray() && IsTileOf(local, it->second)) return &it->second;
  }
  return nullptr;
}

void DescribeTensors(Module& module, const GlobalTensors& tensors, MemoryReport& report) {
  const Mesh* mesh = MainMesh(module);
  Context& context = module.context();
  for (LiveBuffer& row : report.at_peak) {
    if (row.kind == BufferClass::kFragmentation) continue;
    const Instruction* x = row.instruction;
    if (const GlobalTensors::Tensor* tensor = tensors.Find(x, row.shape)) {
      row.global_shape = tensor->shape;
      row.sharding = tensor->sharding != nullptr ? tensor->sharding : context.Replicated();
    } else if (x->opcode() == Opcode::kParameter && row.shape->IsArray()) {
      const Sharding* record = LeafSharding(x->sharding(), static_cast<size_t>(row.leaf));
      if (record == nullptr || record->IsTuple()) continue;
      row.sharding = record;
      row.global_shape = GlobalShape(context, row.shape, record);
    } else {
      continue;
    }
    row.sharding_text = AxisText(context, row.sharding, mesh);
    if (row.shape->rank() > 0) row.free_axes = FreeAxesText(context, row.sharding, mesh);
  }
}

}  // namespace gshard
