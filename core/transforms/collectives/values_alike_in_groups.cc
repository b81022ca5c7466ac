#include "core/transforms/collectives/values_alike_in_groups.h"

#include <algorithm>
#include <span>

#include "core/transforms/collectives/collective_groups.h"
#include "ir/op_traits.h"

namespace gshard {
namespace {

// Does f have the same value on devices that differ along `axes` only?
bool IsAlikeAlong(const DeviceFunction& f, AxisSpan axes) {
  return std::ranges::all_of(f.sub_axes, [&](const DeviceSubAxis& sub_axis) {
    return std::ranges::all_of(axes, [&](const DeviceAxis& axis) {
      return sub_axis.stride >= axis.stride * axis.size ||
             axis.stride >= sub_axis.stride * sub_axis.size;
    });
  });
}

}  // namespace

ValuesAlikeInGroups::ValuesAlikeInGroups(const LoopParts& parts, const BodyGraph& graph,
                                         DeviceFunctions* devices, const Instruction* collective,
                                         ValuesAlikeInGroups* outer)
    : parts_(parts), graph_(graph), devices_(devices) {
  if (devices != nullptr) axes_ = GroupAxes(collective, devices->device_count());
  FindElements(outer);
}

bool ValuesAlikeInGroups::Is(const Instruction* x) {
  const auto known = known_.find(x);
  if (known != known_.end()) return known->second;
  if (depth_ == BodyGraph::kMaxDepth) return false;
  ++depth_;
  const bool is_alike = Find(x);
  --depth_;
  return known_[x] = is_alike;
}

// Elements of the state are alike that are so on entry and, if they all are, after a turn.
void ValuesAlikeInGroups::FindElements(ValuesAlikeInGroups* outer) {
  const Instruction* init = parts_.loop->operand(0);
  elements_.assign(static_cast<size_t>(parts_.size()), false);
  if (init->opcode() != Opcode::kTuple) return;
  for (size_t i = 0; i < elements_.size(); ++i) {
    const Instruction* x = init->operand(static_cast<int64_t>(i));
    elements_[i] = outer != nullptr ? outer->Is(x) : Is(x);
  }
  for (bool changed = true; changed;) {
    changed = false;
    known_.clear();
    for (size_t i = 0; i < elements_.size(); ++i) {
      if (!elements_[i] || Is(parts_.Next(static_cast<int64_t>(i)))) continue;
      elements_[i] = false, changed = true;
    }
  }
}

bool ValuesAlikeInGroups::Find(const Instruction* x) {
  if (devices_ != nullptr && axes_ && x->shape()->IsArray() && x->shape()->element_count() == 1 &&
      IsInteger(x->shape()->dtype())) {
    if (const auto f = devices_->Of(x); f && IsAlikeAlong(*f, *axes_)) return true;
  }
  switch (x->opcode()) {
    case Opcode::kConstant:
    case Opcode::kIota:
      return true;
    case Opcode::kBroadcast:
    case Opcode::kReshape:
    case Opcode::kTranspose:
    case Opcode::kCopy:
    case Opcode::kSlice:
    case Opcode::kDynamicSlice:
    case Opcode::kConcatenate:
      break;
    case Opcode::kGetTupleElement:
      return IsElement(x->operand(0), x->attributes<GetTupleElementAttributes>().index);
    default:  // alike if computed element by element of what is alike
      if (!IsElementwise(x->opcode())) return false;
  }
  return std::ranges::all_of(x->operands(), [&](const Instruction* from) { return Is(from); });
}

bool ValuesAlikeInGroups::IsElement(const Instruction* tuple, int64_t i) {
  if (tuple == parts_.body_state) return elements_[static_cast<size_t>(i)];
  if (tuple->opcode() == Opcode::kTuple) return Is(tuple->operand(i));
  if (tuple->opcode() != Opcode::kParameter) return false;
  const Computation* branch = tuple->parent();
  const std::span<Instruction* const> callers = graph_.CallersOf(branch);
  return !callers.empty() && std::ranges::all_of(callers, [&](const Instruction* conditional) {
    for (int64_t k = 1; k < conditional->operand_count(); ++k) {
      if (conditional->called(k - 1) == branch && !IsElement(conditional->operand(k), i)) {
        return false;
      }
    }
    return true;
  });
}

}  // namespace gshard
