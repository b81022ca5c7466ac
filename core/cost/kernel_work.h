// What one kernel does: floating-point operations by unit, and bytes to and from memory.
//
// Only what crosses a kernel's border touches memory, and of that only what is needed: of an
// operand that is sliced or gathered from, the slice; of an array updated in place, the update.
#ifndef GSHARD_CORE_COST_KERNEL_WORK_H_
#define GSHARD_CORE_COST_KERNEL_WORK_H_

#include <optional>
#include <string_view>
#include <vector>

#include "core/analysis/kernels/fusion.h"
#include "core/cost/irregular_work.h"
#include "core/cost/timeline.h"
#include "ir/instruction.h"

namespace gshard {

// One matrix product of a kernel: `batch` products of [m, k] x [k, n].
struct MatrixWork {
  double batch = 1, m = 1, n = 1, k = 1;
  double flops = 0;
  DType dtype = DType::kF32;  // of the operands as they come from memory, the wider of both
  // The type to which integers are widened before they are multiplied. XLA's compiler for TPUs
  // multiplies them as they were, that for GPUs as the program says.
  std::optional<DType> widened_to;
  Precision precision = Precision::kDefault;
  std::string_view algorithm;  // "dot_bf16_bf16_f32_x3"; empty: unset
  // For convolutions only: positions of the window and of a row of it, features of the input (0: no
  // convolution, or the gradient of a kernel, of which nothing is padded), and bytes of the input
  // and the output.
  double window = 1, window_row = 1, input_features = 0, input_bytes = 0, output_bytes = 0;
};

struct KernelWork {
  WorkClass work_class = WorkClass::kOther;
  const Instruction* main = nullptr;  // whose opcode and source line stand for the kernel
  double flops = 0;                   // FLOPs of all units
  double transcendentals = 0;         // number of operations; not among `flops`
  double periodic_functions = 0;      // of these, sines, cosines and tangents
  double other_ops = 0;               // of OpCost: not among `flops` either
  double bytes = 0;                   // read from and written to memory
  std::vector<MatrixWork> matrix;     // its products; their flops are among `flops`
  std::vector<SortWork> sorts;
  std::vector<FftWork> transforms;
  double sequential_cycles = 0;  // of FactorisationCycles
  double indexed_slices = 0;     // that its gathers and scatters move
  // FLOPs by which an attention kernel computes its scores again: not among `flops`, unlike
  // StepNode::recompute_flops.
  double recomputed_flops = 0;
  double masked_flops = 0;  // part of `flops` that a causal attention kernel skips
  double head_width = 0;    // of an attention kernel, what its scores contract; 0: not known
  bool is_scalar = false;   // addresses and counters: no kernel of its own
};

KernelWork WorkOf(const FusionModel& model, const FusionKernel& kernel);
// Returns the work of a compiler's fusion instruction, whose computation is the kernel.
KernelWork WorkOfFusion(const Instruction& fusion);

// Returns the matrix product of a dot, ragged-dot, scaled-dot or convolution.
MatrixWork MatrixOf(const Instruction& dot);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_KERNEL_WORK_H_
