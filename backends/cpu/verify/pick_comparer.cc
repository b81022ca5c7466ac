#include "backends/cpu/verify/pick_comparer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "backends/cpu/arrays/array_rows.h"

namespace gshard::cpu {

PickComparer::PickComparer(const Module& whole, const ShownChoices& shown, const MeshRun& mesh,
                           Spreads spreads, PickSource& source)
    : shown_(shown),
      mesh_(mesh),
      spreads_(std::move(spreads)),
      source_(source),
      scale_(whole),
      open_(shown.candidates.size()),
      found_(shown.choices.size()) {}

bool PickComparer::Prepare(std::span<const uint32_t> probes) {
  std::vector<uint32_t> wanted;
  for (uint32_t probe : probes) {
    if (spreads_[probe]) wanted.push_back(probe);
  }
  std::vector<std::optional<WholeValue>> values = source_.Take(wanted);
  for (size_t i = 0; i < wanted.size(); ++i) open_[wanted[i]].mesh = std::move(values[i]);
  return true;
}

void PickComparer::Show(uint32_t probe, uint32_t, std::byte* data, int64_t part, int64_t) {
  if (part == 0) open_[probe].whole = data;
}

void PickComparer::Finish(std::span<const uint32_t> probes) {
  for (uint32_t probe : probes) {
    const size_t c = shown_.choice_of[probe];
    if (shown_.choices[c].probe != probe) continue;
    Compare(c);
    for (uint32_t t = shown_.choices[c].first_deciding; t <= probe; ++t) {
      if (open_[t].IsKnown()) source_.Return(open_[t].mesh->data);
      open_[t] = {};
    }
  }
}

std::vector<NearTie> PickComparer::NearTies() const {
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

RowError PickComparer::ErrorOf(uint32_t probe) {
  Open& open = open_[probe];
  const Instruction& x = *shown_.candidates[probe].x;
  const DType dtype = x.shape()->dtype();
  const double magnitude = LargestMagnitude(dtype, {open.whole, open.mesh->data.size()});
  open.allowed = ToleranceOf(dtype) * scale_.Of(x, magnitude) + kSmallestAllowed;
  RowError error;
  CompareRow(dtype, open.mesh->data.data(), open.whole, x.shape()->element_count(), open.allowed, 0,
             error);
  scale_.Observe(x, error.largest, ToleranceOf(dtype));
  return error;
}

bool PickComparer::Agrees(uint32_t probe) {
  return open_[probe].IsKnown() && open_[probe].whole != nullptr && ErrorOf(probe).beyond == 0;
}

void PickComparer::Compare(size_t c) {
  const Choice& choice = shown_.choices[c];
  const Open& picks = open_[choice.probe];
  if (!picks.IsKnown() || picks.whole == nullptr) return;
  bool decides_alike = choice.is_held;
  for (uint32_t t = choice.first_deciding; t < choice.probe; ++t) {
    decides_alike = Agrees(t) && decides_alike;
  }
  if (ErrorOf(choice.probe).beyond == 0) return;
  Found& found = found_[c];
  found.has_other_cause |= !decides_alike;
  Note(choice, found);
  if (decides_alike) TakePicks(choice);
}

void PickComparer::Note(const Choice& choice, Found& found) {
  const Open& picks = open_[choice.probe];
  const Shape* shape = choice.x->shape();
  const DType dtype = shape->dtype();
  const int64_t bytes = StorageBytes(dtype);
  RowError worst;
  uint32_t worst_device = 0;
  int64_t beyond = 0, elements = 0;
  const MeshRun::ProbeSpread& spread = *spreads_[choice.probe];
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

void PickComparer::NoteContenders(const Choice& choice, int64_t at, Found& found) {
  const Open& picks = open_[choice.probe];
  const auto bytes = static_cast<size_t>(StorageBytes(choice.x->shape()->dtype()));
  std::array<std::byte, 16> have{}, want{};
  std::memcpy(have.data(), picks.mesh->data.data() + static_cast<size_t>(at) * bytes, bytes);
  std::memcpy(want.data(), picks.whole + static_cast<size_t>(at) * bytes, bytes);
  found.contenders = ContendersOf(*choice.x, at, have.data(), want.data());
  for (const Contender& contender : found.contenders) {
    ContenderValue& value = found.values.emplace_back();
    ReadGiven(*contender.operand, value);
    for (uint32_t t = choice.first_deciding; t < choice.probe; ++t) {
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

void PickComparer::TakePicks(const Choice& choice) {
  took_picks_ = true;
  const Open& picks = open_[choice.probe];
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

}  // namespace gshard::cpu
