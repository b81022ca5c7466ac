// Panels of rows: product into scratch, program from there.
#include "backends/cpu/elementwise/epilogue_kernel.h"

#include <algorithm>

namespace gshard::cpu {
namespace {

constexpr int64_t kPanelBytes = 128 << 10;
constexpr int64_t kMaxPanelBytes = 512 << 10;  // where the product cannot be cut finer
// Fewer rows at a time would have the product prepare its right-hand side too often.
constexpr int64_t kMinRows = 64;

int64_t PanelOf(const Kernel& product, int64_t element_bytes) {
  const int64_t granule = product.RangeGranule(), bytes = granule * element_bytes;
  int64_t granules = std::max<int64_t>(kPanelBytes / bytes, 1);
  if (kMinRows * bytes <= kMaxPanelBytes) granules = std::max(granules, kMinRows);
  return granules * granule;
}

}  // namespace

bool EpilogueKernel::Pays(const Kernel& product, int64_t count, int64_t element_bytes) {
  const int64_t granule = product.RangeGranule();
  return granule > 0 && product.ShareCount() == 1 && count * element_bytes > kPanelBytes &&
         granule * element_bytes <= kMaxPanelBytes;
}

EpilogueKernel::EpilogueKernel(const Kernel& product, size_t product_operands,
                               std::unique_ptr<Kernel> program, size_t through, Arrays arrays)
    : product_(product),
      product_operands_(static_cast<int64_t>(product_operands)),
      program_(std::move(program)),
      through_(static_cast<int64_t>(through)),
      arrays_(std::move(arrays)),
      panel_(PanelOf(product, arrays_.product_bytes)) {}

int64_t EpilogueKernel::OfProgram(int64_t operand) const {
  const int64_t k = operand - product_operands_;
  return k < through_ ? k : k + 1;
}

bool EpilogueKernel::InPlace(int64_t operand) const {
  return operand >= product_operands_ && program_->InPlace(OfProgram(operand));
}

bool EpilogueKernel::IsElementwiseIn(int64_t operand) const {
  return operand < product_operands_ ? product_.IsElementwiseIn(operand)
                                     : program_->IsElementwiseIn(OfProgram(operand));
}

void EpilogueKernel::Run(ConstBuffers operands, Buffers results, Scratch& scratch) const {
  RunRange(0, arrays_.count, operands, results, scratch);
}

void EpilogueKernel::RunRange(int64_t first, int64_t count, ConstBuffers operands, Buffers results,
                              Scratch& scratch) const {
  const Scratch::Mark mark = scratch.Position();
  const size_t inputs = arrays_.operands.size(), outputs = arrays_.results.size();
  const auto product_operands = static_cast<size_t>(product_operands_);
  const auto** from =
      reinterpret_cast<const std::byte**>(scratch.Allocate(inputs * sizeof(const std::byte*)));
  auto** to = reinterpret_cast<std::byte**>(scratch.Allocate(outputs * sizeof(std::byte*)));
  std::byte* product =
      scratch.Allocate(static_cast<size_t>(std::min(panel_, count) * arrays_.product_bytes));
  const Scratch::Mark panels = scratch.Position();
  for (int64_t done = 0; done < count; done += panel_) {
    const int64_t n = std::min(panel_, count - done);
    product_.RunRange(first + done, n, operands.first(product_operands), {&product, 1}, scratch);
    for (size_t k = 0, next = product_operands; k < inputs; ++k) {
      if (static_cast<int64_t>(k) == through_) {
        from[k] = product;
        continue;
      }
      const bool moves = program_->IsElementwiseIn(static_cast<int64_t>(k));
      from[k] = operands[next++] + (moves ? done * arrays_.operands[k] : 0);
    }
    for (size_t r = 0; r < outputs; ++r) to[r] = results[r] + done * arrays_.results[r];
    program_->RunRange(first + done, n, {from, inputs}, {to, outputs}, scratch);
    scratch.Rewind(panels);
  }
  scratch.Rewind(mark);
}

}  // namespace gshard::cpu
