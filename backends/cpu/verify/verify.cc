// Elementwise comparison with tolerances.
#include "backends/cpu/verify/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <string>

#include "backends/cpu/arrays/array_rows.h"
#include "backends/cpu/plan/lowering.h"
#include "backends/cpu/verify/analysis/graph_walk.h"
#include "backends/cpu/verify/analysis/taint.h"
#include "backends/cpu/verify/element_error.h"

namespace gshard::cpu {
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

Mismatch MismatchAt(DType dtype, std::span<const int64_t> dims, const std::byte* want, int64_t at,
                    uint32_t device, const std::byte* have, int64_t local) {
  const double magnitude = ElementMagnitude(dtype, want, at);
  const double error = ElementError(dtype, have, local, want, at);
  return {{},
          IndexOf(at, dims),
          device,
          FormatElement(dtype, have, local),
          FormatElement(dtype, want, at),
          error / UnitInLastPlace(dtype, magnitude),
          0,
          0,
          {}};
}

namespace {

// A device whose copy of an element is as expected.
std::optional<uint32_t> RightDevice(std::span<const MeshRun::Instance> instances,
                                    const OutputArray& want, int64_t at, double allowed) {
  const std::vector<int64_t> index = IndexOf(at, want.dims);
  for (const MeshRun::Instance& instance : instances) {
    int64_t local = 0;
    bool is_inside = true;
    for (size_t d = 0; d < index.size(); ++d) {
      const int64_t place = index[d] - instance.start[d];
      is_inside = is_inside && place >= 0 && place < instance.sizes[d];
      local = local * instance.sizes[d] + place;
    }
    if (!is_inside) continue;
    if (ElementError(want.dtype, instance.data, local, want.data.data(), at) <= allowed) {
      return instance.device;
    }
  }
  return std::nullopt;
}

}  // namespace

ArrayError CompareInstances(std::span<const MeshRun::Instance> instances, const OutputArray& want,
                            double allowed) {
  ArrayError result;
  const int64_t bytes = StorageBytes(want.dtype);
  const MeshRun::Instance* where = nullptr;
  int64_t worst_local = 0;
  RowError error;
  for (const MeshRun::Instance& instance : instances) {
    ForEachRow(instance.start, instance.sizes, want.dims,
               [&](int64_t global, int64_t local, int64_t length) {
                 result.elements += length;
                 const double before = error.largest;
                 CompareRow(want.dtype, instance.data + local * bytes,
                            want.data.data() + global * bytes, length, allowed, global, error);
                 if (error.largest == before) return;
                 where = &instance;
                 worst_local = local + error.at - global;
               });
  }
  result.largest = error.largest;
  result.beyond = error.beyond;
  if (where != nullptr) {
    result.mismatch = MismatchAt(want.dtype, want.dims, want.data.data(), error.at, where->device,
                                 where->data, worst_local);
    if (error.beyond > 0) {
      result.mismatch.right_device = RightDevice(instances, want, error.at, allowed);
    }
  }
  return result;
}

namespace {

// Computes in a type of so many bits or less.
template <int kBits>
bool ComputesCoarsely(const Instruction& x) {
  const Shape* shape = x.shape();
  return shape->IsArray() && IsFloat(shape->dtype()) && 8 * StorageBytes(shape->dtype()) <= kBits &&
         !OnlyMoves(x);
}

// By output: the tolerance of the coarsest type that it was computed in on its way.
class OutputTolerances {
 public:
  OutputTolerances(const Module& reference, const OutputTolerance& given)
      : given_(given),
        in_8_bits_(reference, ComputesCoarsely<8>),
        in_16_bits_(reference, ComputesCoarsely<16>),
        in_32_bits_(reference, ComputesCoarsely<32>) {}

  // Whatever the user allows.
  double OfTypes(size_t k, DType dtype) const {
    const double own = ToleranceOf(dtype);
    if (own == 0) return 0;
    double relative = own;
    if (in_32_bits_.OfOutput(k)) relative = std::max(relative, ToleranceOf(DType::kF32));
    if (in_16_bits_.OfOutput(k)) relative = std::max(relative, ToleranceOf(DType::kBF16));
    if (in_8_bits_.OfOutput(k)) relative = std::max(relative, ToleranceOf(DType::kF8E5M2));
    return relative;
  }

  double Allowed(size_t k, DType dtype, double magnitude) const {
    const double of_types = OfTypes(k, dtype);
    if (of_types == 0) return kSmallestAllowed;
    return given_.relative.value_or(of_types) * magnitude +
           given_.absolute.value_or(kSmallestAllowed);
  }

