// Dense arrays converted to another element type; the program behind dots and convolutions on types
// that have no product of their own.
#ifndef GSHARD_BACKENDS_CPU_ELEMENTWISE_ARRAY_CONVERT_H_
#define GSHARD_BACKENDS_CPU_ELEMENTWISE_ARRAY_CONVERT_H_

#include "backends/cpu/elementwise/elementwise_program.h"

namespace gshard::cpu {

class ArrayConvert {
 public:
  ArrayConvert(DType from, DType to) : is_identity_(from == to), from_(from), to_(to) {
    program_.AddOutput(program_.AddConvert(program_.AddArrayInput(from), to));
    program_.Build();
  }
  bool IsIdentity() const { return is_identity_; }
  int64_t from_bytes() const { return StorageBytes(from_); }
  int64_t to_bytes() const { return StorageBytes(to_); }
  void Run(int64_t count, const std::byte* in, std::byte* out, Scratch& scratch) const {
    program_.Run(0, count, {&in, 1}, {&out, 1}, scratch);
  }
  // The converted array in scratch, or `in` itself if nothing is to be done.
  const std::byte* InScratch(int64_t count, const std::byte* in, Scratch& scratch) const {
    if (is_identity_) return in;
    std::byte* out = scratch.Allocate(static_cast<size_t>(count * to_bytes()));
    Run(count, in, out, scratch);
    return out;
  }

 private:
  bool is_identity_;
  DType from_, to_;
  ElementwiseProgram program_;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_ELEMENTWISE_ARRAY_CONVERT_H_
