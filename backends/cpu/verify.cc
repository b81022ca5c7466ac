// Elementwise comparison with tolerances; taint from random and discrete operations.
#include "backends/cpu/verify.h"

#include <fmt/format.h>
#include <tsl/robin_map.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>

#include "backends/cpu/array_rows.h"
#include "ir/literal.h"

namespace gshard::cpu {
namespace {

// A flipped decision changes few elements; more than this share is a wrong result.
constexpr double kDiscreteShare = 0.05;
constexpr double kSmallest = 1e-30;  // allowed where the expected values are all zero

double ReadDouble(DType dtype, const std::byte* data, int64_t index) {
  const int bytes = StorageBytes(dtype);
  const std::byte* at = data + index * bytes;
  if (dtype == DType::kF32) {
    float value = 0;
    std::memcpy(&value, at, sizeof value);
    return static_cast<double>(value);
  }
  if (dtype == DType::kF64) {
    double value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, at, static_cast<size_t>(std::min(bytes, 2)));
  return DecodeSmallFloat(dtype, bits);
}

std::complex<double> ReadComplex(DType dtype, const std::byte* data, int64_t index) {
  if (dtype == DType::kC64) {
    return {ReadDouble(DType::kF32, data, 2 * index), ReadDouble(DType::kF32, data, 2 * index + 1)};
  }
  return {ReadDouble(DType::kF64, data, 2 * index), ReadDouble(DType::kF64, data, 2 * index + 1)};
}

int64_t ReadInteger(DType dtype, const std::byte* data, int64_t index) {
  const int bytes = StorageBytes(dtype);
  int64_t value = 0;
  std::memcpy(&value, data + index * bytes, static_cast<size_t>(bytes));
  const bool is_signed = ClassOf(dtype) == DTypeClass::kSigned;
  const int shift = 64 - 8 * bytes;
  if (shift > 0) {
    const auto moved = static_cast<uint64_t>(value) << shift;
    value = is_signed ? static_cast<int64_t>(moved) >> shift : static_cast<int64_t>(moved >> shift);
  }
  return value;
}

std::string FormatElement(DType dtype, const std::byte* data, int64_t index) {
  if (IsFloat(dtype)) return fmt::format("{:.9g}", ReadDouble(dtype, data, index));
  if (IsComplex(dtype)) {
    const std::complex<double> value = ReadComplex(dtype, data, index);
    return fmt::format("({:.9g}, {:.9g})", value.real(), value.imag());
  }
  return fmt::format("{}", ReadInteger(dtype, data, index));
}

// |a - b|; NaN equals NaN, infinities equal themselves, anything else non-finite is infinitely far.
double ErrorOf(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double error = std::fabs(a - b);
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

double ElementError(DType dtype, const std::byte* a, int64_t i, const std::byte* b, int64_t j) {
  if (IsFloat(dtype)) return ErrorOf(ReadDouble(dtype, a, i), ReadDouble(dtype, b, j));
  if (IsComplex(dtype)) {
    const std::complex<double> x = ReadComplex(dtype, a, i), y = ReadComplex(dtype, b, j);
    return std::max(ErrorOf(x.real(), y.real()), ErrorOf(x.imag(), y.imag()));
  }
  const int64_t x = ReadInteger(dtype, a, i), y = ReadInteger(dtype, b, j);
  if (x == y) return 0;
  return std::max(std::fabs(static_cast<double>(x) - static_cast<double>(y)), 1.0);
}

double LargestMagnitude(const OutputArray& array) {
  const auto count = static_cast<int64_t>(array.data.size()) / StorageBytes(array.dtype);
  double largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    double value = 0;
    if (IsFloat(array.dtype)) {
      value = std::fabs(ReadDouble(array.dtype, array.data.data(), i));
    } else if (IsComplex(array.dtype)) {
      value = std::abs(ReadComplex(array.dtype, array.data.data(), i));
    } else {
      return 1;
    }
    if (std::isfinite(value)) largest = std::max(largest, value);
  }
  return largest;
}

bool IsRandom(const Instruction& x) { return x.opcode() == Opcode::kRng; }

// Picks among floats: a rounding difference can change which.
bool IsDiscrete(const Instruction& x) {
  auto floats = [&] {
    return x.operand_count() > 0 && x.operand(0)->shape()->IsArray() &&
           IsFloat(x.operand(0)->shape()->dtype());
  };
  switch (x.opcode()) {
    case Opcode::kSort:
    case Opcode::kTopK:
      return floats();
    case Opcode::kReduce:
    case Opcode::kReduceWindow:
      return x.shape()->IsTuple() && floats();
    case Opcode::kCustomCall:
      return x.attributes<CustomCallAttributes>().target == "TopK";
    default:
      return false;
  }
}

// Which instructions follow from an instruction for which `is_source` holds.
class Taint {
 public:
  Taint(const Module& module, bool (*is_source)(const Instruction&))
      : is_source_(is_source), tainted_(module.instruction_limit(), 0) {
    for (const Instruction* x : module.entry()->instructions()) {
      bool tainted = Holds(*x);
      for (const Instruction* operand : x->operands()) tainted |= tainted_[operand->id()] != 0;
      tainted_[x->id()] = tainted ? 1 : 0;
    }
    const Instruction* root = module.entry()->root();
    Append(root, root->shape());
  }
  bool OfOutput(size_t k) const { return k < outputs_.size() && outputs_[k]; }

