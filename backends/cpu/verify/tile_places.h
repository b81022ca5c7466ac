// Where the instances of a probed value belong in the whole array.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_TILE_PLACES_H_
#define GSHARD_BACKENDS_CPU_VERIFY_TILE_PLACES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/run/mesh_run.h"
#include "ir/shape.h"

namespace gshard::cpu {

// Of a tile that several instances have, which differ then, the lowest device's instance is put
// into one whole array and the highest's into another one beside it.
class TilePlaces {
 public:
  // `whole`: the shape that the tiles make; `run` must outlive this.
  TilePlaces(const MeshRun& run, MeshRun::ProbeSpread spread, const Shape* whole);

  // Do devices that have the same tile have instances that may differ?
  bool has_copies() const { return has_copies_; }
  // Writes a part of instance `c` to where it belongs, of what sticks out of the array nothing.
  // `other`: empty without copies.
  void Put(uint32_t c, const std::byte* data, int64_t part, int64_t parts,
           std::span<std::byte> whole, std::span<std::byte> other) const;

 private:
  struct Place {
    uint32_t device = 0;
    bool is_inside = true;  // all of it
    bool is_first = true, is_last = false;
    int64_t at = 0;  // byte of the whole array
  };
  // Dims around the rows, which are one run of memory in the tile and in the whole array.
  struct Outer {
    int64_t size = 0, stride = 0;  // bytes, in the whole array
  };

  void MarkCopies();
  void PutAt(const Place& place, const std::byte* data, int64_t part, int64_t parts,
             std::byte* whole) const;
  void PutRows(const std::byte*& data, std::byte* to, size_t depth) const;

  const MeshRun& run_;
  MeshRun::ProbeSpread spread_;
  const Shape* whole_;
  bool has_copies_ = false;
  int64_t row_bytes_ = 0;
  std::vector<Outer> outer_;     // innermost first
  std::vector<Place> places_;    // by class
  std::vector<uint32_t> begin_;  // of a class's places, and the end
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_TILE_PLACES_H_
