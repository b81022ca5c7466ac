// Tiles of rows: program into scratch, reduction from there.
#include "backends/cpu/elementwise/produced_reduce.h"

#include <algorithm>

#include "backends/cpu/arrays/reduction.h"
#include "ir/module.h"

namespace gshard::cpu {
namespace {

constexpr int64_t kProducedTileBytes = 128 << 10;

int64_t BytesOf(const Shape* shape) { return StorageBytes(shape->dtype()); }

}  // namespace

bool ProducedReduceKernel::Pays(const Instruction& instruction, const Kernel& reduce) {
  if (instruction.opcode() != Opcode::kReduce || reduce.RangeGranule() != 1) return false;
  const Shape* input = instruction.operand(0)->shape();
  const ReductionGeometry geometry(input->dims(),
                                   instruction.attributes<DimensionsAttributes>().dimensions);
  return geometry.kept.size() == 1 && geometry.reduced.size() == 1 && !geometry.columns &&
         geometry.reduced_count * BytesOf(input) <= kProducedTileBytes / 4 &&
         input->element_count() * BytesOf(input) > kProducedTileBytes;
}

ProducedReduceKernel::ProducedReduceKernel(const Kernel& reduce, std::unique_ptr<Kernel> program,
                                           Arrays arrays)
    : reduce_(reduce), program_(std::move(program)), arrays_(std::move(arrays)) {
  int64_t bytes = 0;  // of a row of what is produced
  for (size_t k = 0; k < arrays_.inputs.size(); ++k) {
    if (arrays_.produced[k] >= 0) bytes += arrays_.inputs[k] * arrays_.length;
  }
  rows_ = std::clamp<int64_t>(kProducedTileBytes / std::max<int64_t>(bytes, 1), 1, arrays_.rows);
}

void ProducedReduceKernel::Run(ConstBuffers operands, Buffers results, Scratch& scratch) const {
  RunRange(0, arrays_.rows, operands, results, scratch);
}

void ProducedReduceKernel::RunRange(int64_t first, int64_t count, ConstBuffers operands,
                                    Buffers results, Scratch& scratch) const {
  const Scratch::Mark mark = scratch.Position();
  const size_t externals = arrays_.operands.size(), inputs = arrays_.inputs.size();
  const auto pointers = [&](size_t n) {
    return reinterpret_cast<const std::byte**>(scratch.Allocate(n * sizeof(const std::byte*)));
  };
  const std::byte** from = pointers(externals);
  const std::byte** reduced = pointers(2 * inputs);
  auto** tiles = const_cast<std::byte**>(pointers(inputs));
  auto** to = const_cast<std::byte**>(pointers(inputs));
  const int64_t length = arrays_.length;
  size_t outputs = 0;
  for (size_t k = 0; k < inputs; ++k) {
    if (arrays_.produced[k] < 0) continue;
    tiles[arrays_.produced[k]] =
        scratch.Allocate(static_cast<size_t>(std::min(rows_, count) * length * arrays_.inputs[k]));
    ++outputs;
  }
  const Scratch::Mark loop = scratch.Position();
  for (int64_t done = 0; done < count; done += rows_) {
    const int64_t n = std::min(rows_, count - done);
    const int64_t element = (first + done) * length;
    for (size_t k = 0; k < externals; ++k) {
      const bool moves = program_->IsElementwiseIn(static_cast<int64_t>(k));
      from[k] = operands[k] + (moves ? element * arrays_.operands[k] : 0);
    }
    program_->RunRange(element, n * length, {from, externals}, {tiles, outputs}, scratch);
    size_t next = externals;
    for (size_t k = 0; k < inputs; ++k) {
      reduced[k] = arrays_.produced[k] >= 0 ? tiles[arrays_.produced[k]]
                                            : operands[next++] + element * arrays_.inputs[k];
      to[k] = results[k] + done * arrays_.inputs[k];
    }
    for (size_t k = 0; k < inputs; ++k) reduced[inputs + k] = operands[next++];
    reduce_.RunRange(0, n, {reduced, 2 * inputs}, {to, inputs}, scratch);
    scratch.Rewind(loop);
  }
  scratch.Rewind(mark);
}

}  // namespace gshard::cpu