 private:
  bool Holds(const Instruction& x) {
    if (is_source_(x)) return true;
    for (const Computation* computation : x.called()) {
      if (Contains(*computation)) return true;
    }
    return false;
  }
  bool Contains(const Computation& computation) {
    auto [known, inserted] = contains_.insert({&computation, false});
    if (!inserted) return known->second;
    bool found = false;
    for (const Instruction* x : computation.instructions()) found = found || Holds(*x);
    contains_[&computation] = found;
    return found;
  }
  void Append(const Instruction* x, const Shape* shape) {
    if (x->opcode() == Opcode::kTuple) {
      for (const Instruction* operand : x->operands()) Append(operand, operand->shape());
      return;
    }
    for (int64_t i = 0; i < shape->leaf_count(); ++i) {
      outputs_.push_back(tainted_[x->id()] != 0);
    }
  }

  bool (*is_source_)(const Instruction&);
  std::vector<uint8_t> tainted_;
  tsl::robin_map<const Computation*, bool> contains_;
  std::vector<bool> outputs_;
};

std::vector<int64_t> IndexOf(int64_t flat, std::span<const int64_t> dims) {
  std::vector<int64_t> index(dims.size());
  for (size_t i = dims.size(); i-- > 0;) {
    index[i] = flat % dims[i];
    flat /= dims[i];
  }
  return index;
}

}  // namespace

double ToleranceOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kC128:
      return 1e-9;
    case DType::kF32:
    case DType::kC64:
      return 1e-4;
    case DType::kF16:
    case DType::kBF16:
      return 2e-2;
    default:
      return IsFloat(dtype) ? 0.25 : 0;
  }
}

VerifyResult VerifyOutputs(const MeshRun& run, const std::vector<OutputArray>& expected,
                           const Module& reference) {
  VerifyResult result;
  const Taint random(reference, IsRandom), discrete(reference, IsDiscrete);
  for (size_t k = 0; k < expected.size(); ++k) {
    const OutputArray& want = expected[k];
    if (want.data.empty()) continue;
    if (random.OfOutput(k)) {
      ++result.shape_only;
      continue;
    }
    ++result.compared;
    const double magnitude = LargestMagnitude(want);
    const double allowed = ToleranceOf(want.dtype) * magnitude + kSmallest;
    double worst = 0;
    int64_t beyond = 0, elements = 0;
    Mismatch mismatch;
    for (const MeshRun::Instance& instance : run.Instances(k)) {
      ForEachRow(
          instance.start, instance.sizes, want.dims,
          [&](int64_t global, int64_t local, int64_t length) {
            elements += length;
            for (int64_t i = 0; i < length; ++i) {
              const double error =
                  ElementError(want.dtype, instance.data, local + i, want.data.data(), global + i);
              if (error <= worst && error <= allowed) continue;
              beyond += error > allowed ? 1 : 0;
              if (error <= worst) continue;
              worst = error;
              mismatch = {fmt::format("o{}", k), IndexOf(global + i, want.dims), instance.device,
                          FormatElement(want.dtype, instance.data, local + i),
                          FormatElement(want.dtype, want.data.data(), global + i)};
            }
          });
    }
    const double relative = magnitude > 0 ? worst / magnitude : worst;
    const bool decides = discrete.OfOutput(k);
    if (decides && beyond > 0) {
      ++result.discrete_outputs;
      result.discrete_differences += beyond;
      result.discrete_elements += elements;
      if (static_cast<double>(beyond) <= kDiscreteShare * static_cast<double>(elements)) continue;
    }
    result.max_abs_error = std::max(result.max_abs_error, worst);
    if (relative > result.max_rel_error || result.worst.empty()) {
      result.max_rel_error = relative;
      result.worst = fmt::format("o{}", k);
    }
    if (worst > allowed && result.ok) {
      result.ok = false;
      result.mismatch = std::move(mismatch);
    }
  }
  return result;
}

}  // namespace gshard::cpu
