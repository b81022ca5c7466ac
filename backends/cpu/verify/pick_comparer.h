// The unpartitioned graph on its own way: compares its picks with the mesh's, and goes on with the
// mesh's where they tie.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_PICK_COMPARER_H_
#define GSHARD_BACKENDS_CPU_VERIFY_PICK_COMPARER_H_

#include <cstddef>
#include <cstdint>
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

// Where the mesh's arrays come from, by probe.
class PickSource {
 public:
  virtual ~PickSource() = default;
  // Of the probe's next turn; nothing, or without data: it is not known, and not compared.
  virtual std::vector<std::optional<WholeValue>> Take(std::span<const uint32_t> probes) = 0;
  virtual void Return(std::span<std::byte> data) = 0;
};

class PickComparer final : public ProbeObserver {
 public:
  using Spreads =
      std::vector<std::optional<MeshRun::ProbeSpread>>;  // by probe; without one: not shown

  PickComparer(const Module& whole, const ShownChoices& shown, const MeshRun& mesh, Spreads spreads,
               PickSource& source);

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
    bool IsKnown() const { return mesh && !mesh->data.empty(); }
  };
  // Picks of a choice that differ, in all iterations; the rest is of the first.
  struct Found {
    const Instruction* x = nullptr;
    int64_t order = 0;             // 0: none
    bool has_other_cause = false;  // floats that decide differ, too
    Mismatch pick;
    std::vector<Contender> contenders;
    std::vector<ContenderValue> values;
  };

  // Of the mesh's array against the unpartitioned graph's.
  RowError ErrorOf(uint32_t probe);
  bool Agrees(uint32_t probe);
  void Compare(size_t c);
  // As the devices have them: the worst element of the lowest one.
  void Note(const Choice& choice, Found& found);
  void NoteContenders(const Choice& choice, int64_t at, Found& found);
  void TakePicks(const Choice& choice);

  const ShownChoices& shown_;
  const MeshRun& mesh_;
  const Spreads spreads_;
  PickSource& source_;
  ErrorScale scale_;
  std::vector<Open> open_;    // by probe
  std::vector<Found> found_;  // by choice
  int64_t last_order_ = 0;
  bool took_picks_ = false;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_PICK_COMPARER_H_
