// Where layers may begin in the forward pass of a training step.
#ifndef GSHARD_CORE_PIPELINE_PLAN_LAYER_CUTS_H_
#define GSHARD_CORE_PIPELINE_PLAN_LAYER_CUTS_H_

#include <optional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/traversal.h"

namespace gshard::pipeline {

struct LayerCuts {
  std::vector<int64_t> starts;  // positions in the forward order, ascending from 0
  std::vector<bool> repeated;   // by layer: one of a run of equal blocks
  int64_t block_bytes = 0;      // that cross where the second of these blocks begins
};

class CutFinder {
 public:
  // `forward`: the instructions that the loss needs, operands before their users, at least one. All
  // must live as long as this.
  CutFinder(const Module& module, const std::vector<Instruction*>& forward, const Users& users);

  // A layer starts at each instruction that matches while the one before it does not, or whose
  // match differs. Errors: E-PIPELINE-004 (no regular expression, or it matches nothing).
  Expected<LayerCuts> ByPattern(const std::string& pattern) const;
  // Stretches between places that one value crosses, or less than anywhere near.
  LayerCuts Stretches() const;
  // Those between places that one value crosses, however long they are: small layers under a loss
  // of many instructions.
  LayerCuts SingleStretches() const;
  // The run of equal blocks of stretches that covers most: its blocks are layers, as is what
  // precedes and what follows. Blocks may begin at any of the stretches that repeat: a list, the
  // earliest first. A block whose first stretch has something else in it, such as the embedding,
  // is one of the run all the same. Without such a run the stretches themselves.
  // A run is to cover half of the forward pass's instructions or, if given, that share of its
  // FLOPs.
  std::vector<LayerCuts> Blocks(const LayerCuts& stretches, std::optional<double> share = {}) const;

 private:
  struct Run {
    size_t begin = 0, period = 0, length = 0;  // in stretches
  };
  struct Crossings {
    std::vector<int64_t> single, lowest;  // where one value crosses, and least of all nearby
    std::vector<int64_t> bytes;           // that cross, by position
  };
  Crossings FindCrossings() const;
  Run LongestRun(const std::vector<int64_t>& starts, std::optional<double> share) const;
  int64_t PositionOf(const Instruction* x) const { return position_[x->id()]; }
  int64_t EndOf(const std::vector<int64_t>& starts, size_t i) const {
    return i + 1 < starts.size() ? starts[i + 1] : static_cast<int64_t>(forward_.size());
  }
  uint64_t Signature(int64_t begin, int64_t end) const;
  bool UsesBefore(int64_t begin, int64_t end, int64_t count) const;
  std::vector<int64_t> WithPartialBlocks(std::vector<int64_t> starts) const;
  LayerCuts CutsAround(const std::vector<int64_t>& starts) const;
  std::vector<uint64_t> Signatures(const std::vector<int64_t>& starts) const;
  std::vector<bool> LongestEqual(const std::vector<int64_t>& starts) const;

  const Module& module_;
  const std::vector<Instruction*>& forward_;
  const Users& users_;
  std::vector<int32_t> position_;  // by id; -1: not in the forward order
};

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PLAN_LAYER_CUTS_H_
