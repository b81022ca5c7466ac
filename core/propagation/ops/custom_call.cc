// Custom calls: a few known targets pass shardings through; an unknown one is fixed by what the
// user wrote on it.
#include "ir/custom_call.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>
#include <vector>

#include "core/propagation/custom_call_rule.h"
#include "core/propagation/rules.h"
#include "ir/dimwise_call.h"
#include "ir/linalg_call.h"

namespace gshard {
namespace {

bool IsOneOf(std::string_view target, std::span<const std::string_view> list) {
  return std::find(list.begin(), list.end(), target) != list.end();
}

constexpr std::array<std::string_view, 3> kAlwaysPassThrough = {"Sharding", "X64Combine",
                                                                "LayoutConstraint"};
constexpr std::array<std::string_view, 10> kSameRankPassThrough = {
    "ResizeNearest", "ResizeBilinear", "ResizeNearestGrad", "ResizeBilinearGrad",
    "Cholesky",      "MoveToHost",     "MoveToDevice",      "annotate_device_placement",
    "PinToDevice",   "PinToDeviceSram"};

bool PassesThrough(const Instruction& x) {
  std::string_view target = x.attributes<CustomCallAttributes>().target;
  if (x.operand_count() == 0) return false;
  if (IsOneOf(target, kAlwaysPassThrough)) return true;
  return x.operand_count() == 1 && x.shape()->IsArray() && x.operand(0)->shape()->IsArray() &&
         x.shape()->rank() == x.operand(0)->shape()->rank() &&
         IsOneOf(target, kSameRankPassThrough);
}

// What cuts the batch cuts every result's batch; matrices are whole.
void BatchForward(const PropagationContext& c, const Instruction& x, Offers& offers) {
  std::vector<int64_t> batch(static_cast<size_t>(BatchDimsOf(x)));
  std::iota(batch.begin(), batch.end(), 0);
  for (const Instruction* operand : x.operands()) {
    const Sharding* s = c.NotMaximal(operand);
    if (s == nullptr || !s->IsTiled()) continue;
    if (!x.shape()->IsTuple()) {
      offers.Add(c.derive().AlongDims(s, batch, batch, x.shape()->rank()), operand, true);
      continue;
    }
    int64_t leaf = 0;
    for (const Shape* element : x.shape()->elements()) {
      offers.Add(c.derive().AlongDims(s, batch, batch, element->rank()), operand, true, leaf++);
    }
  }
}

// What cuts dims of `from` into tiles that dims of `to`, the other side of a dimwise call, follow.
const Sharding* DimwiseSharding(const PropagationContext& c, const Instruction& call,
                                const Sharding* s, const Shape* from, const Shape* to) {
  if (s->IsManual()) return s;
  if (!s->IsTiled()) return nullptr;
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < to->rank(); ++d) {
    const int64_t tiles = s->TileCount(d);
    if (from->dim(d) % tiles == 0 && to->dim(d) % tiles == 0 && FollowsOperandDim(call, d)) {
      dims.push_back(d);
    }
  }
  return c.derive().AlongDims(s, dims, dims, to->rank());
}

}  // namespace

const Sharding* CustomCallBackward(const PropagationContext& c, const Instruction& user,
                                   const Sharding* s, const Instruction& x) {
  // XLA asks the Python code for its rule, which the text does not hold.
  if (IsCustomCallTo(user, kPythonPartitionedTarget)) return RelationBackward(c, user, s, x);
  if (!IsDimwiseCall(user)) return SameDimsBackward(c, user, s, x);
  return DimwiseSharding(c, user, s, user.shape(), x.shape());
}

// XLA on CPUs and GPUs takes what users want of the result of a call that JAX has registered, of
// one matrix without a batch, too.
bool IsRegisteredLinalgCall(const Instruction& x) {
  const std::string_view target = x.attributes<CustomCallAttributes>().target;
  return IsLinalgCall(target) && TpuLinalgRoutine(target).empty();
}

bool CustomCallSupported(const PropagationContext&, const Instruction& x) {
  return PassesThrough(x) || IsRegisteredLinalgCall(x) || BatchDimsOf(x) > 0 || IsDimwiseCall(x) ||
         IsCustomCallTo(x, kPythonPartitionedTarget) || IsCustomCallTo(x, kShardBarrierFrom) ||
         IsCustomCallTo(x, kShardBarrierTo);
}

void CustomCallForward(const PropagationContext& c, const Instruction& x, Offers& offers) {
  if (PassesThrough(x) || IsCustomCallTo(x, kShardBarrierTo)) FirstOperandForward(c, x, offers);
  if (BatchDimsOf(x) > 0) BatchForward(c, x, offers);
  if (IsCustomCallTo(x, kPythonPartitionedTarget)) RelationForward(c, x, offers);
  if (!IsDimwiseCall(x)) return;
  if (const Sharding* s = c.NotMaximal(x.operand(0))) {
    offers.Add(DimwiseSharding(c, x, s, x.operand(0)->shape(), x.shape()), x.operand(0), true);
  }
}

}  // namespace gshard
