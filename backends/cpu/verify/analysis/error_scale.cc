// Rules by opcode: sums, reductions, products, contractions.
#include "backends/cpu/verify/analysis/error_scale.h"

#include <algorithm>
#include <cmath>

#include "backends/cpu/verify/analysis/graph_walk.h"
#include "core/analysis/combiner.h"
#include "ir/computation.h"

namespace gshard::cpu {
namespace {

constexpr int kMaxDepth = 8;         // of operands that were not given
constexpr int64_t kWholeValue = -1;  // instead of an element of a tuple
constexpr double kMaxGrowth = 16;    // of an error that was observed, in what uses it

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

ErrorScale::ErrorScale(const Module& module) : states_(module.instruction_limit()) {
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      for (const Computation* called : x->called()) {
        // Of what is called from several places nothing is known.
        auto [caller, first] = callers_.emplace(called, x);
        if (!first && caller->second != x) caller->second = nullptr;
      }
    }
  }
}

double ErrorScale::Of(const Instruction& x, double magnitude) {
  double largest = 0, product = 1, ratio = 1;
  for (const Instruction* operand : x.operands()) {
    if (!CarriesErrors(*operand) || !CarriesErrors(x)) continue;
    const double scale =
        x.opcode() == Opcode::kGetTupleElement
            ? ScaleOfElement(*operand, x.attributes<GetTupleElementAttributes>().index, 0)
            : ScaleOfOperand(*operand, 0);
    largest = std::max(largest, scale);
    const double operand_magnitude = StateOf(*operand).magnitude;
    product *= operand_magnitude > 0 ? operand_magnitude : scale;
    if (operand_magnitude > 0) ratio = std::max(ratio, scale / operand_magnitude);
  }
  double scale = largest;
  const ScaleRule rule = ScaleRuleOf(x.opcode());
  if (rule == ScaleRule::kProduct) scale = magnitude * ratio;
  // Errors of one operand meet the other's values.
  if (rule == ScaleRule::kContraction) scale = product * ratio * GrowthOfSum(x);
  if (rule == ScaleRule::kReduction) scale = largest * GrowthOfSum(x);
  scale = std::isfinite(scale) ? std::max(scale, magnitude) : magnitude;
  states_[x.id()] = {magnitude, scale};
  return scale;
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
  if (x.opcode() == Opcode::kParameter) return ScaleOfParameter(x, kWholeValue, depth);
  if (x.opcode() == Opcode::kGetTupleElement) {
    return ScaleOfElement(*x.operand(0), x.attributes<GetTupleElementAttributes>().index, depth);
  }
  double scale = 0;
  for (const Instruction* operand : x.operands()) {
    if (CarriesErrors(*operand)) scale = std::max(scale, states_[operand->id()].scale);
  }
  return scale;
}

double ErrorScale::ScaleOfElement(const Instruction& tuple, int64_t index, int depth) const {
  if (depth == kMaxDepth) return 0;
  double scale = 0;
  switch (tuple.opcode()) {
    case Opcode::kTuple:
      return ScaleOfOperand(*tuple.operand(index), depth + 1);
    case Opcode::kParameter:
      return ScaleOfParameter(tuple, index, depth);
    case Opcode::kOptBarrier:
    case Opcode::kCopy:
      return ScaleOfElement(*tuple.operand(0), index, depth + 1);
    case Opcode::kCall:
    case Opcode::kConditional:
      for (const Computation* called : tuple.called()) {
        scale = std::max(scale, ScaleOfElement(*called->root(), index, depth + 1));
      }
      return scale;
    case Opcode::kWhile:
      return std::max(ScaleOfElement(*tuple.called(1)->root(), index, depth + 1),
                      ScaleOfElement(*tuple.operand(0), index, depth + 1));
    default:  // made of all its operands
      for (const Instruction* operand : tuple.operands()) {
        scale = std::max(scale, ScaleOfOperand(*operand, depth + 1));
      }
      return scale;
  }
}

// What the caller passes; in a loop also what the body hands on.
double ErrorScale::ScaleOfParameter(const Instruction& parameter, int64_t index, int depth) const {
  const auto found = callers_.find(parameter.parent());
  if (found == callers_.end() || found->second == nullptr || depth == kMaxDepth) return 0;
  const Instruction& caller = *found->second;
  auto scale_of = [&](const Instruction& x) {
    return index == kWholeValue ? ScaleOfOperand(x, depth + 1)
                                : ScaleOfElement(x, index, depth + 1);
  };
  const int64_t number = parameter.attributes<ParameterAttributes>().number;
  switch (caller.opcode()) {
    case Opcode::kWhile:
      return std::max(scale_of(*caller.operand(0)), scale_of(*caller.called(1)->root()));
    case Opcode::kConditional: {
      double scale = 0;
      for (size_t b = 0; b < caller.called().size(); ++b) {
        if (caller.called()[b] != parameter.parent()) continue;
        scale = std::max(scale, scale_of(*caller.operand(static_cast<int64_t>(b) + 1)));
      }
      return scale;
    }
    case Opcode::kCall:
    case Opcode::kFusion:
    case Opcode::kAsyncStart:
      return number < caller.operand_count() ? scale_of(*caller.operand(number)) : 0;
    default:  // its parameters are no operands
      return 0;
  }
}

}  // namespace gshard::cpu
