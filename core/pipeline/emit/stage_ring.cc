#include "core/pipeline/emit/stage_ring.h"

#include <vector>

#include "core/analysis/partitioned.h"
#include "ir/attribute_names.h"
#include "ir/custom_call.h"
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
  const int64_t count = stages();
  if (count == 1 || step % count == 0) return value;
  std::vector<Transfer> transfers;
  for (int64_t k = 0; k < count; ++k) {
    if (senders[static_cast<size_t>(k)])
      transfers.push_back({k, (k + step % count + count) % count});
  }
  return transfers.empty() ? nullptr : Send(b, value, transfers, cause);
}

Instruction* StageRing::Send(Builder& b, Instruction* value, std::span<const Transfer> transfers,
                             std::string_view cause) const {
  const int64_t each = shardings_->devices_per_stage();
  std::vector<DevicePair> pairs;
  for (const auto& [source, target] : transfers) {
    for (int64_t d = 0; d < each; ++d) pairs.push_back({source * each + d, target * each + d});
  }
  Instruction* sent = b.CollectivePermute(value, pairs);
  sent->set_frontend_attributes(
      WithFrontendAttribute(b.module().arena(), {}, kCauseAttribute, cause));
  return sent;
}

Instruction* StageRing::Enter(Builder& b, Instruction* whole, const Sharding* s,
                              int64_t stage_dim) const {
  if (stages() == 1) return whole;
  const int64_t rank = whole->shape()->rank();
  Instruction* const operands[] = {whole};
  Instruction* copy = b.Add(Opcode::kCopy, operands, NoAttributes{}, whole->shape());
  copy->set_sharding(shardings_->Outside(rank, s, stage_dim));
  std::vector<int64_t> dims(whole->shape()->dims().begin(), whole->shape()->dims().end());
  if (stage_dim >= 0) dims[static_cast<size_t>(stage_dim)] /= stages();
  CustomCallAttributes attributes;
  attributes.target = kEnterManualTarget;
  Instruction* const copied[] = {copy};
  Instruction* border = b.Add(Opcode::kCustomCall, copied, attributes,
                              b.context().Array(whole->shape()->dtype(), dims), {}, "enter");
  border->set_sharding(shardings_->Inside(rank, s));
  return border;
}

Instruction* StageRing::Leave(Builder& b, Instruction* local, const Sharding* s,
                              int64_t stage_dim) const {
  if (stages() == 1) return local;
  std::vector<int64_t> dims(local->shape()->dims().begin(), local->shape()->dims().end());
  if (stage_dim >= 0) dims[static_cast<size_t>(stage_dim)] *= stages();
  CustomCallAttributes attributes;
  attributes.target = kLeaveManualTarget;
  Instruction* const operands[] = {local};
  Instruction* border = b.Add(Opcode::kCustomCall, operands, attributes,
                              b.context().Array(local->shape()->dtype(), dims), {}, "leave");
  border->set_sharding(shardings_->Outside(local->shape()->rank(), s, stage_dim));
  return border;
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
