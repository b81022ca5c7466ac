// Whose text a module is: a front end's or a compiler's.
#ifndef GSHARD_IR_COMPILED_TEXT_H_
#define GSHARD_IR_COMPILED_TEXT_H_

#include <cstdint>
#include <optional>

#include "ir/module.h"

namespace gshard {

// True if the module is compiled text, that is, went through a compiler: it is scheduled, or has
// fusions, which no front end prints. Headers that say "compiled text" mean this. O(instructions).
bool IsCompiled(const Module& module);

// XLA's compiler for TPUs writes `"estimated_cycles":"30242"` into the backend_config of its
// fusions: its estimate of the kernel for one core at the chip's clock. Nothing where there is
// none, or where the compiler gave up (2^62 and more).
std::optional<int64_t> EstimatedCycles(const Instruction& kernel);

// What a fusion of XLA's compiler for TPUs does with the collective that it has.
enum class FusedPart : uint8_t {
  kStart,    // begins it, and hands on its buffers (AsyncCollectiveStart)
  kStep,     // computes something else beside it
  kDone,     // waits for its end (AsyncCollectiveDone)
  kScatter,  // all of it: an all-reduce of which each device keeps its piece, a reduce-scatter
};

struct FusedCollective {
  const Instruction* collective = nullptr;  // the fusions of one have copies, of one channel
  FusedPart part = FusedPart::kStep;
};

// Nothing: x is no fusion, or has no collective.
std::optional<FusedCollective> FindFusedCollective(const Instruction& x);

// The collective that a step of the network runs: x itself, or what an async-start or fusion has.
const Instruction* CollectiveOf(const Instruction* x);

}  // namespace gshard

#endif  // GSHARD_IR_COMPILED_TEXT_H_
