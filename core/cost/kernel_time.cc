// See kernel_time.h.

#include "core/cost/kernel_time.h"

#include <algorithm>
#include <cmath>

namespace gshard {
namespace {

// A transcendental takes about as long as this many vector operations.
constexpr double kVectorOpsPerTranscendental = 8;
// On a TPU a sine or its like takes so many more, which bring an argument of any size into one
// period: 39 cycles of a v5e, in each of which its vector unit can start four.
constexpr double kVectorOpsPerPeriod = 148;
// Contractions this long are worth splitting over idle units.
constexpr double kMinSplitLength = 512;

// Convolutions of fewer features than a TPU's vector unit has rows contract so many positions of
// the matrix unit for every so many of the window, however few elements these have.
constexpr double kFewFeatures = 8, kMinContraction = 1024, kWindowsOfLeast = 32;
// Depthwise convolutions shift their input for each position of the window: a multiply-add takes
// the vector unit, which starts four operations in a cycle at its best, one to two cycles.
constexpr double kOperationsOfTap = 3;

double RoundUp(double value, int64_t tile) {
  return std::ceil(value / static_cast<double>(tile)) * static_cast<double>(tile);
}

// Passes over `type` that an algorithm's name asks for: "dot_bf16_bf16_f32_x6".
double PassesOfAlgorithm(std::string_view algorithm) {
  size_t x = algorithm.rfind("_x");
  if (x == std::string_view::npos || x + 2 >= algorithm.size()) return 1;
  char digit = algorithm[x + 2];
  return digit >= '2' && digit <= '9' ? digit - '0' : 1;
}

double RateOf(std::string_view type, const Chip& chip) {
  auto it = chip.peak_flops.find(std::string(type));
  return it == chip.peak_flops.end() ? 0 : it->second;
}

double RateOfAlgorithm(std::string_view algorithm, const Chip& chip) {
  const double passes = PassesOfAlgorithm(algorithm);
  if (algorithm.starts_with("dot_bf16")) return chip.PeakFlops(DType::kBF16) / passes;
  if (algorithm.starts_with("dot_f16")) return chip.PeakFlops(DType::kF16) / passes;
  if (algorithm.starts_with("dot_tf32")) {
    double tf32 = RateOf("tf32", chip);
    return (tf32 > 0 ? tf32 : chip.PeakFlops(DType::kF32)) / passes;
  }
  if (algorithm.starts_with("dot_f64")) return chip.PeakFlops(DType::kF64);
  if (algorithm.starts_with("dot_any_f8") || algorithm.starts_with("dot_f8")) {
    return chip.PeakFlops(DType::kF8E4M3FN);
  }
  return 0;
}

bool HasFewFeatures(const MatrixWork& product, const Chip& chip) {
  return product.input_features > 0 && product.input_features < kFewFeatures &&
         chip.compiler == Chip::Compiler::kTpu;
}

bool IsPaddedConvolution(const MatrixWork& product, const Chip& chip) {
  return product.input_features >= kFewFeatures && chip.compiler == Chip::Compiler::kTpu;
}

// What a product contracts on a matrix unit, in whole tiles: of a convolution on a TPU one row of
// the window after the other.
double ContractionOf(const MatrixWork& product, const Chip& chip) {
  const int64_t tile = chip.matrix_tile[2];
  if (IsPaddedConvolution(product, chip)) {
    const double rows = product.window / product.window_row;
    return rows * RoundUp(product.k / rows, tile);
  }
  if (!HasFewFeatures(product, chip)) return RoundUp(product.k, tile);
  return RoundUp(std::max(product.k, kMinContraction * std::ceil(product.window / kWindowsOfLeast)),
                 tile);
}

// A TPU's convolutions read and write features in whole tiles: bytes beyond the arrays' own.
double PaddingBytes(const MatrixWork& product, const Chip& chip) {
  if (!IsPaddedConvolution(product, chip)) return 0;
  auto padding = [&](double bytes, double features) {
    return features > 0 ? bytes * (RoundUp(features, chip.matrix_tile[1]) / features - 1) : 0;
  };
  return padding(product.input_bytes, product.input_features) +
         padding(product.output_bytes, product.n * product.batch);
}

// Matrix units work on whole tiles; where there are many units, the last wave may be part idle.
double MatrixSeconds(const MatrixWork& product, const Chip& chip, double efficiency) {
  if (product.flops <= 0) return 0;
  const double rate = MatrixRate(product, chip) * efficiency;
  const double exact = product.batch * product.m * product.n * product.k;
  if (exact <= 0) return product.flops / rate;
  const auto tile_m = chip.matrix_tile[0], tile_n = chip.matrix_tile[1];
  const double k = ContractionOf(product, chip);
  const double units = static_cast<double>(chip.matrix_units);
  auto share_used = [&](double m, double n) {
    const double padded = RoundUp(m, tile_m) * RoundUp(n, tile_n) * k;
    double used = exact / (product.batch * padded);
    if (units > 1) {
      double tiles = product.batch * RoundUp(m, tile_m) / static_cast<double>(tile_m) *
                     RoundUp(n, tile_n) / static_cast<double>(tile_n);
      if (tiles < units)
        tiles = std::min(units, tiles * std::max(1.0, std::floor(k / kMinSplitLength)));
      used *= tiles / (std::ceil(tiles / units) * units);
    }
    return used;
  };
  double used = share_used(product.m, product.n);
  // Which operand stays in the unit is the compiler's choice, but for features of convolutions.
  const bool is_padded = IsPaddedConvolution(product, chip);
  if (!is_padded) used = std::max(used, share_used(product.n, product.m));
  const double seconds = product.flops / (rate * used);
  if (chip.vector_flops <= 0 || HasFewFeatures(product, chip)) return seconds;
  // Products too thin for the units run as elementwise work.
  double operations = product.flops;
  if (is_padded) {
    const double features = product.n * product.batch;
    operations *= kOperationsOfTap * RoundUp(features, chip.matrix_tile[1]) / features;
  }
  return std::min(seconds, operations / chip.vector_flops);
}

// Vector operations that one of integers takes: on a TPU as any other; on a GPU a lane for as long
// as a multiply-add, which counts two (CUDA C++ programming guide, throughput of arithmetic).
double OtherOpWeight(const Chip& chip) { return chip.compiler == Chip::Compiler::kGpu ? 2 : 1; }

// A GPU's top-k reads rows once and keeps the largest.
bool SortsByNetwork(const SortWork& sort, const Chip& chip) {
  if (chip.vector_flops <= 0) return false;
  return chip.compiler == Chip::Compiler::kTpu ||
         (chip.compiler == Chip::Compiler::kGpu && sort.largest == 0);
}

// A TPU's transforms of a length are products with matrices of that length, of f32 at HIGHEST
// precision: three real products make a complex one.
MatrixWork ProductOf(double length, double elements) {
  MatrixWork product;
  product.batch = 3;
  product.m = elements / length;
  product.n = product.k = length;
  product.flops = 2 * product.batch * elements * length;
  product.precision = Precision::kHighest;
  return product;
}

// Each of attention's products contracts or makes the width of a head, which takes whole tiles of a
// TPU's matrix unit: 128 leave half of a unit of 256 x 256 idle.
double HeadShareOfTile(const KernelWork& work, const Chip& chip) {
  if (chip.compiler != Chip::Compiler::kTpu || work.head_width <= 0) return 1;
  return work.head_width / RoundUp(work.head_width, chip.matrix_tile[1]);
}

}  // namespace

double MatrixRate(const MatrixWork& product, const Chip& chip) {
  double rate = RateOfAlgorithm(product.algorithm, chip);
  if (rate > 0) return rate;
  if (product.widened_to && chip.compiler == Chip::Compiler::kGpu)
    return chip.PeakFlops(*product.widened_to);
  rate = chip.PeakFlops(product.dtype);
  const bool is_f32 = product.dtype == DType::kF32 || product.dtype == DType::kC64;
  if (!is_f32 || product.algorithm == "dot_f32_f32_f32") return rate;
  const size_t level = product.precision == Precision::kHighest ? 2
                       : product.precision == Precision::kHigh  ? 1
                                                                : 0;
  if (chip.f32_passes[level] > 0) {
    return chip.PeakFlops(DType::kBF16) / static_cast<double>(chip.f32_passes[level]);
  }
  double tf32 = RateOf("tf32", chip);
  if (level == 0 && tf32 > 0) return tf32;
  if (level == 1 && tf32 > 0) return std::max(rate, tf32 / 3);
  return rate;
}

double RatedSeconds(const KernelWork& work, const Chip& chip) {
  if (work.is_scalar) return 0;
  const bool is_attention = work.work_class == WorkClass::kAttention;
  double matrix_flops = 0, matrix_s = 0;
  for (const MatrixWork& product : work.matrix) matrix_flops += product.flops;
  const EfficiencyCurve& curve =
      is_attention ? chip.OfStack().attention_efficiency : chip.dot_efficiency;
  if (is_attention) {
    // Its kernel keeps to tiles of its own making, but for the width of a head.
    double todo = matrix_flops > 0
                      ? (matrix_flops + work.recomputed_flops) *
                            (1 - work.masked_flops / matrix_flops) / HeadShareOfTile(work, chip)
                      : 0;
    double rate = work.matrix.empty() ? chip.NominalFlops() : MatrixRate(work.matrix[0], chip);
    matrix_s = todo / (rate * curve.At(todo));
  } else {
    for (const MatrixWork& product : work.matrix) {
      matrix_s += MatrixSeconds(product, chip, curve.At(product.flops));
    }
  }
  double vector_ops = std::max(0.0, work.flops - matrix_flops) +
                      kVectorOpsPerTranscendental * work.transcendentals +
                      OtherOpWeight(chip) * work.other_ops;
  if (chip.compiler == Chip::Compiler::kTpu)
    vector_ops += kVectorOpsPerPeriod * work.periodic_functions;
  // Attention's efficiency is measured with its softmax.
  double vector_s = chip.vector_flops > 0 && !is_attention ? vector_ops / chip.vector_flops : 0;
  double bytes = work.bytes;
  for (const MatrixWork& product : work.matrix) bytes += PaddingBytes(product, chip);
  double launches = 1;
  for (const SortWork& sort : work.sorts) {
    const double passes = chip.compiler == Chip::Compiler::kGpu ? RadixPasses(sort) : 0;
    launches += passes;
    if (passes > 0) {
      bytes += RadixBytes(sort);
    } else if (SortsByNetwork(sort, chip)) {
      vector_s += SortOperations(sort) / chip.vector_flops;
    }
  }
  for (const FftWork& transform : work.transforms) {
    if (chip.compiler != Chip::Compiler::kTpu) break;
    for (double length : transform.factors) {
      const MatrixWork product = ProductOf(length, transform.elements);
      matrix_s += MatrixSeconds(product, chip, curve.At(product.flops));
    }
    // Real and imaginary parts are arrays of their own: they are taken apart, go through memory
    // between the transforms, and are put together.
    const double passes = static_cast<double>(transform.factors.size()) + 1;
    bytes += passes * 2 * 8 * transform.elements;
  }
  const double slices_s = work.indexed_slices * chip.indexed_slice_s;
  double memory_s =
      bytes > 0 ? bytes / (chip.hbm_bytes_per_s * chip.memory_efficiency.At(bytes)) : 0;
  const bool has_cycles = chip.compiler == Chip::Compiler::kTpu && chip.clock_hz > 0;
  const double sequential_s = has_cycles ? work.sequential_cycles / chip.clock_hz : 0;
  double longest = std::max({matrix_s, vector_s, memory_s, slices_s, sequential_s});
  return longest > 0 ? longest + launches * chip.launch_s : 0;
}

double KernelSeconds(const KernelWork& work, const Chip& chip) {
  return RatedSeconds(work, chip) / chip.OfStack().sustained;
}

MaskedOn MaskedOnOf(const Chip& chip) {
  return chip.stack == Chip::Stack::kJax ? MaskedOn::kBusiest : MaskedOn::kAverage;
}

FusionOptions FusionOptionsOf(const Chip& chip) {
  FusionOptions options;
  if (chip.compiler == Chip::Compiler::kCpu) return options;
  options.for_tpu = chip.compiler == Chip::Compiler::kTpu;
  options.fuses_row_statistics = options.for_tpu && chip.overlaps_collectives;
  options.products_have_row_statistics = chip.products_have_row_statistics;
  options.for_gpu = chip.compiler == Chip::Compiler::kGpu && chip.stack == Chip::Stack::kJax;
  options.gathers_from_memory = options.for_tpu && chip.indexed_slice_s <= 0;
  options.vector_operations_per_byte = chip.vector_operations_per_byte;
  options.fuses_movement = true;
  options.copies_values = true;
  options.fuses_calls = chip.stack != Chip::Stack::kPytorch;
  options.copies_into_stacks = chip.stack == Chip::Stack::kJax;
  options.casts_in_producers = chip.stack == Chip::Stack::kMegatron;
  options.sums_in_products = chip.stack == Chip::Stack::kMegatron;
  return options;
}

}  // namespace gshard
