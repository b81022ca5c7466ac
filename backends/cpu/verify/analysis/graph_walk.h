// Where an array's elements come from, through tuples, calls, branches and loops.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_ANALYSIS_GRAPH_WALK_H_
#define GSHARD_BACKENDS_CPU_VERIFY_ANALYSIS_GRAPH_WALK_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "ir/module.h"

namespace gshard::cpu {

class GraphWalk {
 public:
  explicit GraphWalk(const Module& module);

  // What x is computed from, one step back: its operands; of an element of a tuple, what the tuple
  // was made of; of parameters and results of called computations, what is passed and returned (in
  // loops both the first value and the next one). Empty at the entry's parameters. The module must
  // outlive this.
  std::vector<const Instruction*> Behind(const Instruction& x) const;

 private:
  void AppendElement(const Instruction& tuple, int64_t index, int depth,
                     std::vector<const Instruction*>& out) const;
  void AppendPassedIn(const Instruction& parameter, int64_t index, int depth,
                      std::vector<const Instruction*>& out) const;
  void Append(const Instruction& x, int64_t index, int depth,
              std::vector<const Instruction*>& out) const;

  std::unordered_map<const Computation*, std::vector<const Instruction*>> callers_;
};

// Does x only move, copy or pick elements of its operands by position?
bool OnlyMoves(const Instruction& x);

// The array all of whose elements x has, in their order or another one: of a copy, a sharding
// marker, a reshape, a transpose, and of an element of a tuple that is put together right there.
// Null: x is something else.
const Instruction* MovedFrom(const Instruction& x);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_ANALYSIS_GRAPH_WALK_H_
