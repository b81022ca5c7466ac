// What decides a choice is shown right before the choice, so that nothing waits for it.
#include "backends/cpu/verify/choice_check.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include "backends/cpu/arrays/array_rows.h"
#include "backends/cpu/verify/element_error.h"
#include "backends/cpu/verify/error_scale.h"
#include "backends/cpu/verify/mesh_giver.h"
#include "backends/cpu/verify/near_ties.h"
#include "backends/cpu/verify/value_exchange.h"
#include "ir/computation.h"

namespace gshard::cpu {
namespace {

// A choice, whose tap comes after those of what decides it.
struct Choice {
  const Instruction* x = nullptr;
  uint32_t tap = 0, first_deciding = 0;  // taps [first_deciding, tap) are the deciding arrays
  bool is_held = false;                  // do both graphs have all that decides?
};

// What is shown of both graphs: arrays by tap.
struct ShownArrays {
  std::vector<Candidate> candidates;
  std::vector<TapPoint> whole_taps, local_taps;
  std::vector<Choice> choices;
  std::vector<uint32_t> choice_of;  // by tap
};

class ShownArraysBuilder {
 public:
  ShownArraysBuilder(const Module& whole, const Module& partitioned,
                     std::span<const Candidate> arrays)
      : arrays_(arrays),
        listed_(whole.instruction_limit(), 0),
        positions_(partitioned.instruction_limit(), 0) {
    for (const Candidate& array : arrays) {
      listed_[array.x->id()] = 1;
      forms_.emplace(array.x, array.form);
    }
    uint32_t next = 0;
    for (const Computation* computation : partitioned.computations()) {
      for (const Instruction* x : computation->instructions()) positions_[x->id()] = next++;
    }
  }

  ShownArrays Run() {
    for (const Candidate& array : arrays_) {
      if (DecidingInstruction(*array.x) != nullptr) AddChoice(array);
    }
    return std::move(shown_);
  }

 private:
  void AddChoice(const Candidate& choice) {
    const Instruction& x = *choice.x;
    const Instruction* local = choice.form->local;
    std::vector<const Instruction*> deciding;
    bool is_held = true;
    for (const Instruction* operand : DecidingOperands(*DecidingInstruction(x))) {
      const Instruction* held = HeldForm(operand, listed_);
      is_held = is_held && held != nullptr && held->parent() == x.parent();
      if (held != nullptr) deciding.push_back(held);
    }
    is_held = is_held && !deciding.empty();
    const auto first = static_cast<uint32_t>(shown_.candidates.size());
    for (const Instruction* held : deciding) {
      if (!is_held) break;
      const LocalForm* form = forms_.at(held);
      const bool follows = form->local->parent() == local->parent() &&
                           positions_[form->local->id()] <= positions_[local->id()];
      Add(*held, form, {held, &x}, {form->local, follows ? local : form->local});
    }
    const auto tap = static_cast<uint32_t>(shown_.candidates.size());
    Add(x, choice.form, {&x, &x}, {local, local});
    shown_.choices.push_back({&x, tap, first, is_held});
  }

  void Add(const Instruction& x, const LocalForm* form, TapPoint whole, TapPoint local) {
    Candidate& candidate = shown_.candidates.emplace_back();
    candidate.x = &x;
    candidate.form = form;
    shown_.whole_taps.push_back(whole);
    shown_.local_taps.push_back(local);
    shown_.choice_of.push_back(static_cast<uint32_t>(shown_.choices.size()));
  }

  std::span<const Candidate> arrays_;
  std::vector<uint8_t> listed_;      // by instruction id of the whole graph
  std::vector<uint32_t> positions_;  // by instruction id of the mesh's program
  std::unordered_map<const Instruction*, const LocalForm*> forms_;
  ShownArrays shown_;
};

// The unpartitioned graph: compares its picks, and goes on with the mesh's where they tie.
class PickComparer final : public TapObserver {
 public:
  PickComparer(const Module& whole, const ShownArrays& shown, const MeshRun& mesh,
               ValueExchange& exchange)
      : shown_(shown),
        mesh_(mesh),
        exchange_(exchange),
        scale_(whole),
        open_(shown.candidates.size()),
        found_(shown.choices.size()) {
    for (size_t t = 0; t < shown.candidates.size(); ++t) {
      spreads_.push_back(mesh.SpreadOfTap(t, shown.candidates[t].form->sharding));
    }
  }

