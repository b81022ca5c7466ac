// Custom calls: a few known targets pass shardings through; an unknown one is fixed by what the
// user wrote on it.
#include "ir/custom_call.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>
#include <vector>

#include "core/propagation/rules.h"

namespace gshard {
namespace {

bool IsOneOf(std::string_view target, std::span<const std::string_view> list) {
  return std::find(list.begin(), list.end(), target) != list.end();
}

constexpr std::array<std::string_view, 3> kAlwaysPassThrough = {"Sharding", "X64Combine",
                                                                "LayoutConstraint"};
constexpr std::array<std::string_view, 9> kSameRankPassThrough = {
    "ResizeNearest", "ResizeBilinear", "ResizeNearestGrad", "ResizeBilinearGrad", "Cholesky",
    "MoveToHost",    "MoveToDevice",   "PinToDevice",       "PinToDeviceSram"};

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
    const Sharding* s = c.Partitioned(operand);
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

}  // namespace

bool CustomCallSupported(const PropagationContext&, const Instruction& x) {
  return PassesThrough(x) || BatchDimsOf(x) > 0 || IsCustomCallTo(x, kShardBarrierFrom) ||
         IsCustomCallTo(x, kShardBarrierTo);
}

void CustomCallForward(const PropagationContext& c, const Instruction& x, Offers& offers) {
  if (PassesThrough(x) || IsCustomCallTo(x, kShardBarrierTo)) FirstOperandForward(c, x, offers);
  if (BatchDimsOf(x) > 0) BatchForward(c, x, offers);
}

}  // namespace gshard
