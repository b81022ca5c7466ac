// Which instructions follow from random streams or from discrete decisions over floats: their
// values may differ from the unpartitioned graph's without anything being wrong.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_ANALYSIS_TAINT_H_
#define GSHARD_BACKENDS_CPU_VERIFY_ANALYSIS_TAINT_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "ir/module.h"

namespace gshard::cpu {

// `rng`, whose stream partitioning may change.
bool IsRandomSource(const Instruction& x);
// Picks among floats: a rounding difference can change which.
bool IsDiscreteChoice(const Instruction& x);

// A constant whose values the text leaves out, or a tuple with one in it.
bool IsElidedConstant(const Instruction& x);

// What follows from an instruction for which `is_source` holds. Values that a loop carries follow
// from all that its body computes.
class Taint {
 public:
  Taint(const Module& module, bool (*is_source)(const Instruction&));
  bool Of(const Instruction& x) const { return tainted_[x.id()] != 0; }
  // The k-th leaf of the entry's root.
  bool OfOutput(size_t k) const { return k < outputs_.size() && outputs_[k]; }

 private:
  void Walk(const Computation& computation, bool argument_tainted);
  bool OperandsTainted(const Instruction& x) const;
  bool Holds(const Instruction& x);
  bool Contains(const Computation& computation);
  void AppendOutputs(const Instruction* x);

  bool (*is_source_)(const Instruction&);
  std::vector<uint8_t> tainted_;  // by instruction id
  std::unordered_map<const Computation*, bool> contains_;
  std::unordered_map<const Computation*, int> walked_;  // 1: with clean arguments, 2: with tainted
  std::vector<bool> outputs_;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_ANALYSIS_TAINT_H_
