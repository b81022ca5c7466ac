// Four arrays an output: of the mesh and of the unpartitioned graph, in two precisions.
#include "backends/cpu/verify/widened_outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>

#include "backends/cpu/verify/analysis/graph_walk.h"
#include "backends/cpu/verify/analysis/taint.h"
#include "backends/cpu/verify/element_error.h"
#include "backends/cpu/verify/near_ties.h"

namespace gshard::cpu {
namespace {

constexpr double kShareOfRounding = 1e-4;
constexpr double kClearlyAbove = 10;      // rounding: wrong
constexpr double kClearlyCoarser = 1000;  // the mesh's rounding than the unpartitioned graph's
constexpr int64_t kMaxConstantElements = 4096;  // of a constant that is looked into

// Rounds to significands of so many bits, the leading one not counted, or fewer.
template <int kMantissaBits>
bool RoundsTo(const Instruction& x) {
  const Shape* shape = x.shape();
  if (!shape->IsArray() || OnlyMoves(x)) return false;
  const DType dtype = shape->dtype();
  if (x.opcode() == Opcode::kReducePrecision &&
      x.attributes<ReducePrecisionAttributes>().mantissa_bits <= kMantissaBits) {
    return true;
  }
  const int bits = IsFloat(dtype) ? DTypeBits(dtype) : dtype == DType::kC64 ? 32 : 64;
  return bits <= (kMantissaBits >= 23 ? 32 : kMantissaBits >= 10 ? 16 : 8);
}

bool Jumps(const Instruction& x) { return DecidingInstruction(x) != nullptr; }

// What outputs were rounded to on their way.
class Precisions {
 public:
  explicit Precisions(const Module& module)
      : to_f32_(module, RoundsTo<23>), to_f16_(module, RoundsTo<10>), to_f8_(module, RoundsTo<3>) {}

  bool IsNarrow(size_t k) const { return to_f32_.OfOutput(k); }
  const char* Coarsest(size_t k) const {
    if (to_f8_.OfOutput(k)) return "8 bits";
    if (to_f16_.OfOutput(k)) return "16 bits";
    return to_f32_.OfOutput(k) ? "32 bits" : "64 bits";
  }
  // Distance of neighbouring numbers around 1.
  double Unit(size_t k) const {
    const DType dtype = to_f8_.OfOutput(k)    ? DType::kF8E4M3FN
                        : to_f16_.OfOutput(k) ? DType::kBF16
                        : to_f32_.OfOutput(k) ? DType::kF32
                                              : DType::kF64;
    return UnitInLastPlace(dtype, 1);
  }
  bool IsCoarserThan(const Precisions& other, size_t k) const {
    return (to_f32_.OfOutput(k) && !other.to_f32_.OfOutput(k)) ||
           (to_f16_.OfOutput(k) && !other.to_f16_.OfOutput(k)) ||
           (to_f8_.OfOutput(k) && !other.to_f8_.OfOutput(k));
  }

 private:
  const Taint to_f32_, to_f16_, to_f8_;
};

// Calls visit(value, dtype) for each element of narrow float constants, of large ones for none.
template <typename Visit>
void VisitConstants(const Module& module, const Visit& visit) {
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (x->opcode() != Opcode::kConstant || !x->shape()->IsArray()) continue;
      const DType dtype = x->shape()->dtype();
      const Literal& literal = *x->attributes<ConstantAttributes>().literal;
      const bool is_narrow = IsFloat(dtype) && dtype != DType::kF64;
      if (!is_narrow || literal.elided || x->shape()->element_count() > kMaxConstantElements)
        continue;
      for (int64_t i = 0; i < x->shape()->element_count(); ++i) {
        visit(ElementAsDouble(literal, i), dtype);
      }
    }
  }
}

// Uses more than half of the significant bits that its type has: 1/3, not 1/4.
bool IsRounded(double value, DType dtype) {
  if (!std::isfinite(value)) return false;
  int exponent = 0;
  const double significand = std::frexp(value, &exponent);  // 0.5 and above
  const int bits = 1 - std::ilogb(UnitInLastPlace(dtype, 1));
  const double upper_half = std::ldexp(significand, bits / 2);
  return upper_half != std::trunc(upper_half);
}

// Has a program constants that its reference has not, such as a quotient that was rounded to its
// type? In f64 both are off by that much.
bool HasRoundedConstants(const Module& program, const Module& reference) {
  std::unordered_set<double> known;
  VisitConstants(reference, [&](double value, DType) { known.insert(value); });
  bool found = false;
  VisitConstants(program, [&](double value, DType dtype) {
    found = found || (IsRounded(value, dtype) && !known.contains(value));
  });
  return found;
}

// max|a - b| of an array and the same one in `wide`'s type.
double LargestDifference(const OutputArray& array, const OutputArray& wide) {
  RowError error;
  const bool is_complex = IsComplex(wide.dtype);
  const auto count = static_cast<int64_t>(wide.data.size()) / StorageBytes(wide.dtype);
  if (array.dtype == wide.dtype) {
    CompareRow(wide.dtype, array.data.data(), wide.data.data(), count, 0, 0, error);
    return error.largest;
  }
  const DType part = is_complex ? DType::kF32 : array.dtype;
  std::vector<double> values(static_cast<size_t>(count) * (is_complex ? 2 : 1));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = ElementValue(part, array.data.data(), static_cast<int64_t>(i));
  }
  CompareRow(wide.dtype, std::as_bytes(std::span(values)).data(), wide.data.data(), count, 0, 0,
             error);
  return error.largest;
}

