#include "backends/cpu/verify/kept_choices.h"

#include <cstring>
#include <set>

#include "backends/cpu/arrays/buffer_bytes.h"
#include "core/analysis/trip_count.h"
#include "ir/computation.h"

namespace gshard::cpu {
namespace {

// How often computations run that are called from one place.
class Iterations {
 public:
  explicit Iterations(const Module& module) {
    for (const Computation* computation : module.computations()) {
      for (const Instruction* x : computation->instructions()) {
        for (const Computation* called : x->called()) caller_[called] = x;
      }
    }
  }
  int64_t Of(const Computation* computation) const {
    const auto caller = caller_.find(computation);
    if (caller == caller_.end()) return 1;
    const Instruction& x = *caller->second;
    const int64_t trips = x.opcode() == Opcode::kWhile ? TripCount(x).value_or(1) : 1;
    return trips * Of(x.parent());
  }

 private:
  std::map<const Computation*, const Instruction*> caller_;
};

}  // namespace

KeptChoices::KeptChoices(ShownChoices shown, int64_t budget_bytes)
    : shown_(std::move(shown)),
      pool_(budget_bytes),
      iterations_(shown_.candidates.size(), 0),
      taken_(shown_.candidates.size(), 0) {}

void KeptChoices::Keep(uint32_t probe, const std::byte* data) {
  const Instruction* x = shown_.candidates[probe].x;
  const auto [value, is_new] = values_.try_emplace({x, iterations_[probe]++});
  if (!is_new) return;
  value->second = pool_.Take(BufferBytes(x->shape()));
  if (!value->second.empty()) std::memcpy(value->second.data(), data, value->second.size());
}

std::vector<std::optional<WholeValue>> KeptChoices::Take(std::span<const uint32_t> probes) {
  std::vector<std::optional<WholeValue>> values;
  for (uint32_t probe : probes) {
    std::optional<WholeValue>& value = values.emplace_back();
    const auto kept = values_.find({shown_.candidates[probe].x, taken_[probe]++});
    if (kept != values_.end()) value.emplace().data = kept->second;
  }
  return values;
}

int64_t BytesToKeep(const Module& whole, const ShownChoices& shown) {
  const Iterations iterations(whole);
  std::set<const Instruction*> seen;
  int64_t bytes = 0;
  for (const Candidate& candidate : shown.candidates) {
    const Instruction* x = candidate.x;
    if (seen.insert(x).second) bytes += BufferBytes(x->shape()) * iterations.Of(x->parent());
  }
  return bytes;
}

}  // namespace gshard::cpu
