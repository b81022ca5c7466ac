// See ready_module.h.

#include "core/spmd/ready_module.h"

#include "core/analysis/device_grid.h"
#include "core/transforms/expand/dynamic_padder.h"
#include "ir/op_traits.h"

namespace gshard {
namespace {

// Neither canonicalize nor split-constants changes, or looks through, such an operation.
bool IsLeftAlone(const Instruction* x) {
  if (x->opcode() == Opcode::kParameter) return true;
  return MotionOf(x->opcode()) == Motion::kComputes && !IsElementwise(x->opcode());
}

}  // namespace

std::optional<ReadyModule> ReadyModule::Make(const Module& whole, PropagationMode mode) {
  ReadyModule ready;
  ready.module_ = whole.Clone();
  Module& module = *ready.module_;
  PassContext context;
  for (const std::string_view pass : {"import-shardy", "inline-calls"}) {
    const Expected<bool> changed = FindPass(pass)->run(module, context);
    if (!changed || *changed) return std::nullopt;
  }
  if (HasDynamicSizes(module) || ModeFor(module, mode) != PropagationMode::kGspmd) {
    return std::nullopt;
  }
  const DeviceGrid devices = CountDevices(module);
  if (devices.partitions <= 1 || !VerifyForPartitions(module, devices.partitions)) {
    return std::nullopt;
  }
  context.propagation.mode = PropagationMode::kGspmd;
  for (const std::string_view pass : {"canonicalize", "split-constants"}) {
    if (!FindPass(pass)->run(module, context)) return std::nullopt;
  }
  for (const auto& [copy, original] : context.constant_copies) {
    ready.constant_copies_.emplace_back(copy->id(), original->id());
  }
  ready.may_be_sharded_.resize(module.instruction_limit());
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      ready.may_be_sharded_[x->id()] = IsLeftAlone(x);
    }
  }
  return ready;
}

std::vector<ConstantCopy> ReadyModule::ConstantCopiesIn(const Module& copy) const {
  std::vector<Instruction*> by_id(copy.instruction_limit());
  for (const Computation* computation : copy.computations()) {
    for (Instruction* x : computation->instructions()) by_id[x->id()] = x;
  }
  std::vector<ConstantCopy> copies;
  copies.reserve(constant_copies_.size());
  for (const auto& [id, original] : constant_copies_) copies.push_back({by_id[id], by_id[original]});
  return copies;
}

}  // namespace gshard
