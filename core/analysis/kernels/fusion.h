// The fusion model: tells which values a compiler would not write to memory, because the kernel
// that uses them computes them on the fly. Costs, memory and timeline all use it.
//
// A model, not a pass: it cuts a computation into kernels the way XLA's fusion passes do. A kernel
// is its root and the values that only it uses:
//   - elementwise chains, and slices, gathers, transposes, pads and concatenations of values, run
//     in their consumer. A value with several consuming kernels is recomputed in each if its inputs
//     are hardly larger than the value itself (broadcasts, widening casts, exp(x - max)). Otherwise
//     the first kernel also writes it as an extra output, if that kernel is elementwise or a
//     reduction of as many elements; else the value is a kernel of its own;
//   - reductions, in-place updates, scatters take in what produces their operands; reductions of
//     what is made of one array, over the same dims, are one kernel;
//   - dots and convolutions take in layout changes of their operands, on TPUs also elementwise
//     producers and the elementwise chain that follows them;
//   - attention is one kernel (core/analysis/attention/).
// Programs that a compiler has scheduled are fused already: each fusion instruction is a kernel.
#ifndef GSHARD_CORE_ANALYSIS_KERNELS_FUSION_H_
#define GSHARD_CORE_ANALYSIS_KERNELS_FUSION_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "core/analysis/attention/module_attention.h"
#include "core/analysis/host_memory.h"
#include "ir/computation.h"
#include "ir/traversal.h"

namespace gshard {

struct FusionOptions {
  // As XLA's compiler for TPUs. The matrix unit takes elementwise producers and consumers, and
  // casts weights itself (libraries, as GPUs and CPUs call them, take layouts only). What a chain
  // of elementwise operations starts at counts as what its value is made of, not the values on the
  // way. Gathers and scatters are kernels of their own, which read and write memory.
  bool for_tpu = false;
  // As XLA's compiler for GPUs. A product of a vector and a matrix for each element of a batch is a
  // sum in the kernel that makes its operands.
  bool for_gpu = false;
  // The largest of each row, or its sum, is computed by the kernel that has it for the row's
  // elements alone (TPU v4 and later; CopiedChains::IsRowStatistic).
  bool fuses_row_statistics = false;
  // So does a product's kernel, of the rows that it makes (TPU v6e).
  bool products_have_row_statistics = false;
  // What is gathered from is in memory: cores of their own gather (SparseCores).
  bool gathers_from_memory = false;
  // Of a chip's work on vectors, what the compiler weighs against a byte of memory; 0: no work
  // counts (Chip::vector_operations_per_byte).
  double vector_operations_per_byte = 0;
  // Slices, gathers, transposes, pads, .. run in the kernel that uses them.
  bool fuses_movement = false;
  // A value of several kernels is computed in each of them where what it is made of is no more to
  // read than itself; else the first of them writes it beside its own result. False: it is a kernel
  // of its own. What is in memory anyway, as a result, is written by the first of them, too, if
  // calls are fused.
  bool copies_values = false;
  // Attention is one kernel that never writes its scores nor reads its masks: of the module; null:
  // attention is its dots and its softmax. Lives as long as the model.
  const ModuleAttention* attention = nullptr;
  // What lies on the host is no kernel's; null: nothing is known. Lives as long as the model.
  const HostMemory* host = nullptr;
  // Elementwise operations of a model are fused only with those of the same function of a library
  // (jit(silu)), where they are of none with those that compute a function of one array (gelu; its
  // derivative, of the cotangent and what was saved), and with the statistics of a norm or softmax:
  // each call is a kernel.
  bool fuses_calls = true;
  // Results of a loop's iterations are copied into the arrays that stack them; false: they stay
  // where they are made.
  bool copies_into_stacks = true;
  // What makes a value also makes its largest magnitude, and its 8-bit form where the scale does
  // not depend on that.
  bool casts_in_producers = false;
  // A product adds what it makes to a sum that a loop carries (core/analysis/gradient_sums.h).
  bool sums_in_products = false;
  // The text is a compiler's output: nothing but its fusions is fused.
  bool is_compiled = false;
};

struct FusionKernel {
  const Instruction* root = nullptr;        // last in the text
  std::vector<const Instruction*> members;  // in text order, root last; each member of one kernel
  std::vector<const Instruction*> copies;   // values that other kernels compute for themselves too
  int attention = -1;                       // index into FusionModel::attention(); -1: none
  // Part of what makes its operands, or left where they are (copies_into_stacks,
  // casts_in_producers, sums_in_products).
  bool is_free = false;
};

// The kernel that an instruction is a member of, by its index in FusionModel::kernels(), and
// whether its value is never materialised.
struct KernelMembership {
  int32_t kernel = -1;  // none
  bool is_fused = false;
};

// Immutable after construction: may be read by many threads as long as the module does not change.
// What comes into the module later is in no kernel.
class FusionModel {
 public:
  FusionModel(const Computation& computation, const Users& users,
              const FusionOptions& options = {});

  // True: the value is never materialised.
  bool IsFused(const Instruction* instruction) const {
    const size_t index = Index(instruction);
    return index < members_.size() && members_[index].is_fused;
  }
  // The materialised values that computing `instruction` reads, each once, fused operands looked
  // through.
  std::vector<const Instruction*> Inputs(const Instruction* instruction) const;

  // Kernels, by the place of their roots. Parameters, constants, tuples, reshapes, collectives and
  // control flow are in none.
  const std::vector<FusionKernel>& kernels() const { return kernels_; }
  // The kernel that has `instruction` as a member, or null.
  const FusionKernel* KernelOf(const Instruction* instruction) const {
    const size_t index = Index(instruction);
    const int32_t kernel = index < members_.size() ? members_[index].kernel : -1;
    return kernel < 0 ? nullptr : &kernels_[static_cast<size_t>(kernel)];
  }
  const std::vector<AttentionKernel>& attention() const { return *attention_; }
  // True if `x` is never computed, since only attention kernels need it (see
  // ModuleAttention::IsSpared).
  bool IsSpared(const Instruction* x, int64_t element = 0) const {
    return spared_ != nullptr && spared_->IsSpared(x, element);
  }
  bool is_compiled() const { return is_compiled_; }
  // True for a scatter of one element to each row of an array of one value that the compiler makes
  // elementwise: it compares positions with the indices.
  bool ComparesPositions(const Instruction* x) const;

 private:
  friend class FusionBuilder;
  size_t Index(const Instruction* instruction) const { return instruction->id() - first_id_; }

  uint32_t first_id_ = 0;
  bool is_compiled_ = false, for_tpu_ = false;
  std::vector<KernelMembership> members_;
  std::vector<FusionKernel> kernels_;
  const ModuleAttention* spared_ = nullptr;
  const std::vector<AttentionKernel>* attention_ = nullptr;  // null: none
};

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_KERNELS_FUSION_H_
