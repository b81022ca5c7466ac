// What looks at the two runs of a verification: one hands values over, the other compares its
// shards with them as they are made (verify_instructions.h); a third keeps values of the mesh for
// the unpartitioned graph to go on with (near_ties.h).
#ifndef GSHARD_BACKENDS_CPU_VERIFY_VERIFY_OBSERVERS_H_
#define GSHARD_BACKENDS_CPU_VERIFY_VERIFY_OBSERVERS_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/cpu/plan/probe.h"
#include "backends/cpu/run/mesh_run.h"
#include "backends/cpu/verify/analysis/compared_arrays.h"
#include "backends/cpu/verify/analysis/error_scale.h"
#include "backends/cpu/verify/near_ties.h"
#include "backends/cpu/verify/value_exchange.h"

namespace gshard::cpu {

// An element of an adopted array that is to be told of.
struct AdoptedElement {
  int64_t at = 0;  // flat
  ContenderValue* value = nullptr;
};

// A value of the mesh that the unpartitioned graph goes on with, if it agrees with its own.
struct AdoptedArray {
  std::vector<std::byte> data;  // whole; empty until captured
  std::vector<AdoptedElement> elements;
  double allowed = std::numeric_limits<double>::infinity();  // error, as far as known before
  bool accepted = false;
};

// By instruction of the unpartitioned graph and iteration.
class AdoptedValues {
 public:
  AdoptedArray& Add(const Instruction& x, int64_t iteration) { return arrays_[&x][iteration]; }
  AdoptedArray* Find(const Instruction& x, int64_t iteration) {
    const auto of_x = arrays_.find(&x);
    if (of_x == arrays_.end()) return nullptr;
    const auto array = of_x->second.find(iteration);
    return array == of_x->second.end() ? nullptr : &array->second;
  }
  bool empty() const { return arrays_.empty(); }
  // Of all arrays when captured.
  int64_t bytes() const;

 private:
  std::unordered_map<const Instruction*, std::map<int64_t, AdoptedArray>> arrays_;
};

// The unpartitioned run: copies values and hands them over.
class ReferenceProducer final : public ProbeObserver {
 public:
  ReferenceProducer(std::span<Candidate> candidates, ValueExchange& exchange, ErrorScale& scale,
                    AdoptedValues& adopted, bool first_pass)
      : candidates_(candidates),
        exchange_(exchange),
        scale_(scale),
        adopted_(adopted),
        first_pass_(first_pass),
        iterations_(candidates.size(), 0),
        open_(candidates.size()) {}

  bool Prepare(std::span<const uint32_t> probes) override;
  void Show(uint32_t probe, uint32_t c, std::byte* data, int64_t part, int64_t parts) override;
  void Finish(std::span<const uint32_t> probes) override;

 private:
  struct Open {
    bool wanted = false;
    std::atomic<double> magnitude = 0;
    std::byte* shown = nullptr;
    std::span<std::byte> data;
  };
  // The value that was shown, and what it may be off by.
  WholeValue Close(uint32_t probe);
  // The run goes on with the mesh's value where that is not further off than it may be.
  static void Adopt(const Instruction& x, double allowed, std::byte* data, AdoptedArray& mesh);

  std::span<Candidate> candidates_;
  ValueExchange& exchange_;
  ErrorScale& scale_;
  AdoptedValues& adopted_;
  const bool first_pass_;
  uint64_t next_order_ = 0;
  std::vector<int64_t> iterations_;
  std::vector<Open> open_;
};

// What all instances of a value are compared to at the moment, and what came out.
struct Comparison {
  std::optional<WholeValue> want;
  int64_t iteration = 0;
  std::mutex mutex;
  int64_t elements = 0, beyond = 0;
  double largest = 0;
  uint32_t device = 0;  // that has it
  int64_t at = -1;
  std::array<std::byte, 16> have;
};

// The mesh: compares every instance as it is made. The results are handed to `done`, in the order
// of the mesh.
class MeshComparer final : public ProbeObserver {
 public:
  using Done = std::function<void(Candidate&, const Comparison&)>;

  // `scale` is the producer's: the two use it in turn. What is observed here narrows it.
  MeshComparer(std::span<Candidate> candidates, ValueExchange& exchange, ErrorScale& scale,
               const MeshRun& run, bool first_pass, Done done);

  bool Prepare(std::span<const uint32_t> probes) override;
  bool Wants(uint32_t probe) const override { return comparisons_[probe].want.has_value(); }
  void Show(uint32_t probe, uint32_t c, std::byte* data, int64_t part, int64_t parts) override;
  void Finish(std::span<const uint32_t> probes) override;

 private:
  void DropUnwanted(std::vector<uint32_t>& probes);
  void Compare(uint32_t probe, Comparison& comparison, uint32_t device, const std::byte* data,
               int64_t part, int64_t parts);

  std::span<Candidate> candidates_;
  ValueExchange& exchange_;
  ErrorScale& scale_;
  const MeshRun& run_;
  const bool first_pass_;
  const Done done_;
  std::vector<int64_t> iterations_;
  std::vector<Comparison> comparisons_;
  std::vector<std::optional<MeshRun::ProbeSpread>> spreads_;
};

// The mesh: puts together the arrays that are to be adopted.
class Capturer final : public ProbeObserver {
 public:
  Capturer(std::span<const Candidate> candidates, const MeshRun& run, AdoptedValues& adopted);

  bool Prepare(std::span<const uint32_t> probes) override;
  void Show(uint32_t probe, uint32_t c, std::byte* data, int64_t part, int64_t parts) override;
  bool Wants(uint32_t probe) const override { return open_[probe] != nullptr; }
  void Finish(std::span<const uint32_t>) override {}

 private:
  std::span<const Candidate> candidates_;
  const MeshRun& run_;
  AdoptedValues& adopted_;
  std::vector<int64_t> iterations_;
  std::vector<AdoptedArray*> open_;  // by probe
  std::vector<std::optional<MeshRun::ProbeSpread>> spreads_;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_VERIFY_OBSERVERS_H_
