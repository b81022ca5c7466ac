// Rules by opcode: sums, reductions, products, contractions.
#include "backends/cpu/verify/analysis/error_scale.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "backends/cpu/verify/analysis/graph_walk.h"
#include "core/analysis/combiner.h"
#include "ir/computation.h"
#include "ir/constant_fill.h"

namespace gshard::cpu {
namespace {

constexpr int kMaxDepth = 8;       // of operands that were not given
constexpr double kMaxGrowth = 16;  // of an error that was observed, in what uses it

// How the scale of a result follows from those of its operands.
enum class ScaleRule : uint8_t { kSum, kReduction, kProduct, kContraction };

ScaleRule ScaleRuleOf(Opcode opcode) {
  switch (opcode) {
    case Opcode::kDot:
    case Opcode::kRaggedDot:
    case Opcode::kScaledDot:
    case Opcode::kConvolution:
      return ScaleRule::kContraction;
    case Opcode::kReduce:
    case Opcode::kReduceWindow:
    case Opcode::kScatter:
    case Opcode::kScan:
      return ScaleRule::kReduction;
    case Opcode::kMultiply:
    case Opcode::kDivide:
    case Opcode::kPower:
    case Opcode::kExponential:
    case Opcode::kLog:
    case Opcode::kSqrt:
    case Opcode::kRsqrt:
    case Opcode::kCbrt:
    case Opcode::kBatchNormTraining:
    case Opcode::kBatchNormInference:
    case Opcode::kBatchNormGrad:
    case Opcode::kCustomCall:
      return ScaleRule::kProduct;
    default:  // its operands' errors add up
      return ScaleRule::kSum;
  }
}

// Errors of floats do not go through integers and pred: what follows from a pick has the scale of
// its own values, however large the floats were that decided.
bool CarriesErrors(const Instruction& x) {
  return !x.shape()->IsArray() || IsFloat(x.shape()->dtype()) || IsComplex(x.shape()->dtype());
}

// What a loop, a branch or a call was given or has left: as large as what was passed.
bool IsPassedIn(const Instruction& x) {
  return x.opcode() == Opcode::kParameter || x.opcode() == Opcode::kGetTupleElement;
}

double CountOf(const Instruction& x) {
  return x.shape()->IsArray() ? static_cast<double>(x.shape()->element_count()) : 1;
}

// Sums of n random signs grow as the root of n.
double GrowthOfSum(const Instruction& x) {
  double terms = 1;
  if (ScaleRuleOf(x.opcode()) == ScaleRule::kContraction) {
    // The terms count in both operands.
    terms = std::sqrt(CountOf(*x.operand(0)) * CountOf(*x.operand(1)) / CountOf(x));
  } else if (!x.called().empty() && Accumulates(*x.called(0))) {
    // Of updates all may meet in one element.
    const bool scatters = x.opcode() == Opcode::kScatter;
    terms =
        scatters ? CountOf(*x.operand(x.operand_count() / 2)) : CountOf(*x.operand(0)) / CountOf(x);
  }
  return std::max(1.0, std::sqrt(terms));
}

}  // namespace

ErrorScale::ErrorScale(const Module& module)
    : entry_(module.entry()), states_(module.instruction_limit()), walk_(module) {}

double ErrorScale::Of(const Instruction& x, double magnitude) {
  double largest = 0, product = 1, ratio = 1;
  for (const Instruction* operand : x.operands()) {
    if (!CarriesErrors(*operand) || !CarriesErrors(x)) continue;
    const double scale =
        x.opcode() == Opcode::kGetTupleElement ? LargestBehind(x, 0) : ScaleOfOperand(*operand, 0);
    largest = std::max(largest, scale);
    const double operand_magnitude = StateOf(*operand).magnitude;
    product *= operand_magnitude > 0 ? operand_magnitude : scale;
    if (operand_magnitude > 0) ratio = std::max(ratio, scale / operand_magnitude);
  }
  double scale = largest;
  const ScaleRule rule = ScaleRuleOf(x.opcode());
  if (rule == ScaleRule::kProduct) scale = std::max(magnitude * ratio, OfUnseenFactor(x));
  // Errors of one operand meet the other's values.
  if (rule == ScaleRule::kContraction) scale = product * ratio * GrowthOfSum(x);
  if (rule == ScaleRule::kReduction) scale = largest * GrowthOfSum(x);
  scale = std::isfinite(scale) ? std::max(scale, magnitude) : magnitude;
  states_[x.id()] = {magnitude, scale};
  return scale;
}

// A factor that was not given, such as a sum that the mesh has in parts only, may be what is left
// of larger terms; they are told by what it is made of.
double ErrorScale::OfUnseenFactor(const Instruction& x) const {
  const bool divides = x.opcode() == Opcode::kDivide;
  if ((x.opcode() != Opcode::kMultiply && !divides) || !CarriesErrors(x)) return 0;
  const auto size_of = [&](const Instruction& factor) {
    if (const std::optional<double> number = FillingNumber(&factor)) return std::abs(*number);
    const double magnitude = StateOf(factor).magnitude;
    return magnitude > 0 ? magnitude : ScaleOfOperand(factor, 0);
  };
  const auto is_unseen = [&](const Instruction& factor) {
    return !FillingNumber(&factor) && StateOf(factor).magnitude == 0;
  };
  const Instruction &first = *x.operand(0), &second = *x.operand(1);
  if (!is_unseen(first) && (divides || !is_unseen(second))) return 0;
  const double by = size_of(second);
  if (divides) return by > 0 ? size_of(first) / by : 0;
  return size_of(first) * by;
}

void ErrorScale::SetParameters(std::span<const double> magnitudes) {
  for (size_t k = 0; k < magnitudes.size(); ++k) {
    states_[entry_->parameter(static_cast<int64_t>(k))->id()] = {magnitudes[k], magnitudes[k]};
  }
}

void ErrorScale::Observe(const Instruction& x, double error, double tolerance) {
  State& state = states_[x.id()];
  const double observed = kMaxGrowth * error / tolerance;
  if (observed < state.scale) state.scale = std::max(state.magnitude, observed);
}

// What was only moved and not given has the state of what it was moved from.
const ErrorScale::State& ErrorScale::StateOf(const Instruction& x) const {
  const Instruction* at = &x;
  while (states_[at->id()].scale == 0) {
    const Instruction* from = MovedFrom(*at);
    if (from == nullptr || !from->shape()->IsArray()) break;
    at = from;
  }
  return states_[at->id()];
}

double ErrorScale::ScaleOfOperand(const Instruction& x, int depth) const {
  const State& state = StateOf(x);
  if (!CarriesErrors(x)) return 0;
  if (state.scale > 0 || !x.shape()->IsArray() || depth == kMaxDepth) return state.scale;
  if (IsPassedIn(x)) return LargestBehind(x, depth);
  double scale = 0;
  for (const Instruction* operand : x.operands()) {
    if (!CarriesErrors(*operand)) continue;
    const double passed =
        IsPassedIn(*operand) ? ScaleOfOperand(*operand, depth + 1) : StateOf(*operand).scale;
    scale = std::max(scale, passed);
  }
  return ScaleRuleOf(x.opcode()) == ScaleRule::kReduction ? scale * GrowthOfSum(x) : scale;
}

double ErrorScale::LargestBehind(const Instruction& x, int depth) const {
  double scale = 0;
  for (const Instruction* from : walk_.Behind(x)) {
    scale = std::max(scale, ScaleOfOperand(*from, depth + 1));
  }
  return scale;
}

}  // namespace gshard::cpu
