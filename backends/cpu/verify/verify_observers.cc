// Values are handed over, compared and put together piece by piece, from any thread.
#include "backends/cpu/verify/verify_observers.h"

#include <cmath>
#include <cstring>
#include <set>

#include "backends/cpu/arrays/array_rows.h"
#include "backends/cpu/arrays/buffer_bytes.h"
#include "backends/cpu/verify/element_error.h"

namespace gshard::cpu {
namespace {

// Small enough to stay in cache from the first look to the second.
constexpr int64_t kCachedBytes = 32768;

double AllowedError(const Instruction& x, double scale) {
  return ToleranceOf(x.shape()->dtype()) * scale + kSmallestAllowed;
}

}  // namespace

int64_t AdoptedValues::bytes() const {
  int64_t bytes = 0;
  for (const auto& [x, iterations] : arrays_) {
    bytes += BufferBytes(x->shape()) * static_cast<int64_t>(iterations.size());
  }
  return bytes;
}

// --- ReferenceProducer

bool ReferenceProducer::Prepare(std::span<const uint32_t> probes) {
  if (!exchange_.WaitUntilNeeded()) return false;
  for (uint32_t probe : probes) {
    Open& open = open_[probe];
    open.wanted = candidates_[probe].Wants(iterations_[probe]++, first_pass_) ||
                  adopted_.Find(*candidates_[probe].x, iterations_[probe] - 1) != nullptr;
    if (!open.wanted) continue;
    open.magnitude = 0;
    open.data = exchange_.Room(probe, BufferBytes(candidates_[probe].x->shape()));
  }
  return true;
}

void ReferenceProducer::Show(uint32_t probe, uint32_t c, std::byte* data, int64_t part,
                             int64_t parts) {
  Open& open = open_[probe];
  // Where several devices run the whole graph, the first one's value stands for all.
  if (!open.wanted || c != 0) return;
  if (part == 0) open.shown = data;
  const Shape* shape = candidates_[probe].x->shape();
  const int64_t bytes = StorageBytes(shape->dtype());
  const int64_t begin = shape->element_count() * part / parts * bytes;
  const int64_t end = shape->element_count() * (part + 1) / parts * bytes;
  double magnitude = 0;
  for (int64_t at = begin; at < end; at += kCachedBytes) {
    const std::span<const std::byte> piece(data + at,
                                           static_cast<size_t>(std::min(kCachedBytes, end - at)));
    magnitude = std::max(magnitude, LargestMagnitude(shape->dtype(), piece));
    if (!open.data.empty()) {
      std::memcpy(open.data.data() + at, piece.data(), piece.size());
    }
  }
  double largest = open.magnitude.load();
  while (magnitude > largest && !open.magnitude.compare_exchange_weak(largest, magnitude)) {
  }
}

void ReferenceProducer::Finish(std::span<const uint32_t> probes) {
  // All scales before the first value is given: then the consumer may observe errors.
  std::vector<std::pair<uint32_t, WholeValue>> values;
  for (uint32_t probe : probes) {
    if (open_[probe].wanted) values.emplace_back(probe, Close(probe));
  }
  for (auto& [probe, value] : values) {
    if (candidates_[probe].Wants(iterations_[probe] - 1, first_pass_)) {
      exchange_.Give(probe, std::move(value));
    } else if (!value.data.empty()) {
      exchange_.Return(value.data);
    }
  }
}

WholeValue ReferenceProducer::Close(uint32_t probe) {
  Open& open = open_[probe];
  Candidate& candidate = candidates_[probe];
  const int64_t iteration = iterations_[probe] - 1;
  WholeValue value;
  value.magnitude = open.magnitude;
  value.allowed = AllowedError(*candidate.x, scale_.Of(*candidate.x, value.magnitude));
  value.data = std::exchange(open.data, {});
  if (AdoptedArray* mesh = adopted_.Find(*candidate.x, iteration); mesh != nullptr) {
    Adopt(*candidate.x, std::min(value.allowed, mesh->allowed), open.shown, *mesh);
  }
  if (!candidate.Wants(iteration, first_pass_)) return value;
  const Candidate::Missed* retry = first_pass_ ? nullptr : candidate.FindRetry(iteration);
  value.order = retry == nullptr ? next_order_++ : retry->order;
  if (value.data.empty() && !exchange_.drains())
    candidate.missed.push_back({iteration, value.order});
  return value;
}

void ReferenceProducer::Adopt(const Instruction& x, double allowed, std::byte* data,
                              AdoptedArray& mesh) {
  if (data == nullptr || mesh.data.empty()) return;
  const DType dtype = x.shape()->dtype();
  const auto bytes = static_cast<size_t>(StorageBytes(dtype));
  for (const AdoptedElement& element : mesh.elements) {
    const size_t at = static_cast<size_t>(element.at) * bytes;
    std::memcpy(element.value->want.data(), data + at, bytes);
    std::memcpy(element.value->have.data(), mesh.data.data() + at, bytes);
    element.value->allowed = allowed;
    element.value->known = true;
  }
  RowError error;
  CompareRow(dtype, mesh.data.data(), data, x.shape()->element_count(), allowed, 0, error);
  mesh.accepted = error.beyond == 0;
  if (mesh.accepted) std::memcpy(data, mesh.data.data(), mesh.data.size());
}

// --- MeshComparer

MeshComparer::MeshComparer(std::span<Candidate> candidates, ValueExchange& exchange,
                           ErrorScale& scale, const MeshRun& run, bool first_pass, Done done)
    : candidates_(candidates),
      exchange_(exchange),
      scale_(scale),
      run_(run),
      first_pass_(first_pass),
      done_(std::move(done)),
      iterations_(candidates.size(), 0),
      comparisons_(candidates.size()) {
  for (size_t t = 0; t < candidates.size(); ++t) {
    spreads_.push_back(run.SpreadOfProbe(t, candidates[t].form->sharding));
  }
}

bool MeshComparer::Prepare(std::span<const uint32_t> probes) {
  std::vector<uint32_t> wanted;
  for (uint32_t probe : probes) {
    if (candidates_[probe].Wants(iterations_[probe]++, first_pass_)) wanted.push_back(probe);
  }
  exchange_.Await(wanted);
  for (uint32_t probe : wanted) {
    Comparison& comparison = comparisons_[probe];
    comparison.want = exchange_.Take(probe);
    comparison.iteration = iterations_[probe] - 1;
    comparison.elements = comparison.beyond = 0;
    comparison.largest = 0;
    comparison.at = -1;
  }
  std::erase_if(wanted, [&](uint32_t probe) { return !comparisons_[probe].want.has_value(); });
  DropUnwanted(wanted);
  for (uint32_t probe : wanted) {
    Comparison& comparison = comparisons_[probe];
    if (comparison.want->data.empty()) comparison.want.reset();
  }
  return true;
}

// The producer is ahead and did not know yet what errors the operands have.
void MeshComparer::DropUnwanted(std::vector<uint32_t>& probes) {
  std::sort(probes.begin(), probes.end(), [&](uint32_t a, uint32_t b) {
    return comparisons_[a].want->order < comparisons_[b].want->order;
  });
  for (uint32_t probe : probes) {
    const Instruction& x = *candidates_[probe].x;
    WholeValue& want = *comparisons_[probe].want;
    want.allowed = std::min(want.allowed, AllowedError(x, scale_.Of(x, want.magnitude)));
  }
}

void MeshComparer::Show(uint32_t probe, uint32_t c, std::byte* data, int64_t part, int64_t parts) {
  Comparison& comparison = comparisons_[probe];
  if (!comparison.want) return;
  for (uint32_t device : spreads_[probe]->devices(c)) {
    Compare(probe, comparison, device, data, part, parts);
  }
}

void MeshComparer::Finish(std::span<const uint32_t> probes) {
  for (uint32_t probe : probes) {
    Comparison& comparison = comparisons_[probe];
    if (!comparison.want) continue;
    const Instruction& x = *candidates_[probe].x;
    scale_.Observe(x, comparison.largest, ToleranceOf(x.shape()->dtype()));
    done_(candidates_[probe], comparison);
    exchange_.Return(comparison.want->data);
    comparison.want.reset();
  }
}

void MeshComparer::Compare(uint32_t probe, Comparison& comparison, uint32_t device,
                           const std::byte* data, int64_t part, int64_t parts) {
  const Shape* shape = candidates_[probe].x->shape();
  const int64_t bytes = StorageBytes(shape->dtype());
  const MeshRun::Instance box = run_.BoxOf(*spreads_[probe], device);
  const BoxRows rows(box.start, box.sizes, shape->dims());
  RowError error;
  {
    // Smaller errors than one that was found need no exact look.
    const std::lock_guard lock(comparison.mutex);
    error.largest = std::nextafter(comparison.largest, 0.0);
  }
  int64_t elements = 0, local_at = 0;
  ForEachRunOfPart(rows, part, parts, [&](int64_t global, int64_t local, int64_t count) {
    elements += count;
    const double before = error.largest;
    CompareRow(shape->dtype(), data + local * bytes, comparison.want->data.data() + global * bytes,
               count, comparison.want->allowed, global, error);
    if (error.largest > before) local_at = local + error.at - global;
  });
  const std::lock_guard lock(comparison.mutex);
  comparison.elements += elements;
  comparison.beyond += error.beyond;
  // The same worst element whatever the order of the threads.
  if (error.largest < comparison.largest || error.at < 0) return;
  if (error.largest == comparison.largest &&
      std::pair(device, error.at) > std::pair(comparison.device, comparison.at)) {
    return;
  }
  comparison.largest = error.largest;
  comparison.device = device;
  comparison.at = error.at;
  std::memcpy(comparison.have.data(), data + local_at * bytes, static_cast<size_t>(bytes));
}

// --- Capturer

Capturer::Capturer(std::span<const Candidate> candidates, const MeshRun& run,
                   AdoptedValues& adopted)
    : candidates_(candidates),
      run_(run),
      adopted_(adopted),
      iterations_(candidates.size(), 0),
      open_(candidates.size(), nullptr) {
  for (size_t t = 0; t < candidates.size(); ++t) {
    spreads_.push_back(run.SpreadOfProbe(t, candidates[t].form->sharding));
  }
}

bool Capturer::Prepare(std::span<const uint32_t> probes) {
  for (uint32_t probe : probes) {
    const Instruction& x = *candidates_[probe].x;
    open_[probe] = adopted_.Find(x, iterations_[probe]++);
    if (open_[probe] == nullptr) continue;
    open_[probe]->data.assign(static_cast<size_t>(BufferBytes(x.shape())), std::byte{0});
  }
  return true;
}

void Capturer::Show(uint32_t probe, uint32_t c, std::byte* data, int64_t part, int64_t parts) {
  if (open_[probe] == nullptr) return;
  const Shape* shape = candidates_[probe].x->shape();
  const int64_t bytes = StorageBytes(shape->dtype());
  for (uint32_t device : spreads_[probe]->devices(c)) {
    // Of copies that should be equal the first device's counts.
    if (!spreads_[probe]->IsFirstOfTile(device)) continue;
    const MeshRun::Instance box = run_.BoxOf(*spreads_[probe], device);
    const BoxRows rows(box.start, box.sizes, shape->dims());
    ForEachRunOfPart(rows, part, parts, [&](int64_t global, int64_t local, int64_t count) {
      std::memcpy(open_[probe]->data.data() + global * bytes, data + local * bytes,
                  static_cast<size_t>(count * bytes));
    });
  }
}

}  // namespace gshard::cpu
