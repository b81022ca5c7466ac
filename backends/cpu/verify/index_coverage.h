// What of the indexed dims of a program was reached while its unpartitioned graph ran: which tiles
// of the mesh, and whether anything lay beyond the ends. A wrong program may still pass where
// nothing did.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_INDEX_COVERAGE_H_
#define GSHARD_BACKENDS_CPU_VERIFY_INDEX_COVERAGE_H_

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/cpu/plan/index_observer.h"
#include "core/analysis/index_inputs.h"
#include "core/partition/partitioner.h"
#include "ir/module.h"

namespace gshard::cpu {

// Of one dim of what an instruction indexes, or of the branches of a conditional (dim -1).
struct NotExercised {
  std::string instruction;
  int64_t dim = -1;
  int64_t parts = 0;            // tiles that the mesh cuts the dim into, or branches
  std::vector<int64_t> missed;  // of them, ascending
  bool no_below = false;        // nothing before the first element
  bool no_beyond = false;       // nothing beyond the last one
};

// Observes gathers, scatters, dynamic slices and updates, and conditionals of `whole` in all runs
// of it. Thread-safe.
class IndexCoverage final : public IndexObserver {
 public:
  // `forms`: how the mesh cuts the arrays of `whole`, by name; others count as one tile. `inputs`:
  // FindIndexInputs of the graph before passes; of instructions that parameters index it is told
  // whether they lay beyond the ends. What follows from counters alone cannot. `whole` outlives
  // this.
  IndexCoverage(const Module& whole, std::span<const LocalForm> forms,
                std::span<const IndexInput> inputs);

  bool Observes(const Instruction& x) const override { return entries_.contains(&x); }
  void Indexed(const Instruction& x, ConstBuffers operands) override;
  void Chosen(const Instruction& x, int64_t branch) override;

  // In program order, of all runs until now; instructions that have never run are left out.
  std::vector<NotExercised> Missing() const;

 private:
  struct IndexedDim {
    int64_t dim = -1;
    int64_t size = 0;    // of the slice or window
    int64_t starts = 0;  // that are in range: 0..starts-1
    int64_t tile = 1;    // elements
    std::vector<bool> reached;
    bool below = false, beyond = false;  // reached, or not to be told
  };
  struct Entry {
    const Instruction* x = nullptr;
    std::vector<IndexedDim> dims;
    bool has_run = false, is_complete = false;
  };

  void Add(const Instruction& x, std::span<const LocalForm> forms, bool is_drawn);
  static void Reach(int64_t start, IndexedDim& dim);
  static bool IsComplete(const Entry& entry);

  std::unordered_map<const Instruction*, size_t> entries_;
  mutable std::mutex mutex_;
  std::vector<Entry> list_;  // in program order
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_INDEX_COVERAGE_H_
