// Bytes that one array takes in a device's memory, with the padding of its tiled layout.
//
// A tiled layout such as {1,0:T(8,128)} stores whole tiles: the minor dims are padded to multiples
// of the tile's (XLA's public document "Tiled layout").
#ifndef GSHARD_CORE_COST_MEMORY_BUFFER_SIZE_H_
#define GSHARD_CORE_COST_MEMORY_BUFFER_SIZE_H_

#include <cstdint>
#include <vector>

#include "ir/shape.h"

namespace gshard {

enum class Tiling : uint8_t {
  kDense,   // no padding at all
  kLayout,  // tiles that the text's layouts give
  // Those, and T(8,128), in the order of dims that pads least, where there are none. Narrow arrays
  // have tiles of fewer rows: of 32 bits at least, on TPU v2 and v3 of 64.
  kTpu,
  kTpuV3,
};
inline bool IsOfTpu(Tiling tiling) { return tiling >= Tiling::kTpu; }

// Dims that may be the most minor of an array, and those that may be the next, by bit.
struct MinorDims {
  uint32_t first = ~uint32_t{0}, second = ~uint32_t{0};
  bool IsFree() const { return (first & second) == ~uint32_t{0}; }
};

// Those two of the dims that pad an array least; of anything but an array of two dims and more as
// given.
MinorDims LeastPadded(const Shape* shape, MinorDims may_be);

// Of anything but a tuple, in whichever memory. Sizes are capped at 2^46 bytes, so that sums of
// them do not overflow. An unbounded dimension counts as none. `minor` is for TPUs where the text
// has no tile.
int64_t BufferBytes(const Shape* leaf, Tiling tiling, MinorDims minor = {});

// True if a layout of a compiled text puts the array into the chip's fast memory, `S(1)` or, on a
// TPU v4, `S(3)`: it is not in the memory that a program has to fit, and reading it is no traffic.
bool IsInFastMemory(const Shape* leaf);

// True if a layout of a compiled text pads the array to tiles, as compilers for TPUs do:
// `T(8,128)`.
bool HasTiles(const Shape* leaf);

// Of every leaf of a shape, in pre-order.
void AppendLeafBytes(const Shape* shape, Tiling tiling, std::vector<int64_t>& bytes);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_MEMORY_BUFFER_SIZE_H_
