// All tiles have one geometry; what differs is where they begin.
#include "backends/cpu/verify/tile_places.h"

#include <cstring>
#include <utility>

#include "backends/cpu/arrays/array_rows.h"

namespace gshard::cpu {
namespace {

// Rows of one length, `stride` bytes apart; a length that the compiler knows is moved in registers.
template <size_t kBytes>
void CopyRowsOf(const std::byte* from, std::byte* to, int64_t count, int64_t stride) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to, from, kBytes);
    from += kBytes;
    to += stride;
  }
}

void CopyRows(const std::byte* from, std::byte* to, int64_t bytes, int64_t count, int64_t stride) {
  switch (bytes) {
    case 4:
      return CopyRowsOf<4>(from, to, count, stride);
    case 8:
      return CopyRowsOf<8>(from, to, count, stride);
    case 16:
      return CopyRowsOf<16>(from, to, count, stride);
    case 32:
      return CopyRowsOf<32>(from, to, count, stride);
    case 64:
      return CopyRowsOf<64>(from, to, count, stride);
    case 128:
      return CopyRowsOf<128>(from, to, count, stride);
    default:
      for (int64_t i = 0; i < count; ++i) {
        std::memcpy(to + i * stride, from + i * bytes, static_cast<size_t>(bytes));
      }
  }
}

}  // namespace

TilePlaces::TilePlaces(const MeshRun& run, MeshRun::ProbeSpread spread, const Shape* whole)
    : run_(run), spread_(std::move(spread)), whole_(whole) {
  const auto dims = whole->dims();
  std::vector<int64_t> strides(dims.size());
  int64_t stride = StorageBytes(whole->dtype());
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  begin_.push_back(0);
  for (uint32_t c = 0; c < spread_.class_count(); ++c) {
    for (const uint32_t device : spread_.devices(c)) {
      const MeshRun::Instance box = run_.BoxOf(spread_, device);
      Place& place = places_.emplace_back();
      place.device = device;
      for (size_t i = 0; i < dims.size(); ++i) {
        place.at += box.start[i] * strides[i];
        place.is_inside = place.is_inside && box.start[i] + box.sizes[i] <= dims[i];
      }
    }
    begin_.push_back(static_cast<uint32_t>(places_.size()));
  }
  const auto sizes = spread_.tile_dims();
  row_bytes_ = StorageBytes(whole->dtype());
  size_t i = dims.size();
  while (i-- > 0) {
    row_bytes_ = strides[i] * sizes[i];
    if (sizes[i] != dims[i]) break;
  }
  if (i != SIZE_MAX) {
    while (i-- > 0) {
      if (sizes[i] != 1) outer_.push_back({sizes[i], strides[i]});
    }
  }
  MarkCopies();
}

void TilePlaces::MarkCopies() {
  constexpr uint32_t kNone = UINT32_MAX;
  std::vector<uint32_t> lowest, highest;  // places, by tile
  for (uint32_t p = 0; p < places_.size(); ++p) {
    const uint32_t tile = spread_.tile_of(places_[p].device);
    if (tile >= lowest.size()) {
      lowest.resize(tile + 1, kNone);
      highest.resize(tile + 1, kNone);
    }
    has_copies_ = has_copies_ || lowest[tile] != kNone;
    if (lowest[tile] == kNone || places_[p].device < places_[lowest[tile]].device) lowest[tile] = p;
    if (highest[tile] == kNone || places_[p].device > places_[highest[tile]].device) {
      highest[tile] = p;
    }
  }
  if (!has_copies_) return;
  for (Place& place : places_) place.is_first = false;
  for (size_t tile = 0; tile < lowest.size(); ++tile) {
    if (lowest[tile] == kNone) continue;
    places_[lowest[tile]].is_first = true;
    places_[highest[tile]].is_last = true;
  }
}

void TilePlaces::Put(uint32_t c, const std::byte* data, int64_t part, int64_t parts,
                     std::span<std::byte> whole, std::span<std::byte> other) const {
  for (uint32_t p = begin_[c]; p < begin_[c + 1]; ++p) {
    const Place& place = places_[p];
    if (place.is_first) PutAt(place, data, part, parts, whole.data());
    if (place.is_last) PutAt(place, data, part, parts, other.data());
  }
}

void TilePlaces::PutAt(const Place& place, const std::byte* data, int64_t part, int64_t parts,
                       std::byte* whole) const {
  if (parts == 1 && place.is_inside) return PutRows(data, whole + place.at, outer_.size());
  const int64_t bytes = StorageBytes(whole_->dtype());
  const MeshRun::Instance box = run_.BoxOf(spread_, place.device);
  const BoxRows rows(box.start, box.sizes, whole_->dims());
  ForEachRunOfPart(rows, part, parts, [&](int64_t global, int64_t local, int64_t count) {
    std::memcpy(whole + global * bytes, data + local * bytes, static_cast<size_t>(count * bytes));
  });
}

// The rows of `depth` dims; goes on in `data`.
void TilePlaces::PutRows(const std::byte*& data, std::byte* to, size_t depth) const {
  if (depth == 0) {
    std::memcpy(to, data, static_cast<size_t>(row_bytes_));
    data += row_bytes_;
    return;
  }
  const Outer& outer = outer_[depth - 1];
  if (depth == 1) {
    CopyRows(data, to, row_bytes_, outer.size, outer.stride);
    data += row_bytes_ * outer.size;
    return;
  }
  for (int64_t i = 0; i < outer.size; ++i) PutRows(data, to + i * outer.stride, depth - 1);
}

}  // namespace gshard::cpu
