// Which of OpenBLAS's kernels computes.
//
// OpenBLAS has a set of kernels, a "core", for each family of processors and chooses one when it is
// loaded, by the processor's model. A model that is newer than the library gets an old core, with a
// fourth of the speed and less. Here the choice is by what the processor can do.
#ifndef GSHARD_BACKENDS_CPU_MACHINE_BLAS_CORE_H_
#define GSHARD_BACKENDS_CPU_MACHINE_BLAS_CORE_H_

#include <optional>
#include <string>
#include <string_view>

#include "backends/cpu/machine/processor.h"

namespace gshard::cpu {

struct BlasLibrary {
  std::string version;  // "0.3.21"; empty: it does not say
  std::string core;     // "SkylakeX", "Haswell", "Prescott"
};
// What is loaded, as it is now.
BlasLibrary LoadedBlas();

// What a core computes with; nothing for a name that is not known here: of another architecture, or
// newer than this table.
std::optional<InstructionSet> InstructionsOf(std::string_view core);

struct BlasCoreChoice {
  std::string core;        // the right one; empty: it is in use, or nothing is known of the library
  bool is_advice = false;  // the user has chosen another, which stays
};
// `instructions`: what may be used, of what the processor offers. `chosen_by_user`: by
// OPENBLAS_CORETYPE. Taken is the best core that is known to be right: AVX-512's from version
// 0.3.21 on. Before, libraries for several processors that were built on an older one computed
// wrong products with it (OpenBLAS issues 2986 and 3454, resolved by 3571). Of AVX-512's cores it
// is SkylakeX: Cooperlake and SapphireRapids add products of bf16, which we do not call, and
// SapphireRapids failed LAPACK's tests of complex numbers where SkylakeX did not (issue 4282).
BlasCoreChoice ChooseBlasCore(InstructionSet instructions, const BlasLibrary& library,
                              bool chosen_by_user);

// Makes OpenBLAS compute with a core that the processor can run; takes 15 to 40 us. Returns false,
// and changes nothing, where the library has no choice (built without DYNAMIC_ARCH) or not that
// core. It sets and restores an environment variable, and no other thread may be inside OpenBLAS:
// for the start of a program.
bool SwitchBlasCore(const std::string& core);

// How much longer a product of two matrices of 256 x 256 takes with the core in use than with
// `other`, the best of four each, by turns: 2 to 20 ms. As SwitchBlasCore, which it calls; 1 where
// that fails.
double SlowdownAgainst(const std::string& other);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_MACHINE_BLAS_CORE_H_
