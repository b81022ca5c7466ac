// Work that neither its operations nor its bytes tell: sorts, and slices that indices address one
// by one.
#ifndef GSHARD_CORE_COST_IRREGULAR_WORK_H_
#define GSHARD_CORE_COST_IRREGULAR_WORK_H_

#include <vector>

#include "ir/instruction.h"

namespace gshard {

// One sort, or a top-k that is made by one.
struct SortWork {
  double elements = 0;          // of one operand
  double length = 1;            // of the sorted dim
  double operands = 1;          // with the positions that a stable sort compares last
  double largest = 0;           // how many a top-k finds; 0: a sort
  bool is_approximate = false;  // an approximate top-k: candidates are found in one pass
  double key_bytes = 0;         // of an element of all operands that are compared
  double element_bytes = 0;     // of an element of all operands
};

// A sort or a top-k, also as a custom call (kTopKTarget; `__gpu$TopK` and CUB's of XLA for
// GPUs).
bool IsSort(const Instruction& x);
SortWork SortWorkOf(const Instruction& sort);

// Vector operations of a bitonic network (Batcher, 1968): log2(n) (log2(n) + 1) / 2 stages over
// the length, rounded up to a power of two; or of finding the largest k times. What a TPU does, and
// a GPU's block with rows that fit its shared memory.
double SortOperations(const SortWork& sort);

// Passes of a radix sort that takes 8 bits of the key at a time, as a GPU does (Adinets and
// Merrill, arXiv 2206.01784). 0 where rows fit a block's shared memory, in which a network sorts
// them, and of a top-k, which reads rows once.
double RadixPasses(const SortWork& sort);
// Bytes beyond those of reading and writing the operands once: the keys are read for their
// histograms, and everything is read and written at each pass.
double RadixBytes(const SortWork& sort);

// One Fourier transform.
struct FftWork {
  double elements = 0;          // complex numbers, of its larger side
  std::vector<double> factors;  // lengths of the transforms it is made of on a TPU
};

// A length is made of transforms of 128, the width of a TPU's matrix unit, and of what is left
// (Cooley and Tukey, 1965); one that 128 does not divide is one transform.
FftWork FftWorkOf(const Instruction& fft);

// Cycles of a TPU for the steps of a factorisation or triangular solution that follow one another,
// whatever their work: columns, or rounds of rotations; 0 of other instructions.
double FactorisationCycles(const Instruction& x);

// Bytes of `x` where it is an argument of the program that is not donated, else 0: before it is
// updated in place, or carried through a loop that changes it, it is copied.
double KeptArgumentBytes(const Instruction* x);

// Bytes of what a loop of the entry makes to be given back in the memory of donated arguments that
// the loop reads beside it, as a scan over layers reads the old cache and stacks the new one: they
// are copied there behind the loop.
double CopiedResultBytes(const Instruction* loop);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_IRREGULAR_WORK_H_
