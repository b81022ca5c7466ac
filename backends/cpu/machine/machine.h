// What of the machine a program computes with: said once, at its start.
#ifndef GSHARD_BACKENDS_CPU_MACHINE_MACHINE_H_
#define GSHARD_BACKENDS_CPU_MACHINE_MACHINE_H_

#include <optional>
#include <string>
#include <vector>

#include "backends/cpu/machine/processor.h"
#include "ir/diagnostic.h"

namespace gshard::cpu {

struct Machine {
  std::string processor;        // its name
  InstructionSet instructions;  // that products take: all it offers, or less by GSHARD_CPU
  std::string blas;             // "OpenBLAS 0.3.21"
  std::string blas_kernel;      // "SkylakeX"
};
// As it is now.
Machine ThisMachine();
// "Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz, avx512_vnni; OpenBLAS 0.3.21, kernel SkylakeX".
std::string ToText(const Machine& machine);

// Limits our loops, OpenBLAS and oneDNN to the instruction set that GSHARD_CPU names, where it is
// set, and gives OpenBLAS its best kernel for it (blas_core.h) where OPENBLAS_CORETYPE is not set.
// For the start of a program, before it has threads that use OpenBLAS: gshard-run calls it, and so
// should a program of your own that calls Emulate. Returns warnings [W-RUN-BLAS]; an error if
// GSHARD_CPU is none of the names of instruction sets, or names one that the processor does not
// offer.
Expected<std::vector<Diagnostic>> SetUpMachine();

// Of a program that has not called SetUpMachine: a warning where that would change OpenBLAS's
// kernel. Emulate gives it.
std::optional<Diagnostic> WarningOfOldKernel();

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_MACHINE_MACHINE_H_
