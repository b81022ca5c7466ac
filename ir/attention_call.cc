// See attention_call.h.

#include "ir/attention_call.h"

#include <algorithm>
#include <array>
#include <span>

namespace gshard {
namespace {

constexpr int64_t kRank = 4;

bool HasDims(const Shape* shape, std::span<const int64_t> dims) {
  return shape->IsArray() && std::ranges::equal(shape->dims(), dims);
}

}  // namespace

std::optional<AttentionCall> AttentionByDims(const Instruction& call) {
  if (call.operand_count() < 3) return std::nullopt;
  for (int64_t i = 0; i < 3; ++i) {
    const Shape* shape = call.operand(i)->shape();
    if (!shape->IsArray() || shape->rank() != kRank || !IsFloat(shape->dtype())) {
      return std::nullopt;
    }
  }
  const std::span<const int64_t> q = call.operand(0)->shape()->dims();
  const std::span<const int64_t> k = call.operand(1)->shape()->dims();
  const std::span<const int64_t> v = call.operand(2)->shape()->dims();
  if (q[0] != k[0] || q[3] != k[3] || !std::ranges::equal(k.first(3), v.first(3))) {
    return std::nullopt;
  }
  const int64_t heads_dim = k[1] < k[2] ? 1 : 2;
  const Shape* result = call.shape();
  if (result->IsTuple() && result->elements().size() >= 3 && HasDims(result->element(0), q) &&
      HasDims(result->element(1), k) && HasDims(result->element(2), v)) {
    return AttentionCall{.is_backward = true, .heads_dim = heads_dim};
  }
  if (result->IsTuple() && !result->elements().empty()) result = result->element(0);
  const std::array<int64_t, kRank> forward = {q[0], q[1], q[2], v[3]};
  if (!HasDims(result, forward)) return std::nullopt;
  return AttentionCall{.is_backward = false, .heads_dim = heads_dim};
}

}  // namespace gshard
