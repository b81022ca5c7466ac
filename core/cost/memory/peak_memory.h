// Peak memory of one device, and what is alive then.
//
// Liveness of buffers (core/cost/memory/live_ranges.h) over the order of a compiled text, or over
// one that keeps the peak low (memory_schedule.h). While loops, conditionals and calls hold what
// their computations need beyond their operands. docs/memory.md has the rules.
#ifndef GSHARD_CORE_COST_MEMORY_PEAK_MEMORY_H_
#define GSHARD_CORE_COST_MEMORY_PEAK_MEMORY_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/analysis/kernels/module_kernels.h"
#include "core/cost/memory/buffer_size.h"
#include "ir/diagnostic.h"
#include "ir/module.h"

namespace gshard {

enum class BufferClass : uint8_t {
  kArgument,    // of the program
  kOutput,      // results that do not share an argument's memory
  kLoopCarry,   // what while loops carry and change
  kCollective,  // results of collectives
  kTemporary,   // everything else
  // No buffer: free memory at the peak that is in pieces too small for the value placed highest.
  kFragmentation,
};
inline constexpr size_t kBufferClasses = 5;          // without kFragmentation
std::string_view BufferClassName(BufferClass kind);  // "argument", "loop carry", "fragmentation"

// A row of the report: memory that one leaf of an instruction's result was given. Of fragmentation:
// the result that did not fit.
struct LiveBuffer {
  const Instruction* instruction = nullptr;  // that allocated it
  int64_t leaf = 0;                          // of its shape, tuples flattened
  const Shape* shape = nullptr;              // of that leaf
  int64_t bytes = 0;
  BufferClass kind = BufferClass::kTemporary;
  // By DescribeTensors (global_tensors.h), where known: the tensor that `shape` is a tile of.
  const Shape* global_shape = nullptr;
  const Sharding* sharding = nullptr;
  std::string sharding_text = {};  // "[data, _]"
  std::string free_axes = {};      // mesh axes along which it only has copies: "model"
};

// What is alive while one instruction runs, by class. A loop's body appears once, at its loop.
struct MemoryPoint {
  const Instruction* instruction = nullptr;
  std::array<int64_t, kBufferClasses> bytes = {};
};

struct MemoryReport {
  int64_t peak_bytes = 0;
  int64_t argument_bytes = 0;
  int64_t output_bytes = 0;           // those that do not share an argument's memory
  int64_t temp_bytes = 0;             // peak without arguments and outputs
  int64_t fragmentation_bytes = 0;    // of the temporaries: in pieces too small for another value
  int64_t host_peak_bytes = 0;        // of what lies in the host's memory: not among the others
  int64_t fast_peak_bytes = 0;        // in the chip's fast memory: not among the others
  std::vector<LiveBuffer> at_peak;    // largest first, fragmentation last; adds up to the peak
  const Instruction* peak = nullptr;  // runs then; null: the end of the program
  std::vector<MemoryPoint> curve;     // in order of execution
  // What the instructions above belong to where it is not the module given: calls are inlined,
  // all-reduces combined. Null: the module given.
  std::shared_ptr<const Module> compiled;

  // Of each entry of MemoryOptions::never_run: the peak of devices that do not run these.
  std::vector<int64_t> group_peak_bytes;

  int64_t limit_bytes = 0;  // 0: none
  std::string limit_name;   // "tpu-v3"; empty: what --limit says
  // Beyond it the chip's compiler computes values again by itself; 0: it does not, or has compiled
  // the text already.
  int64_t recomputed_beyond_bytes = 0;
  bool Fits() const { return limit_bytes == 0 || peak_bytes <= limit_bytes; }
};

struct MemoryOptions {
  Tiling tiling = Tiling::kLayout;
  // Of a whole program that carries shardings: arrays count as their tile on one device.
  bool by_sharding = false;
  // Its `for_tpu`, too: all-reduces write their results over operands that die there, copies from
  // the host start as soon as they can, donated memory is for results alone, and each value is one
  // piece at one address (heap_placement.h). Its `for_gpu`: kernels run in the order of XLA's
  // compiler for GPUs, and a softmax, which is a kernel of whole rows there, does not write over
  // them.
  FusionOptions fusion;
  // The peak of the host's memory in place of the device's.
  bool counts_host = false;
  // Attention is one kernel: its scores and masks take no memory (core/analysis/attention/).
  bool fuse_attention = true;
  // Independent all-reduces become one up to so many bytes, as compilers have it: their operands
  // and results are alive together.
  int64_t combine_bytes = INT64_MAX;
  // What the chip's compiler may keep in fast memory (fast_memory.h); 0: it keeps nothing there.
  int64_t fast_memory_bytes = 0;
  // By group of devices, which together are all: names of branches' computations that none of them
  // ever runs.
  std::vector<std::vector<std::string>> never_run;
};

// `module` is the program of one device. `kernels`: its kernels, by options.fusion and
// options.fuse_attention, where a caller has them; null: they are found.
MemoryReport PeakMemory(const Module& module, const MemoryOptions& options = {},
                        ModuleKernels* kernels = nullptr);

// Its peak_bytes alone, for searches over many programs. The module is changed as a compiler would
// before it places buffers (calls inlined, all-reduces combined) and must not be used further.
int64_t PeakBytes(Module& module, const MemoryOptions& options = {},
                  ModuleKernels* kernels = nullptr);

// An error at the first array whose size is not known: unbounded dimensions (E-COST-010).
Expected<void> CheckBoundedSizes(const Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_MEMORY_PEAK_MEMORY_H_
