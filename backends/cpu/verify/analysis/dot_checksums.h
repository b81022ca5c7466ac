// Large products of the unpartitioned graph, verified by checksums instead of being computed again.
//
// A product C = A B that the mesh has made is compared with A and B in O(n^2): with weights w,
// C w = A (B w), in blocks of up to 32 columns, each of which has a sum of its own (Freivalds;
// Huang and Abraham, "Algorithm-based fault tolerance for matrix operations", 1984). Roundings of a
// sum of b elements with random errors are sqrt(b) times an element's.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_ANALYSIS_DOT_CHECKSUMS_H_
#define GSHARD_BACKENDS_CPU_VERIFY_ANALYSIS_DOT_CHECKSUMS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backends/cpu/plan/probe.h"
#include "backends/cpu/verify/analysis/compared_arrays.h"
#include "ir/module.h"

namespace gshard::cpu {

struct DotChecksum {
  size_t candidate = 0;
  ProbePoint of_product, of_operands;  // the sums by block of columns; in this order in the graph
  double growth = 1;                 // of what an element of the product may be off by, in a sum
};

// The graph with something else in the place of such products, which is to be overwritten with the
// mesh's values as it is shown.
struct ChecksummedGraph {
  std::unique_ptr<Module> module;
  std::vector<DotChecksum> checksums;
  std::vector<ProbePoint> probes;  // those that were given, of `module`
};

// Nothing: where no product is large, or where the mesh sums all of them in the graph's own order,
// so that its values are likely those of the graph on its own way, bit by bit.
std::optional<ChecksummedGraph> ChecksumDots(const Module& whole,
                                             std::span<const Candidate> candidates,
                                             std::span<const ProbePoint> probes);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_ANALYSIS_DOT_CHECKSUMS_H_
