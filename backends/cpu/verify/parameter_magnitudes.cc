#include "backends/cpu/verify/parameter_magnitudes.h"

#include <algorithm>

#include "backends/cpu/verify/element_error.h"
#include "ir/computation.h"

namespace gshard::cpu {
namespace {

constexpr int64_t kPieceBytes = 16 << 20;

// In rows of the first dim that has several, as many as a piece holds.
double MagnitudeOf(const GlobalArray& array) {
  std::vector<int64_t> start(array.dims.size(), 0), sizes = array.dims;
  int64_t bytes = StorageBytes(array.dtype);
  for (const int64_t size : sizes) bytes *= size;
  if (bytes == 0) return 0;
  size_t dim = 0;
  while (dim < sizes.size() && sizes[dim] == 1) ++dim;
  const int64_t end = dim < sizes.size() ? sizes[dim] : 1;
  const int64_t rows = std::clamp<int64_t>(kPieceBytes / (bytes / end), 1, end);
  std::vector<std::byte> piece(static_cast<size_t>(bytes / end * rows));
  double largest = 0;
  for (int64_t at = 0; at < end; at += rows) {
    const int64_t count = std::min(rows, end - at);
    if (dim < sizes.size()) {
      start[dim] = at;
      sizes[dim] = count;
    }
    if (!array.ReadBox(start, sizes, Padding::kHarmless, piece.data())) return 0;
    const auto read = static_cast<size_t>(bytes / end * count);
    largest = std::max(largest, LargestMagnitude(array.dtype, {piece.data(), read}));
  }
  return largest;
}

}  // namespace

std::vector<double> ParameterMagnitudes(const Module& module, const Inputs& inputs,
                                        const DeviceGrid& grid) {
  const std::vector<ParameterLeaf> leaves = ParameterLeaves(*module.entry());
  std::vector<double> magnitudes;
  for (size_t k = 0; k < leaves.size(); ++k) {
    const ParameterLeaf& leaf = leaves[k];
    magnitudes.resize(std::max(magnitudes.size(), static_cast<size_t>(leaf.number) + 1), 0);
    if (!leaf.shape->IsArray()) continue;
    if (!IsFloat(leaf.shape->dtype()) && !IsComplex(leaf.shape->dtype())) continue;
    InputForm form = InputForm::kWhole;
    const Expected<GlobalArray> array =
        inputs.Load(leaf, k, leaf.shape->dims(), leaf.shape->dims(), true, grid, &form);
    if (!array) continue;
    double& largest = magnitudes[static_cast<size_t>(leaf.number)];
    largest = std::max(largest, MagnitudeOf(*array));
  }
  return magnitudes;
}

}  // namespace gshard::cpu
