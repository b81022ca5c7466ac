#include "core/pipeline/emit/stage_ring.h"

#include <vector>

#include "core/analysis/partitioned.h"
#include "ir/attribute_names.h"
#include "ir/metadata.h"
#include "ir/sharding_algebra.h"

namespace gshard::pipeline {

Instruction* StageRing::Coordinate(Builder& b) const {
  if (stages() == 1) return b.ScalarInt(DType::kS32, 0);
  Instruction* id = b.PartitionId();
  int64_t each = shardings_->devices_per_stage();
  if (each > 1) id = b.Binary(Opcode::kDivide, id, b.ScalarInt(DType::kU32, each));
  return b.Convert(id, DType::kS32);
}

Instruction* StageRing::Send(Builder& b, Instruction* value, int64_t step, bool wraps,
                             std::string_view cause) const {
  const int64_t count = stages();
  std::vector<bool> senders;
  for (int64_t k = 0; k < count; ++k) {
    senders.push_back(wraps || (k + step >= 0 && k + step < count));
  }
  return Send(b, value, step, senders, cause);
}

Instruction* StageRing::Send(Builder& b, Instruction* value, int64_t step,
                             const std::vector<bool>& senders, std::string_view cause) const {
  const int64_t count = stages(), each = shardings_->devices_per_stage();
  if (count == 1 || step % count == 0) return value;
  std::vector<DevicePair> pairs;
  for (int64_t k = 0; k < count; ++k) {
    if (!senders[static_cast<size_t>(k)]) continue;
    const int64_t to = (((k + step) % count) + count) % count;
    for (int64_t d = 0; d < each; ++d) pairs.push_back({k * each + d, to * each + d});
  }
  if (pairs.empty()) return nullptr;
  Instruction* sent = b.CollectivePermute(value, pairs);
  sent->set_frontend_attributes(
      WithFrontendAttribute(b.module().arena(), {}, kCauseAttribute, cause));
  return sent;
}

void StageRing::MarkManual(Computation* computation) const {
  for (Instruction* x : computation->instructions()) {
    MarkManual(x);
    bool flow = x->opcode() == Opcode::kWhile || x->opcode() == Opcode::kConditional ||
                x->opcode() == Opcode::kCall;
    if (!flow) continue;
    for (Computation* called : x->called()) MarkManual(called);
  }
}

// In a region that is manual over some axes only, the rest is for propagation to find.
void StageRing::MarkManual(Instruction* x) const {
  if (stages() == 1) return;
  if (!shardings_->is_fully_manual()) {
    if (x->opcode() == Opcode::kPartitionId) x->set_sharding(shardings_->Inside(0, nullptr));
    return;
  }
  Context& context = shardings_->context();
  x->set_sharding(x->shape()->IsTuple()
                      ? context.TupleOf(LeafShardings(x->shape(), context.Manual()))
                      : context.Manual());
}

}  // namespace gshard::pipeline