  bool Prepare(std::span<const uint32_t> taps) override {
    std::vector<uint32_t> wanted;
    for (uint32_t tap : taps) {
      if (spreads_[tap]) wanted.push_back(tap);
    }
    exchange_.Await(wanted);
    for (uint32_t tap : wanted) open_[tap].mesh = exchange_.Take(tap);
    return true;
  }

  void Show(uint32_t tap, uint32_t, std::byte* data, int64_t part, int64_t) override {
    if (part == 0) open_[tap].whole = data;
  }

  void Finish(std::span<const uint32_t> taps) override {
    for (uint32_t tap : taps) {
      const size_t c = shown_.choice_of[tap];
      if (shown_.choices[c].tap != tap) continue;
      Compare(c);
      for (uint32_t t = shown_.choices[c].first_deciding; t <= tap; ++t) {
        if (open_[t].IsKnown()) exchange_.Return(open_[t].mesh->data);
        open_[t] = {};
      }
    }
  }

  // Where all that differs are ties. In order of execution.
  std::vector<NearTie> NearTies() const {
    std::vector<const Found*> found;
    for (const Found& f : found_) {
      if (f.order > 0 && !f.has_other_cause) found.push_back(&f);
    }
    std::sort(found.begin(), found.end(),
              [](const Found* a, const Found* b) { return a->order < b->order; });
    std::vector<NearTie> ties;
    for (const Found* f : found) {
      ties.push_back(DescribeNearTie(*f->x, f->pick, f->contenders, f->values));
    }
    return ties;
  }

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
  RowError ErrorOf(uint32_t tap) {
    Open& open = open_[tap];
    const Instruction& x = *shown_.candidates[tap].x;
    const DType dtype = x.shape()->dtype();
    const double magnitude = LargestMagnitude(dtype, {open.whole, open.mesh->data.size()});
    open.allowed = ToleranceOf(dtype) * scale_.Of(x, magnitude) + kSmallestAllowed;
    RowError error;
    CompareRow(dtype, open.mesh->data.data(), open.whole, x.shape()->element_count(), open.allowed,
               0, error);
    scale_.Observe(x, error.largest, ToleranceOf(dtype));
    return error;
  }

  bool Agrees(uint32_t tap) {
    return open_[tap].IsKnown() && open_[tap].whole != nullptr && ErrorOf(tap).beyond == 0;
  }

  void Compare(size_t c) {
    const Choice& choice = shown_.choices[c];
    const Open& picks = open_[choice.tap];
    if (!picks.IsKnown() || picks.whole == nullptr) return;
    bool decides_alike = choice.is_held;
    for (uint32_t t = choice.first_deciding; t < choice.tap; ++t) {
      decides_alike = Agrees(t) && decides_alike;
    }
    if (ErrorOf(choice.tap).beyond == 0) return;
    Found& found = found_[c];
    found.has_other_cause |= !decides_alike;
    Note(choice, found);
    if (decides_alike) TakePicks(choice);
  }

  // As the devices have them: the worst element of the lowest one.
  void Note(const Choice& choice, Found& found) {
    const Open& picks = open_[choice.tap];
    const Shape* shape = choice.x->shape();
    const DType dtype = shape->dtype();
    const int64_t bytes = StorageBytes(dtype);
    RowError worst;
    uint32_t worst_device = 0;
    int64_t beyond = 0, elements = 0;
    const MeshRun::TapSpread& spread = *spreads_[choice.tap];
    for (uint32_t k = 0; k < spread.class_count(); ++k) {
      for (uint32_t device : spread.devices(k)) {
        const MeshRun::Instance box = mesh_.BoxOf(spread, device);
        RowError error;
        ForEachRow(box.start, box.sizes, shape->dims(), [&](int64_t at, int64_t, int64_t count) {
          elements += count;
          CompareRow(dtype, picks.mesh->data.data() + at * bytes, picks.whole + at * bytes, count,
                     picks.allowed, at, error);
        });
        beyond += error.beyond;
        if (error.at < 0 || error.largest < worst.largest) continue;
        const bool is_worse = worst.at < 0 || error.largest > worst.largest ||
                              std::pair(device, error.at) < std::pair(worst_device, worst.at);
        if (!is_worse) continue;
        worst = error;
        worst_device = device;
      }
    }
    const bool is_first = found.order == 0;
    if (is_first) {
      found.x = choice.x;
      found.order = ++last_order_;
      found.pick = MismatchAt(dtype, shape->dims(), picks.whole, worst.at, worst_device,
                              picks.mesh->data.data(), worst.at);
      NoteContenders(choice, worst.at, found);
    }
    found.pick.differences += beyond;
    found.pick.elements += elements;
  }

