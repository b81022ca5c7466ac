// Random integers that index something: spread over all of it, and a little beyond both ends.
#ifndef GSHARD_BACKENDS_CPU_IO_INDEX_VALUES_H_
#define GSHARD_BACKENDS_CPU_IO_INDEX_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/analysis/index_inputs.h"
#include "ir/shape.h"

namespace gshard::cpu {

// The draws of one leaf. A draw is a value for every element; a scalar start has one place, so that
// it takes several draws to reach every tile and both ends. Values depend on seed, stream, draw and
// place only. Immutable.
//
// Drawn are the edges, the first and the last element of every tile where a dim is cut into 2, 4 or
// 8; values beyond each end, where they have a meaning there; and, of arrays, places all over the
// range: it is cut into as many strata as there are values left to draw, and each stratum is drawn
// once before one is drawn again (stratified sampling). The order of all of them is random.
class IndexValues {
 public:
  // `dims` and `dtype` of the whole array that is filled, of which `input` tells the use.
  IndexValues(const IndexInput& input, DType dtype, std::span<const int64_t> dims);

  // Elements [first, first + count), row-major, of draw number `draw`.
  void Fill(uint64_t seed, uint64_t stream, int64_t draw, int64_t first, int64_t count,
            std::byte* out) const;
  // Of the element at `place`.
  int64_t ValueAt(uint64_t seed, uint64_t stream, int64_t draw, int64_t place) const;

  // How many draws it takes to reach all edges, kMaxWanted of them at the most; 1 for large arrays.
  int64_t WantedDraws() const;
  // "0..63 and beyond (gather.1)"
  std::string InWords() const;
  const std::vector<IndexRange>& ranges() const { return ranges_; }
  const std::vector<std::string>& readers() const { return input_.readers; }

  static constexpr int64_t kMaxWanted = 24;

 private:
  // What one range is drawn from, in this order: edges, values beyond the ends, strata.
  struct Places {
    std::vector<int64_t> edges;
    int64_t beyond = 0;  // on either end
    int64_t strata = 0;
    int64_t count() const { return static_cast<int64_t>(edges.size()) + 2 * beyond + strata; }
  };
  Places PlacesOf(const IndexRange& range) const;

  IndexInput input_;
  std::vector<IndexRange> ranges_;  // those of `input_` that the type holds
  DType dtype_;
  int64_t least_ = 0, most_ = 0;  // of the type
  int64_t components_ = 1;        // along the dim of components
  int64_t inner_ = 1;             // elements between two components
  int64_t vectors_ = 1;           // index vectors
  std::vector<Places> places_;    // of each range
  int64_t wanted_draws_ = 1;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_IO_INDEX_VALUES_H_
