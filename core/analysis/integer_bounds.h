// Between which values the elements of an integer array lie, where its operands tell.
#ifndef GSHARD_CORE_ANALYSIS_INTEGER_BOUNDS_H_
#define GSHARD_CORE_ANALYSIS_INTEGER_BOUNDS_H_

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "ir/module.h"

namespace gshard {

// Beyond it, or below its negative, nothing is an index.
inline constexpr int64_t kMaxIndex = int64_t{1} << 40;

struct IntegerBounds {
  int64_t low = 0, high = 0;  // both can be reached as far as is known
  bool counts = false;        // follows from an iota: has all values between them
  bool by_device = false;     // follows from the number of the device

  bool IsConstant() const { return low == high; }
};

// Follows constants, iotas and the device's number through arithmetic, moves and calls that have
// one caller (interval arithmetic). What depends on parameters of the entry or on loops has no
// bounds. The module must not change meanwhile. Remembers what it has found; used by one thread.
class IntegerBoundsFinder {
 public:
  // `device_count`: of partitions, and of replicas.
  IntegerBoundsFinder(const Module& module, int64_t device_count);
  std::optional<IntegerBounds> Find(const Instruction* x) { return Find(x, 0); }

 private:
  std::optional<IntegerBounds> Find(const Instruction* x, int depth);
  std::optional<IntegerBounds> Compute(const Instruction* x, int depth);
  std::optional<IntegerBounds> OfArithmetic(const Instruction* x, int depth);
  std::optional<IntegerBounds> OfParameter(const Instruction* x, int depth);

  const int64_t device_count_;
  // The one instruction that calls a computation; null if there are several.
  std::unordered_map<const Computation*, const Instruction*> callers_;
  std::unordered_map<const Instruction*, std::optional<IntegerBounds>> known_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_INTEGER_BOUNDS_H_
