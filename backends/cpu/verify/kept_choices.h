// What the unpartitioned graph has at its choices while it goes on with the mesh's values: the
// mesh's picks and the floats that they are made from, kept for a run on its own way.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_KEPT_CHOICES_H_
#define GSHARD_BACKENDS_CPU_VERIFY_KEPT_CHOICES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "backends/cpu/memory/value_pool.h"
#include "backends/cpu/verify/shown_choices.h"
#include "backends/cpu/verify/value_exchange.h"

namespace gshard::cpu {

class KeptChoices final : public ValueSource {
 public:
  // Values that find no room within the budget are not kept.
  KeptChoices(ShownChoices shown, int64_t budget_bytes);

  const ShownChoices& shown() const { return shown_; }

  // --- the run with the mesh's values: the next iteration of a probe, whose value is there.
  void Keep(uint32_t probe, const std::byte* data);
  // Skips an iteration in which the reference has used only its own values: alone, it computes the
  // same there.
  void Skip(uint32_t probe) { ++iterations_[probe]; }

  // --- the run on its own way
  std::vector<std::optional<WholeValue>> Take(std::span<const uint32_t> probes) override;
  void Return(std::span<std::byte>) override {}

  bool IsEmpty() const { return values_.empty(); }
  int64_t peak_bytes() const { return pool_.peak_bytes(); }

 private:
  ShownChoices shown_;
  ValuePool pool_;
  std::vector<int64_t> iterations_, taken_;  // by probe
  // What decides several choices is kept once.
  std::map<std::pair<const Instruction*, int64_t>, std::span<std::byte>> values_;  // and iteration
};

// What the choices of all iterations of loops would take, as far as these are known.
int64_t BytesToKeep(const Module& whole, const ShownChoices& shown);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_KEPT_CHOICES_H_
