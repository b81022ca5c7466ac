// Which arrays of the unpartitioned graph are compared with the mesh's, and where each run shows
// them.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_ANALYSIS_COMPARED_ARRAYS_H_
#define GSHARD_BACKENDS_CPU_VERIFY_ANALYSIS_COMPARED_ARRAYS_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/plan/probe.h"
#include "backends/cpu/run/mesh_run.h"
#include "core/partition/partitioner.h"
#include "ir/module.h"

namespace gshard::cpu {

// What is held at a time where memory is short, and what blocks of classes may want at once.
inline constexpr int64_t kMinBudget = int64_t{16} << 20;
inline constexpr int64_t kMaxProbed = int64_t{64} << 20;

// An array that both graphs have; its probe has the same number in both.
struct Candidate {
  const Instruction* x = nullptr;
  const LocalForm* form = nullptr;
  // Inside a loop: only every so many iterations. In-place updates and what a loop carries cost
  // nothing in an iteration, but as much as the whole array to compare.
  int64_t stride_in_iterations = 1;
  bool in_each_pass = false;  // what the unpartitioned graph may go on with
  // An elementwise chain ends in it (chain_ends.h); of whose arrays so many are not looked at.
  bool ends_chain = false;
  int64_t stands_for = 0;
  // Iterations without room for the value, with their place in the order; in the next pass these
  // only.
  struct Missed {
    int64_t iteration = 0;
    uint64_t order = 0;
  };
  std::vector<Missed> missed, retry;

  const Missed* FindRetry(int64_t iteration) const {
    const auto found = std::lower_bound(retry.begin(), retry.end(), iteration,
                                        [](const Missed& m, int64_t t) { return m.iteration < t; });
    return found != retry.end() && found->iteration == iteration ? &*found : nullptr;
  }
  bool Wants(int64_t iteration, bool first_pass) const {
    return first_pass || in_each_pass ? (iteration + 1) % stride_in_iterations == 0
                                      : FindRetry(iteration) != nullptr;
  }
};

struct ComparedArrays {
  std::vector<Candidate> candidates;  // in the order of the text, callees first
  int64_t left_out = 0;               // of random streams
};

// Every array that `whole` has by the name of one of `forms`. Where the whole graph runs on several
// devices (`whole_grid`), the arrays that each of them holds whole, by the names of `whole_forms`.
ComparedArrays CollectArrays(const Module& whole, const DeviceGrid& whole_grid,
                             std::span<const LocalForm> whole_forms,
                             std::span<const LocalForm> forms);

// Probes of the unpartitioned graph, and of the mesh: probe i is of candidate i. The mesh shows
// values in about the order in which the whole graph computes them, which then need not wait. Most
// are in that order; what is made long before (a value that serves several instructions) is shown
// behind the one before it.
std::vector<ProbePoint> WholeProbes(std::span<const Candidate> candidates);
std::vector<ProbePoint> LocalProbes(std::span<const Candidate> candidates,
                                    const Module& partitioned);

// Does the result have its operand's elements, in order?
bool KeepsElements(Opcode opcode);

// The array that x is a copy of, among those that `listed` names by instruction id: x itself, or
// one that it is a reshape, a copy or a broadcast of. Null: none.
const Instruction* HeldForm(const Instruction* x, std::span<const uint8_t> listed);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_ANALYSIS_COMPARED_ARRAYS_H_