  void NoteContenders(const Choice& choice, int64_t at, Found& found) {
    const Open& picks = open_[choice.tap];
    const auto bytes = static_cast<size_t>(StorageBytes(choice.x->shape()->dtype()));
    std::array<std::byte, 16> have{}, want{};
    std::memcpy(have.data(), picks.mesh->data.data() + static_cast<size_t>(at) * bytes, bytes);
    std::memcpy(want.data(), picks.whole + static_cast<size_t>(at) * bytes, bytes);
    found.contenders = ContendersOf(*choice.x, at, have.data(), want.data());
    for (const Contender& contender : found.contenders) {
      ContenderValue& value = found.values.emplace_back();
      ReadGiven(*contender.operand, value);
      for (uint32_t t = choice.first_deciding; t < choice.tap; ++t) {
        if (shown_.candidates[t].x != contender.operand || !open_[t].IsKnown()) continue;
        const auto size = static_cast<size_t>(StorageBytes(contender.operand->shape()->dtype()));
        const size_t place = static_cast<size_t>(contender.at) * size;
        std::memcpy(value.have.data(), open_[t].mesh->data.data() + place, size);
        std::memcpy(value.want.data(), open_[t].whole + place, size);
        value.allowed = open_[t].allowed;
        value.known = true;
      }
    }
  }

  void TakePicks(const Choice& choice) {
    const Open& picks = open_[choice.tap];
    const DType dtype = choice.x->shape()->dtype();
    const int64_t bytes = StorageBytes(dtype), elements = choice.x->shape()->element_count();
    for (int64_t i = 0; i < elements; ++i) {
      const std::byte* pick = picks.mesh->data.data();
      if (std::memcmp(picks.whole + i * bytes, pick + i * bytes, static_cast<size_t>(bytes)) == 0) {
        continue;
      }
      if (ElementError(dtype, pick, i, picks.whole, i) <= picks.allowed) continue;
      std::memcpy(picks.whole + i * bytes, pick + i * bytes, static_cast<size_t>(bytes));
    }
  }

  const ShownArrays& shown_;
  const MeshRun& mesh_;
  ValueExchange& exchange_;
  ErrorScale scale_;
  std::vector<Open> open_;  // by tap
  std::vector<std::optional<MeshRun::TapSpread>> spreads_;
  std::vector<Found> found_;  // by choice
  int64_t last_order_ = 0;
};

}  // namespace

Expected<ChoiceCheckResult> CheckChoices(const Module& whole, const Module& partitioned,
                                         std::span<const LocalForm> forms, const Inputs& inputs,
                                         const InstructionsOptions& options) {
  const ComparedArrays arrays =
      CollectArrays(whole, options.whole_grid, options.whole_forms, forms);
  const ShownArrays shown = ShownArraysBuilder(whole, partitioned, arrays.candidates).Run();
  MeshAhead runs;
  runs.options = &options;
  runs.candidates = shown.candidates;
  Expected<void> done =
      runs.Prepare(whole, shown.whole_taps, partitioned, shown.local_taps, inputs);
  if (!done) return Fail(done.error());
  PickComparer comparer(whole, shown, *runs.mesh, *runs.exchange);
  done = runs.Run(comparer, [] { return false; });
  if (!done) return Fail(done.error());
  ChoiceCheckResult result;
  result.near_ties = comparer.NearTies();
  result.peak_memory_bytes = runs.peak_memory_bytes();
  if (result.near_ties.empty()) return result;
  const VerifyResult compared = runs.CompareOutputs(whole, options.tolerance);
  result.outputs_agree = compared.ok && compared.discrete_differences == 0;
  return result;
}

}  // namespace gshard::cpu
