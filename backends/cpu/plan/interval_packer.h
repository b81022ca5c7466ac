// Places buffers with known lifetimes in one address range so that few bytes are needed.
#ifndef GSHARD_BACKENDS_CPU_PLAN_INTERVAL_PACKER_H_
#define GSHARD_BACKENDS_CPU_PLAN_INTERVAL_PACKER_H_

#include <cstdint>
#include <vector>

namespace gshard::cpu {

class IntervalPacker {
 public:
  // A buffer that lives from time `begin` to `end`, both included. Sizes are rounded up to 64
  // bytes.
  uint32_t Add(int64_t bytes, uint32_t begin, uint32_t end);
  // Offsets such that buffers alive at the same time do not overlap; the bytes needed in all.
  // Deterministic. The better of two heuristics: best fit in order of time, and largest first.
  int64_t Pack();
  int64_t offset(uint32_t buffer) const { return buffers_[buffer].offset; }
  // The most bytes alive at one time: no placement can need less.
  int64_t LowerBound() const;

 private:
  struct Buffer {
    int64_t bytes = 0;
    uint32_t begin = 0, end = 0;
    int64_t offset = 0;
  };
  int64_t PackInTimeOrder(std::vector<int64_t>& offsets) const;
  int64_t PackLargestFirst(std::vector<int64_t>& offsets) const;

  std::vector<Buffer> buffers_;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_PLAN_INTERVAL_PACKER_H_
