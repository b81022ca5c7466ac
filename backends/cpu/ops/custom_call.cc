// custom-call: the targets that have a meaning on the CPU.
//
// Most mark a value for the compiler and are identities; the executor renames those away where it
// can. Anything else is an error that names the target.
#include "ir/custom_call.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "backends/cpu/ops/factories.h"
#include "backends/cpu/ops/lapack_call.h"
#include "backends/cpu/ops/view_kernel.h"

namespace gshard::cpu {
namespace {

KernelOrError Error(const Instruction& instruction, std::string message, std::string hint = "") {
  Diagnostic diagnostic =
      instruction.parent()->module().ErrorAt(&instruction, "E-RUN-007", std::move(message));
  diagnostic.hint = std::move(hint);
  return Fail(std::move(diagnostic));
}

KernelOrError MakeIdentity(const Instruction& instruction) {
  const Shape* shape = instruction.shape();
  if (instruction.operand_count() != 1 || !shape->IsArray() ||
      !Compatible(shape, instruction.operand(0)->shape())) {
    return Error(instruction,
                 "this custom-call returns its one operand, an array of the same shape");
  }
  return MakeCopyKernel(shape);
}

// What is not there yet reads as zero.
class ZeroKernel : public Kernel {
 public:
  explicit ZeroKernel(const Shape* shape)
      : bytes_(StorageBytes(shape->dtype()) * shape->element_count()) {}
  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    (void)operands;
    (void)scratch;
    std::memset(results[0], 0, static_cast<size_t>(bytes_));
  }

 private:
  int64_t bytes_;
};

KernelOrError MakeAllocation(const Instruction& instruction) {
  if (instruction.operand_count() != 0 || !instruction.shape()->IsArray()) {
    return Error(instruction, "AllocateBuffer takes nothing and returns an array");
  }
  return std::make_unique<ZeroKernel>(instruction.shape());
}

// Pieces of one array: in the dim along which they are, their sizes add up to the result's.
KernelOrError MakePieces(const Instruction& instruction) {
  const Shape* result = instruction.shape();
  for (int64_t dim = 0; result->IsArray() && dim < result->rank(); ++dim) {
    int64_t size = 0;
    const bool fits = std::ranges::all_of(instruction.operands(), [&](const Instruction* piece) {
      const Shape* shape = piece->shape();
      if (!shape->IsArray() || shape->rank() != result->rank() ||
          shape->dtype() != result->dtype()) {
        return false;
      }
      size += shape->dim(dim);
      std::vector<int64_t> dims(shape->dims().begin(), shape->dims().end());
      dims[static_cast<size_t>(dim)] = result->dim(dim);
      return std::ranges::equal(dims, result->dims());
    });
    if (fits && size == result->dim(dim)) return MakeConcatenation(instruction, dim);
  }
  return Error(instruction, "ConcatBitcast takes the pieces of an array along one of its dims");
}

// The k largest of the last dim: (values, s32 indices); k is the size of that dim in the result.
KernelOrError MakeTopK(const Instruction& instruction) {
  const Shape* result = instruction.shape();
  const Shape* operand =
      instruction.operand_count() > 0 ? instruction.operand(0)->shape() : nullptr;
  bool fits = operand != nullptr && operand->IsArray() && operand->rank() > 0 &&
              result->IsTuple() && result->elements().size() == 2;
  for (int64_t i = 0; fits && i < 2; ++i) {
    const Shape* part = result->element(i);
    fits = part->IsArray() && part->rank() == operand->rank() &&
           part->dims().back() <= operand->dims().back() &&
           part->dims().back() == result->element(0)->dims().back() &&
           part->dtype() == (i == 0 ? operand->dtype() : DType::kS32) &&
           std::equal(part->dims().begin(), part->dims().end() - 1, operand->dims().begin());
  }
  if (!fits) {
    return Error(
        instruction,
        "TopK takes an array and returns (values, s32 indices) that differ in the last dim "
        "only");
  }
  return MakeTopKKernel(operand, result->element(0)->dims().back(), true);
}

}  // namespace

KernelOrError MakeCustomCall(const Instruction& instruction) {
  const std::string_view target = instruction.attributes<CustomCallAttributes>().target;
  if (IsIdentityCall(instruction)) return MakeIdentity(instruction);
  if (target == kAllocateBufferTarget) return MakeAllocation(instruction);
  if (target == kConcatBitcastTarget) return MakePieces(instruction);
  if (target == kTopKTarget) return MakeTopK(instruction);
  if (IsLapackTarget(target)) return MakeLapackCall(instruction);
  const std::string message =
      "custom-call to \"" + std::string(target) + "\", whose code is not in the module";
  if (target.find("python") != target.npos && target.find("callback") != target.npos) {
    return Error(instruction, message,
                 "this calls Python: print the program without jax.debug, pure_callback and "
                 "io_callback; EQX_ON_ERROR=nan leaves out the checks of equinox and diffrax");
  }
  if (target == kPythonPartitionedTarget) {
    return Error(instruction, message,
                 "Python code of the program computes this (custom_partitioning): print the "
                 "program with a call to the function that it wraps");
  }
  return Error(instruction, message,
               "gshard-run knows sharding and placement markers, TopK, linear algebra as JAX, "
               "TensorFlow and PyTorch call it (lapack_*_ffi, cusolver_*_ffi, Qr, Eigh, ..), and "
               "cuBLAS and cuDNN as XLA calls them (docs/semantics.md); lower others to plain "
               "operations (in JAX: for the CPU, without callbacks and kernels)");
}

}  // namespace gshard::cpu
