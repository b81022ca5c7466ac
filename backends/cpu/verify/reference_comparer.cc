#include "backends/cpu/verify/reference_comparer.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "backends/cpu/arrays/array_rows.h"
#include "backends/cpu/verify/verify.h"

namespace gshard::cpu {

ReferenceComparer::ReferenceComparer(Compared compared, const MeshRun& mesh, Spreads spreads,
                                     ValueSource& source, ErrorScale& scale)
    : compared_(std::move(compared)),
      choices_(compared_.choices->candidates),
      mesh_(mesh),
      spreads_(std::move(spreads)),
      source_(source),
      scale_(scale),
      iterations_(spreads_.size(), 0),
      open_(spreads_.size()),
      found_(compared_.choices->choices.size()) {}

bool ReferenceComparer::Prepare(std::span<const uint32_t> probes) {
  std::vector<uint32_t> wanted;
  for (uint32_t probe : probes) {
    open_[probe] = {};
    const bool wants = CandidateOf(probe).Wants(iterations_[probe]++, compared_.first_pass);
    if (wants && spreads_[probe]) wanted.push_back(probe);
  }
  std::vector<std::optional<WholeValue>> values = source_.Take(wanted);
  for (size_t i = 0; i < wanted.size(); ++i) open_[wanted[i]].mesh = std::move(values[i]);
  return true;
}

// Where several devices run the whole graph, the first one's value stands for all.
void ReferenceComparer::Show(uint32_t probe, uint32_t c, std::byte* data, int64_t part, int64_t) {
  if (part == 0 && c == 0) open_[probe].whole = data;
}

void ReferenceComparer::Finish(std::span<const uint32_t> probes) {
  const auto close = [&](uint32_t probe) {
    if (open_[probe].mesh && !open_[probe].mesh->data.empty()) {
      source_.Return(open_[probe].mesh->data);
    }
    open_[probe] = {};
  };
  for (uint32_t probe : probes) {
    if (IsOfArray(probe)) {
      FinishArray(probe);
      close(probe);
      continue;
    }
    const size_t c = compared_.choices->choice_of[probe - compared_.arrays.size()];
    const Choice& choice = compared_.choices->choices[c];
    if (ProbeOf(choice.probe) != probe) {
      KeepDeciding(probe);
      continue;
    }
    if (open_[probe].IsKnown()) FinishChoice(choice, found_[c]);
    for (uint32_t t = ProbeOf(choice.first_deciding); t <= probe; ++t) close(t);
  }
}

void ReferenceComparer::FinishArray(uint32_t probe) {
  Candidate& candidate = CandidateOf(probe);
  const Open& open = open_[probe];
  if (!open.mesh) return;
  const int64_t iteration = iterations_[probe] - 1;
  const Candidate::Missed* retry = compared_.first_pass ? nullptr : candidate.FindRetry(iteration);
  const uint64_t order = retry == nullptr ? next_order_++ : retry->order;
  if (open.mesh->data.empty()) candidate.missed.push_back({iteration, order});
  if (!open.IsKnown()) return;
  Comparison comparison = Compare(probe);
  comparison.order = order;
  compared_.note(candidate, comparison);
}

// The choice may be made in the memory of what decides it.
void ReferenceComparer::KeepDeciding(uint32_t probe) {
  Open& open = open_[probe];
  if (!open.IsKnown()) return;
  open.agrees = Compare(probe).beyond == 0;
  open.kept.assign(open.whole, open.whole + open.mesh->data.size());
  open.whole = open.kept.data();
}

void ReferenceComparer::FinishChoice(const Choice& choice, Found& found) {
  bool decides_alike = choice.is_held;
  for (uint32_t t = ProbeOf(choice.first_deciding); t < ProbeOf(choice.probe); ++t) {
    decides_alike = decides_alike && open_[t].agrees;
  }
  Comparison picks = Compare(ProbeOf(choice.probe));
  picks.order = next_order_++;
  if (picks.beyond > 0) {
    const bool is_tie = decides_alike && IsTie(choice);
    found.has_other_cause |= !is_tie;
    if (found.x == nullptr) {
      found.x = choice.x;
      found.order = picks.order;
      found.pick = picks.mismatch;
      found.pick.differences = found.pick.elements = 0;
      found.contenders = ContendersOf(*choice.x, picks.at, picks.have.data(), picks.want.data());
      found.values = ValuesOf(choice, found.contenders);
    }
    found.pick.differences += picks.beyond;
    found.pick.elements += picks.elements;
    if (is_tie) {
      TakePicks(choice);
      picks.at = -1;
    }
  }
  if (compared_.note && compared_.first_pass) {
    compared_.note(choices_[choice.probe], picks);
  }
}

std::vector<NearTie> ReferenceComparer::NearTies() const {
  std::vector<const Found*> found;
  for (const Found& f : found_) {
    if (f.x != nullptr && !f.has_other_cause) found.push_back(&f);
  }
  std::ranges::sort(found, {}, &Found::order);
  std::vector<NearTie> ties;
  for (const Found* f : found) {
    ties.push_back(DescribeNearTie(*f->x, f->pick, f->contenders, f->values));
  }
  return ties;
}

Comparison ReferenceComparer::Compare(uint32_t probe) {
  Open& open = open_[probe];
  const Instruction& x = *CandidateOf(probe).x;
  const DType dtype = x.shape()->dtype();
  const size_t size = open.mesh->data.size();
  Comparison comparison;
  comparison.magnitude = LargestMagnitude(dtype, {open.whole, size});
  comparison.allowed = open.allowed =
      ToleranceOf(dtype) * scale_.Of(x, comparison.magnitude) + kSmallestAllowed;
  const auto differs = [&](std::span<const std::byte> mesh) {
    return !mesh.empty() && std::memcmp(mesh.data(), open.whole, size) != 0;
  };
  if (differs(open.mesh->data) || differs(open.mesh->other)) CompareOnDevices(probe, comparison);
  scale_.Observe(x, comparison.largest, ToleranceOf(dtype));
  return comparison;
}

// As the devices have them: the worst element of the lowest one.
void ReferenceComparer::CompareOnDevices(uint32_t probe, Comparison& comparison) {
  const Open& open = open_[probe];
  const Shape* shape = CandidateOf(probe).x->shape();
  const DType dtype = shape->dtype();
  const int64_t bytes = StorageBytes(dtype);
  const MeshRun::ProbeSpread& spread = *spreads_[probe];
  std::vector<uint32_t> devices;
  for (uint32_t c = 0; c < spread.class_count(); ++c) {
    devices.insert(devices.end(), spread.devices(c).begin(), spread.devices(c).end());
  }
  std::ranges::sort(devices);
  // Of copies that differ the lowest device's and the highest's are known.
  std::map<uint32_t, uint32_t> last_of_tile;
  for (uint32_t device : devices) last_of_tile[spread.tile_of(device)] = device;
  const std::byte* worst_copy = nullptr;
  uint32_t worst_device = 0;
  for (uint32_t device : devices) {
    const bool has_other = !open.mesh->other.empty() && !spread.IsFirstOfTile(device);
    if (has_other && last_of_tile[spread.tile_of(device)] != device) continue;
    const std::byte* copy = has_other ? open.mesh->other.data() : open.mesh->data.data();
    const MeshRun::Instance box = mesh_.BoxOf(spread, device);
    RowError error;
    ForEachRow(box.start, box.sizes, shape->dims(), [&](int64_t at, int64_t, int64_t count) {
      comparison.elements += count;
      CompareRow(dtype, copy + at * bytes, open.whole + at * bytes, count, comparison.allowed, at,
                 error);
    });
    comparison.beyond += error.beyond;
    if (error.largest <= comparison.largest) continue;
    comparison.largest = error.largest;
    comparison.at = error.at;
    worst_copy = copy;
    worst_device = device;
  }
  if (comparison.at < 0) return;
  const std::byte *have = worst_copy + comparison.at * bytes,
                  *want = open.whole + comparison.at * bytes;
  comparison.have.assign(have, have + bytes);
  comparison.want.assign(want, want + bytes);
  comparison.mismatch = MismatchAt(dtype, shape->dims(), open.whole, comparison.at, worst_device,
                                   worst_copy, comparison.at);
  comparison.mismatch.differences = comparison.beyond;
  comparison.mismatch.elements = comparison.elements;
}

std::vector<ContenderValue> ReferenceComparer::ValuesOf(
    const Choice& choice, std::span<const Contender> contenders) const {
  std::vector<ContenderValue> values;
  for (const Contender& contender : contenders) {
    ContenderValue& value = values.emplace_back();
    ReadGiven(*contender.operand, value);
    for (uint32_t k = choice.first_deciding; k < choice.probe; ++k) {
      const Open& open = open_[ProbeOf(k)];
      if (choices_[k].x != contender.operand || !open.IsKnown()) continue;
      const auto size = static_cast<size_t>(StorageBytes(contender.operand->shape()->dtype()));
      const size_t place = static_cast<size_t>(contender.at) * size;
      std::memcpy(value.have.data(), open.mesh->data.data() + place, size);
      std::memcpy(value.want.data(), open.whole + place, size);
      value.allowed = open.allowed;
      value.known = true;
    }
  }
  return values;
}

template <typename Visit>
void ReferenceComparer::ForEachFlip(const Choice& choice, Visit visit) const {
  const Open& picks = open_[ProbeOf(choice.probe)];
  const DType dtype = choice.x->shape()->dtype();
  const std::byte* mesh = picks.mesh->data.data();
  const auto bytes = static_cast<size_t>(StorageBytes(dtype));
  for (int64_t i = 0; i < choice.x->shape()->element_count(); ++i) {
    const size_t at = static_cast<size_t>(i) * bytes;
    if (std::memcmp(picks.whole + at, mesh + at, bytes) == 0) continue;
    if (ElementError(dtype, mesh, i, picks.whole, i) <= picks.allowed) continue;
    visit(i, mesh + at, picks.whole + at);
  }
}

bool ReferenceComparer::IsTie(const Choice& choice) const {
  const size_t id = choice.x->id();
  if (id < compared_.right.size() && compared_.right[id] != 0) return true;
  bool is_tie = true;
  ForEachFlip(choice, [&](int64_t i, const std::byte* mesh, const std::byte* whole) {
    if (!is_tie) return;
    const std::vector<Contender> contenders = ContendersOf(*choice.x, i, mesh, whole);
    is_tie = MakesPick(*choice.x, mesh, ValuesOf(choice, contenders));
  });
  return is_tie;
}

void ReferenceComparer::TakePicks(const Choice& choice) {
  took_picks_ = true;
  const auto bytes = static_cast<size_t>(StorageBytes(choice.x->shape()->dtype()));
  ForEachFlip(choice, [&](int64_t, const std::byte* mesh, std::byte* whole) {
    std::memcpy(whole, mesh, bytes);
  });
}

}  // namespace gshard::cpu
