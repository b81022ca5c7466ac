#include "core/pipeline/plan/unpipelined_shardings.h"

#include <memory>
#include <string>

#include "core/spmd/per_device_module.h"
#include "core/transforms/rewriter.h"

namespace gshard::pipeline {

Expected<ShardingOfInstruction> PropagateUnpipelined(const Module& module,
                                                     const ShardingOfInstruction& annotations,
                                                     int64_t devices) {
  if (devices <= 1 || annotations.empty()) return ShardingOfInstruction();
  std::unordered_map<std::string_view, const Sharding*> annotation_of;
  for (auto [x, s] : annotations) annotation_of.emplace(x->name(), s);
  std::unique_ptr<Module> copy = module.Clone();
  for (Instruction* x : copy->entry()->instructions()) {
    auto it = annotation_of.find(x->name());
    x->set_sharding(it == annotation_of.end() ? nullptr : it->second);
  }
  // Sums over micro-batches are no collectives of the mesh.
  RewriteModule(*copy, [](Instruction* x, Rewriter& rewriter) -> Instruction* {
    if (x->opcode() != Opcode::kAllReduce) return x;
    return rewriter.builder().Add(Opcode::kCopy, {x->operand(0)}, x->shape(), x->name());
  });
  copy->header().propagation_to_parameters = {true};
  copy->header().propagation_to_output = {true};
  PassContext context;
  PerDeviceOptions options;
  options.num_partitions = devices;
  if (auto done = CompleteShardings(*copy, context, options); !done) {
    return Fail(std::move(done.error()));
  }
  std::unordered_map<std::string_view, const Sharding*> found;
  for (const Instruction* x : copy->entry()->instructions()) {
    if (x->sharding() != nullptr) found.emplace(x->name(), x->sharding());
  }
  ShardingOfInstruction shardings;
  for (const Instruction* x : module.entry()->instructions()) {
    if (auto it = found.find(x->name()); it != found.end()) shardings.emplace(x, it->second);
  }
  return shardings;
}

bool IsCut(const Shape* shape, const Sharding* s) {
  if (s == nullptr || !s->IsTiled() || !shape->IsArray()) return false;
  for (int64_t d = 0; d < shape->rank(); ++d) {
    if (s->TileCount(d) > 1) return true;
  }
  return false;
}

}  // namespace gshard::pipeline
