// Which dims of an operation a mesh sub-axis may cut, and the cheapest choice
// (docs/partitioning.md, "Choosing a strategy").
//
// An operation is described by labels, as an einsum "ij,jk->ik": dims with one label are cut
// alike. A label that is summed may be cut too: the results then hold partial values. Each mesh
// sub-axis gets a role, the label it cuts or none (the work is repeated); a role assignment fixes
// the layouts of operands and results. Its price: moving the operands there, the local work, moving
// the results to where they are wanted.
#ifndef GSHARD_CORE_PARTITION_SCOPE_STRATEGY_H_
#define GSHARD_CORE_PARTITION_SCOPE_STRATEGY_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/partition/layout/mesh_layout.h"

namespace gshard {

class PartitionScope;
struct PartitionedValue;

struct Labels {
  static constexpr int kWhole = -1;  // this dim must not be cut
  // Per operand / result, per dim: its label. Tuple results: one entry per leaf.
  std::vector<std::vector<int>> operands;
  std::vector<std::vector<int>> results;
  // Per label.
  struct Label {
    bool summed = false;   // only in operands; the results become partial along its sub-axes
    bool divides = false;  // may be cut only into equal tiles of every dim that has it
    // Largest number of tiles (for grouped and halo dims); 0: no limit.
    int64_t max_tiles = 0;
    // The number of tiles must divide this (groups that must not be split); 0: no limit.
    int64_t groups = 0;
    // Bytes received per device if the label is cut at all (for halos).
    double bytes_if_cut = 0;
    bool divides_slices = false;  // cut, it divides Labels::slices
  };
  std::vector<Label> labels;
  Opcode combiner = Opcode::kAdd;  // of summed labels
  // Where PartitionPolicies::place_by_cost is off: done where the first operand lies, not where the
  // result is to be.
  bool placed_by_operands = false;
  // Results that are partial stay so, and are added up once behind a loop: that costs nothing here.
  bool sums_leave_loop = false;
  // Arithmetic of the whole operation. What cutting a label divides.
  double flops = 0;
  // That a scatter adds, in the whole operation: each has an address.
  double slices = 0;

  int Add(Label label) {
    labels.push_back(label);
    return static_cast<int>(labels.size()) - 1;
  }
  int Add() { return Add(Label()); }
  // Every dim of the operands and the result has its own label, the same in all (same rank).
  static Labels Pointwise(int64_t operand_count, int64_t rank);
};

struct Strategy {
  std::vector<const MeshLayout*> operands;
  std::vector<const MeshLayout*> results;  // partial along summed sub-axes
  std::vector<AxisList> cut;               // per label
  double cost = 0;  // in units of one byte received by a device, as ReshardPlan::cost
  // Results are cut by sub-axes that nobody has there, to be moved where they are wanted
  // afterwards.
  bool cuts_freely = false;
};

// Chooses strategies and remembers them by labels, shapes and the layouts that are at hand. Not
// thread-safe.
class StrategyTable {
 public:
  StrategyTable();
  ~StrategyTable();

  // A run over another module begins: forgets what instructions of the last one stand behind.
  void BeginRun();

  // `wanted`: the layout each result ends in (a hint of where it should be produced). All layouts
  // have the same manual sub-axes. The reference stays valid for the run.
  const Strategy& Choose(PartitionScope& scope, const Labels& labels,
                         std::span<PartitionedValue* const> operands,
                         std::span<const Shape* const> results,
                         std::span<const MeshLayout* const> wanted);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Chooses with the StrategyTable of the run that `scope` belongs to.
const Strategy& ChooseStrategy(PartitionScope& scope, const Labels& labels,
                               std::span<PartitionedValue* const> operands,
                               std::span<const Shape* const> results,
                               std::span<const MeshLayout* const> wanted);

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_SCOPE_STRATEGY_H_