class WidenedJudge {
 public:
  WidenedJudge(const VerifyResult& narrow, const std::vector<OutputArray>& narrow_expected,
               const Module& program, const Module& reference, const MeshRun& run,
               const std::vector<OutputArray>& expected)
      : narrow_(narrow),
        narrow_expected_(narrow_expected),
        run_(run),
        expected_(expected),
        of_mesh_(program),
        of_reference_(reference),
        discrete_(reference, IsDiscreteChoice),
        jumps_(reference, Jumps),
        rounded_constants_(HasRoundedConstants(program, reference)) {}

  WidenedResult Decide() {
    result_.was_run = true;
    for (const OutputError& output : narrow_.outputs) JudgeOutput(output);
    if (clearest_ > 0) {
      result_.outcome = WidenedResult::Outcome::kRemains;
      result_.reason.clear();
      result_.worst = clearest_output_;
    } else if (result_.reason.empty()) {
      result_.outcome = WidenedResult::Outcome::kRounding;
    }
    return std::move(result_);
  }

 private:
  void JudgeOutput(const OutputError& output) {
    const size_t k = output.output;
    const std::string name = fmt::format("o{}", k);
    const OutputArray& want = expected_[k];
    const bool is_widened = want.dtype != narrow_expected_[k].dtype;
    if (!is_widened && !of_mesh_.IsNarrow(k) && !of_reference_.IsNarrow(k)) {
      if (output.differs) Undecided(fmt::format("{} follows from nothing narrower than f64", name));
      if (output.differs) Report(output, {});
      return;
    }
    const double magnitude = LargestMagnitude(want.dtype, want.data);
    const double rounding = LargestDifference(narrow_expected_[k], want);
    const bool is_float = IsFloat(want.dtype) || IsComplex(want.dtype);
    double allowed = is_float ? ToleranceOf(DType::kF64) * magnitude : 0;
    if (is_float && rounded_constants_) allowed = 2 * of_mesh_.Unit(k) * magnitude;
    if (is_float && std::isfinite(rounding)) allowed += kShareOfRounding * rounding;
    allowed += kSmallestAllowed;
    ArrayError error = CompareInstances(run_.Instances(k), want, allowed);
    const double scale = std::max(magnitude, output.magnitude);
    WidenedResult::Output found;
    found.error = error.largest;
    found.rel_error = scale > 0 ? error.largest / scale : error.largest;
    found.rounding = rounding;
    const bool tolerated =
        discrete_.OfOutput(k) && !output.differs &&
        static_cast<double>(error.beyond) <= kDiscreteShare * static_cast<double>(error.elements);
    found.remains = error.largest > allowed && !tolerated;
    if (found.remains) {
      found.widened = std::move(error.mismatch);
      found.widened.name = name;
      found.widened.differences = error.beyond;
      found.widened.elements = error.elements;
    }
    if (output.differs || found.remains) Report(output, found);
    if (tolerated) return;
    if (result_.worst.empty() || found.rel_error > result_.max_rel_error) {
      result_.max_rel_error = found.rel_error;
      result_.worst = name;
    }
    if (found.remains) {
      NoteRemains(name, found, allowed);
    } else if (output.differs) {
      CheckPrecision(output, name, magnitude, rounding);
    }
  }

  void Report(const OutputError& output, WidenedResult::Output found) {
    found.mismatch = output.mismatch;
    if (found.mismatch.name.empty()) found.mismatch.name = fmt::format("o{}", output.output);
    result_.outputs.push_back(std::move(found));
  }

  void NoteRemains(const std::string& name, const WidenedResult::Output& found, double allowed) {
    if (found.error <= kClearlyAbove * found.rounding) {
      Undecided(
          fmt::format("{} stays off by {:.3g} in f64, and the unpartitioned graph itself is "
                      "off by {:.3g} between its own type and f64: that may be rounding",
                      name, found.error, found.rounding));
      return;
    }
    const double clear = found.error / std::max(allowed, kClearlyAbove * found.rounding);
    if (clear <= clearest_) return;
    clearest_ = clear;
    clearest_output_ = name;
  }

  // Of an output that agrees in f64.
  void CheckPrecision(const OutputError& output, const std::string& name, double magnitude,
                      double rounding) {
    const size_t k = output.output;
    if (of_mesh_.IsCoarserThan(of_reference_, k)) {
      Undecided(
          fmt::format("both agree in f64, but the devices round {} to {}, the unpartitioned "
                      "graph to {}",
                      name, of_mesh_.Coarsest(k), of_reference_.Coarsest(k)));
    } else if (!std::isfinite(output.error)) {
      Undecided(fmt::format("both agree in f64, but the devices make NaN or infinity of {}", name));
    } else if (!jumps_.OfOutput(k) && output.error > kClearlyCoarser * rounding &&
               magnitude > kShareOfRounding * output.error) {
      Undecided(
          fmt::format("both agree in f64, but {} is off by {:.3g}, where the unpartitioned "
                      "graph's rounding is {:.3g}: the devices lose precision",
                      name, output.error, rounding));
    }
  }

  void Undecided(std::string reason) {
    if (result_.reason.empty()) result_.reason = std::move(reason);
  }

  const VerifyResult& narrow_;
  const std::vector<OutputArray>& narrow_expected_;
  const MeshRun& run_;
  const std::vector<OutputArray>& expected_;
  const Precisions of_mesh_, of_reference_;
  const Taint discrete_, jumps_;
  const bool rounded_constants_;
  double clearest_ = 0;  // 0: none is clearly wrong
  std::string clearest_output_;
  WidenedResult result_;
};

}  // namespace

WidenedResult JudgeWidened(const VerifyResult& narrow,
                           const std::vector<OutputArray>& narrow_expected, const Module& program,
                           const Module& reference, const MeshRun& run,
                           const std::vector<OutputArray>& expected) {
  return WidenedJudge(narrow, narrow_expected, program, reference, run, expected).Decide();
}

}  // namespace gshard::cpu