 private:
  const OutputTolerance& given_;
  const Taint in_8_bits_, in_16_bits_, in_32_bits_;
};

// Where nothing can go wrong that verification is for.
std::string WhyTrivial(const Program& program, const Module& reference) {
  if (program.module == &reference)
    return "there is one device: the program is compared with itself";
  if (program.grid.device_count() == 1) return {};
  for (const Value& value : program.values) {
    if (value.classes != nullptr && !value.classes->IsUniform()) return {};
  }
  return "nothing is sharded: all devices do the same";
}

// Whether the mesh's program leaves out values that the reference has. What stands in for them is
// the same for all constants of one shape (fill.h), so what both leave out agrees.
bool LeavesOutKnownValues(const Program& program, const Module& reference) {
  if (program.elided_constants.empty()) return false;
  std::set<std::string> shapes;
  for (const auto& computation : reference.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (IsElidedConstant(*x)) shapes.insert(ToString(x->shape(), false));
    }
  }
  return std::any_of(
      program.elided_constants.begin(), program.elided_constants.end(),
      [&](const Instruction* x) { return !shapes.contains(ToString(x->shape(), false)); });
}

}  // namespace

VerifyResult VerifyOutputs(const MeshRun& run, const std::vector<OutputArray>& expected,
                           const Module& reference, const OutputTolerance& tolerance) {
  VerifyResult result;
  result.trivial = WhyTrivial(*run.plan().program, reference);
  const OutputTolerances tolerances(reference, tolerance);
  const Taint random(reference, IsRandomSource), discrete(reference, IsDiscreteChoice);
  const Program& program = *run.plan().program;
  std::optional<Taint> unknown;
  if (LeavesOutKnownValues(program, reference)) unknown.emplace(*program.module, IsElidedConstant);
  for (size_t k = 0; k < expected.size(); ++k) {
    const OutputArray& want = expected[k];
    if (want.data.empty()) continue;
    if (random.OfOutput(k)) {
      ++result.shape_only;
      continue;
    }
    ++result.compared;
    const double magnitude = LargestMagnitude(want.dtype, want.data);
    const double allowed = tolerances.Allowed(k, want.dtype, magnitude);
    ArrayError error = CompareInstances(run.Instances(k), want, allowed);
    const double worst = error.largest;
    const double relative = magnitude > 0 ? worst / magnitude : worst;
    if (worst > allowed && unknown && unknown->OfOutput(k)) {
      result.undetermined.push_back(fmt::format("o{}", k));
      continue;
    }
    OutputError& output = result.outputs.emplace_back();
    output = {k, worst, magnitude, tolerances.OfTypes(k, want.dtype), worst > allowed, {}, 0, 0};
    output.elements = static_cast<int64_t>(want.data.size()) / StorageBytes(want.dtype);
    output.nans = CountNan(want.dtype, want.data);
    if (output.differs) {
      output.mismatch = std::move(error.mismatch);
      output.mismatch.name = fmt::format("o{}", k);
      output.mismatch.differences = error.beyond;
      output.mismatch.elements = error.elements;
    }
    if (discrete.OfOutput(k) && error.beyond > 0) {
      ++result.discrete_outputs;
      result.discrete_differences += error.beyond;
      result.discrete_elements += error.elements;
      if (static_cast<double>(error.beyond) <=
          kDiscreteShare * static_cast<double>(error.elements)) {
        continue;
      }
    }
    result.max_abs_error = std::max(result.max_abs_error, worst);
    if (relative > result.max_rel_error || result.worst.empty()) {
      result.max_rel_error = relative;
      result.worst = fmt::format("o{}", k);
    }
    if (output.differs && result.ok) {
      result.ok = false;
      result.mismatch = output.mismatch;
    }
  }
  return result;
}

Expected<void> CheckDetermined(const VerifyResult& verify, const MeshRun& run) {
  if (!verify.ok || verify.undetermined.empty()) return {};
  const Program& program = *run.plan().program;
  const Instruction* constant = program.elided_constants.front();
  const size_t count = verify.undetermined.size();
  std::string outputs = verify.undetermined.front();
  if (count > 1) outputs += fmt::format(" and {} more output{}", count - 1, count == 2 ? "" : "s");
  Diagnostic error = program.module->ErrorAt(
      constant, "E-RUN-ELIDED",
      fmt::format(
          "{} {} from the reference and {} from constants whose values the text leaves out, "
          "as those of {}: this tells neither right nor wrong",
          outputs, count == 1 ? "differs" : "differ", count == 1 ? "follows" : "follow",
          constant->name()));
  error.hint = ElidedHint();
  return Fail(error);
}

}  // namespace gshard::cpu
