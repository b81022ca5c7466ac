// What XLA's export of StableHLO leaves out. For the importer and core/propagation/canonicalizer.h.
#ifndef GSHARD_IR_STABLEHLO_IMPORT_SIMPLIFY_H_
#define GSHARD_IR_STABLEHLO_IMPORT_SIMPLIFY_H_

#include "ir/module.h"

namespace gshard::stablehlo {

// The instruction that has the value of `x`, made just now at the end of `computation`: an operand
// where `x` changes nothing (sums with 0, products with 1, whole slices), one with fewer operands
// between (a broadcast of a broadcast), else `x`, a constant second where operands commute. Equal
// texts of a program are partitioned alike only if both are without what XLA's export leaves out
// (docs/stablehlo.md has the list). Takes no account of shardings. Every instruction that `x` is
// made of fits its operands.
Instruction* Simplified(Module& module, Computation* computation, Instruction* x);

// Has `x` the operands and attributes that its shape follows from? Else the verifier will say what
// is wrong with it.
bool FitsItsOperands(Module& module, const Instruction& x);

}  // namespace gshard::stablehlo

#endif  // GSHARD_IR_STABLEHLO_IMPORT_SIMPLIFY_H_
