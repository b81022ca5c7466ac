// What a device can do: the numbers behind every estimate. Built in for common chips
// (core/cost/chips/*.json), or from JSON of the user's. Fields, units and sources: docs/chips.md.
#ifndef GSHARD_CORE_COST_CHIP_H_
#define GSHARD_CORE_COST_CHIP_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/diagnostic.h"
#include "ir/dtype.h"

namespace gshard {

// The share of the peak rate that work of a size reaches: limit * size / (size + half).
struct EfficiencyCurve {
  double limit = 1;
  double half = 0;  // size at which half the limit is reached
  double At(double size) const { return size <= 0 ? limit : limit * size / (size + half); }
};

// One level of the network, innermost first: devices joined by a torus, or by a switch.
struct NetworkLevel {
  enum class Kind : uint8_t { kTorus, kSwitch };
  Kind kind = Kind::kTorus;
  std::string name;        // "ici", "nvlink", "nic"
  double bytes_per_s = 0;  // one way: of one link of a torus, of one device into a switch
  double latency_s = 0;    // of one hop
  double efficiency = 1;   // share of bytes_per_s that collectives reach
  // Torus: the largest slice ("x", "y", "z" in this order), and the extent whose multiples close
  // to rings (0: never).
  std::vector<int64_t> extents;
  int64_t wrap_multiple = 0;
  bool all_to_all_wraps = true;  // false: all-to-alls do not use the links that close a ring
  // Switch: devices it joins; 0: as many as there are.
  int64_t devices = 0;
};

// All rates are per device as the program counts devices (a TPU v3 device is one core, a v4 device
// a whole chip).
struct Chip {
  // Whose rules for fusion and overlap hold.
  enum class Compiler : uint8_t { kTpu, kGpu, kCpu };

  // Who makes a GPU's kernels of a program: XLA, which compiles the whole of it, PyTorch call by
  // call, or Megatron with Transformer Engine's fused kernels.
  enum class Stack : uint8_t { kJax, kPytorch, kMegatron };

  // What differs from stack to stack.
  struct StackRates {
    EfficiencyCurve attention_efficiency;  // by FLOPs of the kernel
    // Of the rates above and below, the share that kernels hold through whole steps: each takes
    // 1 / sustained as long. docs/chips.md, "What steps sustain".
    double sustained = 1;
  };

  std::string name;
  Compiler compiler = Compiler::kTpu;
  Stack stack = Stack::kJax;                 // not kJax: of a GPU
  std::map<std::string, double> peak_flops;  // of matrix units by dtype name, FLOP/s; "f32", "bf16"
  double vector_flops = 0;                   // elementwise work, FLOP/s
  // Of that, what a TPU's compiler weighs against a byte of memory when it decides whether values
  // are computed again; 0: it does not.
  double vector_operations_per_byte = 0;
  double hbm_bytes = 0;
  double hbm_bytes_per_s = 0;
  // Of on-chip memory, what its compiler may give to values; 0: none.
  int64_t fast_memory_bytes = 0;
  double clock_hz = 0;             // that the compiler's `estimated_cycles` count; 0: not known
  double launch_s = 0;             // least time of a kernel
  double collective_launch_s = 0;  // least time of a collective
  // For each slice that a gather or scatter moves, its address; 0: nothing beside its bytes.
  double indexed_slice_s = 0;
  int64_t devices_per_chip = 1;                    // that share the chip's links
  std::array<int64_t, 3> matrix_tile = {1, 1, 1};  // m, n, k that dots are padded to
  int64_t matrix_units = 1;                        // that take tiles of m x n at a time
  // f32 dots at DEFAULT, HIGH and HIGHEST precision: passes over bf16; 0: at the rate of f32.
  std::array<int64_t, 3> f32_passes = {0, 0, 0};
  // Do products at DEFAULT precision round f32 operands to bf16?
  bool RoundsDotOperands() const { return f32_passes[0] == 1; }
  // XLA's compiler for it multiplies all rows of a ragged-dot by the matrix of every group.
  bool dense_ragged_dots = false;
  // Other stacks bring kernels of their own.
  bool HasDenseRaggedDots() const { return dense_ragged_dots && stack == Stack::kJax; }
  EfficiencyCurve dot_efficiency;     // by FLOPs of the dot
  EfficiencyCurve memory_efficiency;  // by bytes of the kernel
  std::array<StackRates, 3> stacks;   // by Stack; those of a TPU are all alike
  const StackRates& OfStack() const { return stacks[static_cast<size_t>(stack)]; }
  // Its compiler computes a row's largest, or its sum, in the kernel of the product whose rows
  // these are.
  bool products_have_row_statistics = false;
  bool overlaps_collectives = false;  // its compiler's scheduler makes collectives async
  // Of the compute units, what a collective beside compute takes (GPUs copy with them).
  double collective_compute_share = 0;
  // Its compiler makes independent all-reduces one up to so many bytes; 0: no limit.
  int64_t all_reduce_combine_bytes = 0;
  std::vector<NetworkLevel> network;  // innermost first; empty: one device alone

  // Of the type, else of the nearest wider or narrower type the chip lists.
  double PeakFlops(DType dtype) const;
  // What mfu and hfu are shares of: bf16's.
  double NominalFlops() const { return PeakFlops(DType::kBF16); }
};

// "jax", "pytorch", "megatron". Errors: E-COST-001 for another name, and for a stack that the chip
// does not run.
Expected<void> SetStack(Chip& chip, std::string_view name);
std::string_view NameOf(Chip::Stack stack);

// Returns the chip called "tpu-v3", .. Thread-safe. Errors (E-COST-001) list the names there are.
Expected<Chip> BuiltInChip(std::string_view name);
std::vector<std::string> BuiltInChipNames();
// Fields as in core/cost/chips/*.json, or the short form
// {"name":..,"peak_flops":{"bf16":6.15e13},"hbm_bytes":..,"hbm_bytes_per_s":..,"link_bytes_per_s":..,
// "link_latency_s":..}: one ring of links along each mesh axis. {"base":"tpu-v3",..} starts from a
// built-in chip. Errors: E-COST-002.
Expected<Chip> ParseChip(std::string_view json, const std::string& file_name);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_CHIP_H_
