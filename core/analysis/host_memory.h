// What lies in the host's memory and how it gets there.
//
//   saved = f32[8,4096] custom-call(x), custom_call_target="MoveToHost"
//       a transfer; `saved` lies on the host
//   stack = f32[16,8,4096] dynamic-update-slice(stack0, saved, i, z, z)
//       lies on the host, too, for `saved` is put into it
//   again = f32[8,4096] custom-call(slice), custom_call_target="MoveToDevice"
//       a transfer back
//
// JAX writes `annotate_device_placement` with _xla_buffer_placement instead of the two calls, and
// memory kinds or memory space 5 (S(5) in a layout) on arguments and results.
#ifndef GSHARD_CORE_ANALYSIS_HOST_MEMORY_H_
#define GSHARD_CORE_ANALYSIS_HOST_MEMORY_H_

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/module.h"
#include "ir/traversal.h"

namespace gshard {

// True if the array's layout says that it lies on the host: memory space 5.
bool IsHostLayout(const Shape* array);

// A snapshot: invalid after the module changes.
class HostMemory {
 public:
  HostMemory() = default;  // nothing lies on the host
  // `users`: of the whole module. Linear.
  HostMemory(const Module& module, const Users& users);

  bool IsEmpty() const { return on_host_.empty(); }
  // True if an array, or element `element` of a tuple, lies on the host.
  bool Has(const Instruction* x, int64_t element = 0) const {
    return !on_host_.empty() && on_host_[begin_[x->id()] + static_cast<size_t>(element)];
  }
  // True if `x`, a call that says where its value lies, moves it from one memory to the other.
  bool IsTransfer(const Instruction* x) const;

 private:
  void Put(const Instruction* x, int64_t element);
  void Follow(const Instruction* x, int64_t element, const Users& users);
  void FollowLoop(const Instruction* loop, int64_t element);

  std::vector<size_t> begin_;                                                 // by instruction id
  std::vector<bool> on_host_;                                                 // empty: nothing
  std::unordered_multimap<const Computation*, const Instruction*> loops_of_;  // of bodies
  std::vector<std::pair<const Instruction*, int64_t>> pending_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_HOST_MEMORY_H_
