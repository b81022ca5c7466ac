// Which instruction sets the vectorised loops are compiled for: the baseline, AVX2 and AVX-512.
// Include before <hwy/foreach_target.h>.
#ifndef GSHARD_BACKENDS_CPU_KERNELS_TARGETS_H_
#define GSHARD_BACKENDS_CPU_KERNELS_TARGETS_H_

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)

#endif  // GSHARD_BACKENDS_CPU_KERNELS_TARGETS_H_
