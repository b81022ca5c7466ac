// Memory for temporaries of one call of a kernel.
#ifndef GSHARD_BACKENDS_CPU_MEMORY_SCRATCH_H_
#define GSHARD_BACKENDS_CPU_MEMORY_SCRATCH_H_

#include <cstddef>

namespace gshard::cpu {

// Per-thread bump memory for temporaries of one Run call; freed when it returns.
class Scratch {
 public:
  virtual ~Scratch() = default;
  virtual std::byte* Allocate(size_t bytes) = 0;  // 64-byte aligned, uninitialised

  // Everything allocated since the mark may be reused after Rewind.
  struct Mark {
    size_t block = 0, used = 0;
  };
  // The run is to end: a loop of unknown length gives up, its results are dropped.
  virtual bool Stopped() const { return false; }

  virtual Mark Position() const = 0;
  virtual void Rewind(Mark mark) = 0;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_MEMORY_SCRATCH_H_
