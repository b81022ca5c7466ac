// The unpartitioned graph, which computes its own values: compares them with the mesh's, and goes
// on with the mesh's picks where discrete choices tie (near_ties.h).
#ifndef GSHARD_BACKENDS_CPU_VERIFY_REFERENCE_COMPARER_H_
#define GSHARD_BACKENDS_CPU_VERIFY_REFERENCE_COMPARER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "backends/cpu/run/mesh_run.h"
#include "backends/cpu/verify/analysis/error_scale.h"
#include "backends/cpu/verify/element_error.h"
#include "backends/cpu/verify/near_ties.h"
#include "backends/cpu/verify/shown_choices.h"
#include "backends/cpu/verify/value_exchange.h"

namespace gshard::cpu {

// One value of an array in both graphs: the mesh's instances against the unpartitioned graph's.
struct Comparison {
  uint64_t order = 0;                 // among all values, in order of execution
  double magnitude = 0;               // of the unpartitioned graph's largest element
  double allowed = 0;                 // error of an element
  double largest = 0;                 // error of an element
  int64_t beyond = 0, elements = 0;   // on all devices that may differ
  Mismatch mismatch;                  // where the error is largest, if there is any; unnamed
  int64_t at = -1;                    // that element of the whole array; -1: no element differs
  std::vector<std::byte> have, want;  // that element
};

class ReferenceComparer final : public ProbeObserver {
 public:
  using Spreads =
      std::vector<std::optional<MeshRun::ProbeSpread>>;  // by probe; without one: not shown
  // What is compared. Probes are those of `arrays`, then those of `choices`.
  struct Compared {
    std::span<Candidate> arrays;  // what finds no room is noted as missed
    const ShownChoices* choices = nullptr;
    bool first_pass = true;  // later ones compare again what was missed
    // By instruction id: steps that are right by themselves. Whether another one makes the mesh's
    // pick of the mesh's floats is asked of these floats.
    std::span<const uint8_t> right;
    // Told of each array, and in the first pass of each choice. Null: of none.
    std::function<void(Candidate&, const Comparison&)> note;
  };

  // `scale` and `source` outlive this; `mesh` need not hold values any more.
  ReferenceComparer(Compared compared, const MeshRun& mesh, Spreads spreads, ValueSource& source,
                    ErrorScale& scale);

  bool Prepare(std::span<const uint32_t> probes) override;
  void Show(uint32_t probe, uint32_t c, std::byte* data, int64_t part, int64_t parts) override;
  void Finish(std::span<const uint32_t> probes) override;

  // Where all that differs are ties. In order of execution.
  std::vector<NearTie> NearTies() const;
  // Did the graph go on with another pick than its own?
  bool took_picks() const { return took_picks_; }

 private:
  struct Open {
    std::optional<WholeValue> mesh;
    std::byte* whole = nullptr;
    double allowed = 0;
    // Of what decides a choice: the unpartitioned graph's value, and whether it is the mesh's.
    std::vector<std::byte> kept;
    bool agrees = false;
    bool IsKnown() const { return mesh && !mesh->data.empty() && whole != nullptr; }
  };
  // Picks of a choice that differ, in all iterations; the rest is of the first.
  struct Found {
    const Instruction* x = nullptr;
    uint64_t order = 0;
    bool has_other_cause = false;  // floats that decide differ, too
    Mismatch pick;
    std::vector<Contender> contenders;
    std::vector<ContenderValue> values;
  };

  bool IsOfArray(uint32_t probe) const { return probe < compared_.arrays.size(); }
  uint32_t ProbeOf(uint32_t shown) const {
    return static_cast<uint32_t>(compared_.arrays.size()) + shown;
  }
  Candidate& CandidateOf(uint32_t probe) {
    return IsOfArray(probe) ? compared_.arrays[probe] : choices_[probe - compared_.arrays.size()];
  }
  void FinishArray(uint32_t probe);
  void KeepDeciding(uint32_t probe);
  void FinishChoice(const Choice& choice, Found& found);
  // Of the mesh's array against the unpartitioned graph's.
  Comparison Compare(uint32_t probe);
  void CompareOnDevices(uint32_t probe, Comparison& comparison);
  std::vector<ContenderValue> ValuesOf(const Choice& choice,
                                       std::span<const Contender> contenders) const;
  bool IsTie(const Choice& choice) const;
  void TakePicks(const Choice& choice);
  // Calls visit(element) for those that differ by more than is allowed.
  template <typename Visit>
  void ForEachFlip(const Choice& choice, Visit visit) const;

  Compared compared_;
  std::vector<Candidate> choices_;
  const MeshRun& mesh_;
  const Spreads spreads_;
  ValueSource& source_;
  ErrorScale& scale_;
  std::vector<int64_t> iterations_;  // by probe
  std::vector<Open> open_;           // by probe
  std::vector<Found> found_;         // by choice
  uint64_t next_order_ = 0;
  bool took_picks_ = false;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_REFERENCE_COMPARER_H_
