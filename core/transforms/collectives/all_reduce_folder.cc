#include "core/transforms/collectives/all_reduce_folder.h"

#include "core/transforms/collectives/collective_groups.h"
#include "core/transforms/rewriter.h"

namespace gshard {
namespace {

class Folder {
 public:
  Folder(Rewriter& rewriter, int64_t device_count)
      : rewriter_(rewriter), builder_(rewriter.builder()), device_count_(device_count) {}

  Instruction* Visit(Instruction* x) {
    switch (x->opcode()) {
      case Opcode::kAllReduce:
        return OfAllReduce(x);
      case Opcode::kReduceScatter:
        return ReduceScatterOf(x);
      case Opcode::kSlice:
        return SliceOf(x);
      default:  // not looked for
        return x;
    }
  }

 private:
  // The all-reduce that is operand 0 of x and has no other user; else null.
  Instruction* OperandAllReduce(const Instruction* x) const {
    Instruction* operand = x->operand(0);
    bool usable = IsPlainCollective(operand, Opcode::kAllReduce) && rewriter_.IsOnlyUse(operand) &&
                  ReductionOf(operand);
    return usable ? operand : nullptr;
  }

  // Axes of both, if they are disjoint.
  std::optional<AxisList> JointAxes(const Instruction* a, const Instruction* b) const {
    std::optional<AxisList> first = GroupAxes(a, device_count_);
    std::optional<AxisList> second = first ? GroupAxes(b, device_count_) : std::nullopt;
    if (!second) return std::nullopt;
    AxisList joint = *first;
    joint.insert(joint.end(), second->begin(), second->end());
    // Disjoint iff taking one from both leaves the other.
    std::optional<AxisList> sub_axes = CommonSubAxes(joint, device_count_);
    if (!sub_axes) return std::nullopt;
    std::vector<int> times(sub_axes->size(), 0);
    for (const DeviceAxis& axis : joint) {
      for (int sub_axis : SubAxesOf(*sub_axes, axis)) {
        if (++times[static_cast<size_t>(sub_axis)] > 1) return std::nullopt;
      }
    }
    return SortedAxes(joint);
  }

  Instruction* OfAllReduce(Instruction* x) {
    if (!IsPlainCollective(x, Opcode::kAllReduce)) return x;
    Instruction* inner = OperandAllReduce(x);
    if (inner == nullptr || ReductionOf(x) != ReductionOf(inner)) return x;
    std::optional<AxisList> axes = JointAxes(x, inner);
    if (!axes) return x;
    Instruction* both =
        builder_.AllReduce(inner->operand(0), GroupsAlong(*axes, device_count_), x->called(0));
    KeepCause(both, x);
    return both;
  }

  Instruction* ReduceScatterOf(Instruction* x) {
    if (!IsPlainCollective(x, Opcode::kReduceScatter)) return x;
    Instruction* inner = OperandAllReduce(x);
    if (inner == nullptr || ReductionOf(x) != ReductionOf(inner) || !JointAxes(x, inner)) return x;
    return SameCollectiveOn(builder_, inner, SameCollectiveOn(builder_, x, inner->operand(0)));
  }

  Instruction* SliceOf(Instruction* x) {
    Instruction* inner = OperandAllReduce(x);
    if (inner == nullptr) return x;
    Instruction* whole = inner->operand(0);
    return SameCollectiveOn(builder_, inner, builder_.CloneWith(x, {&whole, 1}, x->shape()));
  }

  Rewriter& rewriter_;
  Builder& builder_;
  int64_t device_count_;
};

}  // namespace

bool FoldAllReduces(Module& module) {
  if (module.header().replica_count > 1) return false;
  const int64_t device_count = module.DeviceCount();
  return RewriteModule(module, [&](Instruction* x, Rewriter& rewriter) {
    return Folder(rewriter, device_count).Visit(x);
  });
}

}  // namespace gshard
