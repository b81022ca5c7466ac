// Forward error bounds, opcode by opcode.
#include "tests/property/magnitude.h"

#include <algorithm>
#include <cmath>

namespace gshard::property {
namespace {

bool Rounds(DType dtype) { return IsFloat(dtype) || IsComplex(dtype); }

int MantissaBits(DType dtype) {
  switch (dtype) {
    case DType::kF4E2M1FN:
      return 2;
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ:
    case DType::kF6E3M2FN:
      return 3;
    case DType::kF8E4M3:
    case DType::kF8E4M3FN:
    case DType::kF8E4M3FNUZ:
    case DType::kF8E4M3B11FNUZ:
    case DType::kF6E2M3FN:
      return 4;
    case DType::kF8E3M4:
      return 5;
    case DType::kBF16:
      return 8;
    case DType::kF16:
      return 11;
    case DType::kF32:
    case DType::kC64:
      return 24;
    default:
      return 53;
  }
}

double LargestOf(DType dtype) {
  switch (dtype) {
    case DType::kF4E2M1FN:
      return 6;
    case DType::kF6E2M3FN:
      return 7;
    case DType::kF8E3M4:
      return 15;
    case DType::kF6E3M2FN:
    case DType::kF8E4M3B11FNUZ:
      return 28;
    case DType::kF8E4M3:
    case DType::kF8E4M3FN:
    case DType::kF8E4M3FNUZ:
      return 200;
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ:
    case DType::kF16:
      return 3e4;
    case DType::kF32:
    case DType::kC64:
    case DType::kBF16:
      return 1e12;
    case DType::kF64:
    case DType::kC128:
      return 1e30;
    case DType::kPred:
      return 1;
    default:
      return std::ldexp(1.0, DTypeBits(dtype) - (ClassOf(dtype) == DTypeClass::kSigned));
  }
}

Magnitude Join(const Magnitude& a, const Magnitude& b) {
  return {std::max(a.largest, b.largest), std::max(a.noise, b.noise), a.integral && b.integral,
          a.nan || b.nan};
}

// What the type makes of a computed value.
std::optional<Magnitude> Settle(DType dtype, Magnitude m) {
  if (!Rounds(dtype)) {
    m.largest = std::min(m.largest, LargestOf(dtype));
    m.noise = 0;
    m.integral = true;
    return m;
  }
  const double eps = std::ldexp(1.0, -MantissaBits(dtype));
  if (m.largest > std::ldexp(1.0, MantissaBits(dtype))) m.integral = false;
  if (m.noise > 0) m.noise += 2 * eps * m.largest;
  if (!(m.largest <= LargestOf(dtype))) return std::nullopt;
  const double most = MantissaBits(dtype) < 12 ? 0.1 : 1e-3;
  if (m.noise > most * m.largest) return std::nullopt;
  return m;
}

// What may come below zero is large in an unsigned type.
std::optional<Magnitude> SettleWrapped(DType dtype, Magnitude m) {
  if (ClassOf(dtype) == DTypeClass::kUnsigned) m.largest = LargestOf(dtype);
  return Settle(dtype, m);
}

// Narrow types are added up in a wider one; what is rounded are the parts of 16 devices at most.
constexpr double kMaxRoundings = 16;

// The sum of n such values in any order, rounded so many times. Each rounding moves it by no more
// than half a unit in the last place of the sum of absolute values.
std::optional<Magnitude> Sum(DType dtype, Magnitude m, int64_t n,
                             double roundings = kMaxRoundings) {
  if (n == 0) return Magnitude{};
  const double count = static_cast<double>(n), total = count * m.largest;
  Magnitude sum{total, count * m.noise, m.integral};
  const bool exact = m.noise == 0 && m.integral && total <= std::ldexp(1.0, MantissaBits(dtype));
  if (Rounds(dtype) && !exact && n > 1) {
    sum.noise += std::min(count, roundings) * std::ldexp(1.0, -MantissaBits(dtype)) * total;
  }
  return Settle(dtype, sum);
}

std::optional<Magnitude> Fold(DType dtype, Opcode opcode, Magnitude m, int64_t n) {
  switch (opcode) {
    case Opcode::kAdd:
      return Sum(dtype, m, n);
    case Opcode::kMultiply: {
      const double count = static_cast<double>(n), base = std::max(m.largest, 1.0);
      const double total = std::pow(base, count);
      Magnitude product{total, count * m.noise * total, m.integral};
      const bool exact =
          m.noise == 0 && m.integral && total <= std::ldexp(1.0, MantissaBits(dtype));
      if (Rounds(dtype) && !exact) {
        product.noise += count * std::ldexp(1.0, -MantissaBits(dtype)) * total;
      }
      return Settle(dtype, product);
    }
    default:
      return m;
  }
}

Magnitude Times(DType dtype, const Magnitude& a, const Magnitude& b) {
  const double parts = IsComplex(dtype) ? 2 : 1;
  return {parts * a.largest * b.largest,
          parts * (a.largest * b.noise + b.largest * a.noise + a.noise * b.noise),
          a.integral && b.integral};
}

// f(x) with |f| <= largest and |f'| <= slope; implementations may differ in the last places.
Magnitude Transcendental(DType dtype, const Magnitude& x, double largest, double slope) {
  return {largest, slope * x.noise + 16 * std::ldexp(1.0, -MantissaBits(dtype)) * largest, false};
}

std::optional<std::vector<Magnitude>> One(std::optional<Magnitude> m) {
  if (!m) return std::nullopt;
  return std::vector<Magnitude>{*m};
}

// Largest absolute value of an entry parameter of this type.
double InputMagnitude(DType dtype) {
  switch (ClassOf(dtype)) {
    case DTypeClass::kPredicate:
      return 1;
    case DTypeClass::kSigned:
    case DTypeClass::kUnsigned:
      return 9;
    default:
      return 3;
  }
}

// Without NaN.
std::optional<std::vector<Magnitude>> BoundOf(
    const Program& program, const Node& node,
    const std::vector<const std::vector<Magnitude>*>& operands) {
  const DType dtype = node.types.empty() ? DType::kF32 : node.type().dtype;
  auto in = [&](size_t i) -> const Magnitude& { return (*operands[i])[0]; };
  auto joined = [&](size_t first, size_t last) {
    Magnitude m = in(first);
    for (size_t i = first + 1; i < last; ++i) m = Join(m, in(i));
    return m;
  };
  bool noisy = false;
  for (const auto* leaves : operands) {
    for (const Magnitude& m : *leaves) noisy |= m.noise > 0;
  }
  switch (node.opcode) {
    case Opcode::kParameter: {
      std::vector<Magnitude> leaves;
      for (const ArrayType& type : node.types)
        leaves.push_back({InputMagnitude(type.dtype), 0, true});
      return leaves;
    }
    case Opcode::kConstant:
    case Opcode::kIota:
      return One(Settle(dtype, {node.magnitude, 0, node.integral}));
    case Opcode::kCopy:
    case Opcode::kBroadcast:
    case Opcode::kReshape:
    case Opcode::kTranspose:
    case Opcode::kSlice:
    case Opcode::kReverse:
    case Opcode::kDynamicSlice:
    case Opcode::kGather:
    case Opcode::kAbs:
    case Opcode::kReal:
    case Opcode::kImag:
    case Opcode::kBitcast:
    case Opcode::kAddDependency:
    case Opcode::kAllGather:
    case Opcode::kAllToAll:
    case Opcode::kRaggedAllToAll:
    case Opcode::kAllReduceDone:
    case Opcode::kCollectivePermute:
    case Opcode::kCollectiveBroadcast:
    case Opcode::kCustomCall:
      if (IsComplex(dtype) && node.opcode == Opcode::kAbs) return std::nullopt;
      return One(Settle(dtype, in(0)));
    case Opcode::kPad:
    case Opcode::kConcatenate:
    case Opcode::kMaximum:
    case Opcode::kMinimum:
    case Opcode::kClamp:
      return One(joined(0, operands.size()));
    case Opcode::kDynamicUpdateSlice:
      return One(joined(0, 2));
    case Opcode::kSelect:
      return One(joined(1, 3));
    case Opcode::kTuple: {
      std::vector<Magnitude> leaves;
      for (const auto* operand : operands) leaves.push_back((*operand)[0]);
      return leaves;
    }
    case Opcode::kOptBarrier:
      return *operands[0];
    case Opcode::kGetTupleElement:
      return One((*operands[0])[static_cast<size_t>(node.index)]);
    case Opcode::kNegate:
      return One(SettleWrapped(dtype, in(0)));
    case Opcode::kAdd:
    case Opcode::kSubtract: {
      const Magnitude sum{in(0).largest + in(1).largest, in(0).noise + in(1).noise,
                          in(0).integral && in(1).integral};
      return One(node.opcode == Opcode::kAdd ? Settle(dtype, sum) : SettleWrapped(dtype, sum));
    }
    case Opcode::kMultiply:
      return One(Settle(dtype, Times(dtype, in(0), in(1))));
    case Opcode::kDivide:
      // Integers; of floats only |x| + 1 divides.
      if (!Rounds(dtype)) return One(Settle(dtype, {LargestOf(dtype), 0, true}));
      return One(Settle(dtype, {in(0).largest, in(0).noise + in(1).noise * in(0).largest, false}));
    case Opcode::kSign:
    case Opcode::kFloor:
    case Opcode::kCeil:
    case Opcode::kRoundNearestEven:
    case Opcode::kRoundNearestAfz:
      if (noisy) return std::nullopt;
      return One(Settle(dtype, {in(0).largest + 1, 0, true}));
    case Opcode::kCompare:
    case Opcode::kIsFinite:
      if (noisy) return std::nullopt;
      return One(Magnitude{1, 0, true});
    case Opcode::kConvert:
      if (!Rounds(dtype) && noisy) return std::nullopt;
      return One(SettleWrapped(dtype, in(0)));
    case Opcode::kTanh:
    case Opcode::kSine:
    case Opcode::kCosine:
    case Opcode::kLogistic:
      return One(Settle(dtype, Transcendental(dtype, in(0), 1, 1)));
    case Opcode::kExponential:
      if (in(0).largest > 8) return std::nullopt;
      return One(Settle(
          dtype, Transcendental(dtype, in(0), std::exp(in(0).largest), std::exp(in(0).largest))));
    case Opcode::kExponentialMinusOne:
    case Opcode::kSinh:
    case Opcode::kCosh:
      if (in(0).largest > 8) return std::nullopt;
      return One(Settle(dtype, Transcendental(dtype, in(0), std::exp(in(0).largest) + 1,
                                              std::exp(in(0).largest))));
    // The rest of the functions has arguments made to fit.
    case Opcode::kLog:
    case Opcode::kLogPlusOne:
    case Opcode::kAcosh:
    case Opcode::kAsinh:
    case Opcode::kSqrt:
    case Opcode::kRsqrt:
    case Opcode::kCbrt:
      // The slope of the cube root has no bound at zero.
      if (node.opcode == Opcode::kCbrt && noisy) return std::nullopt;
      return One(Settle(dtype, Transcendental(dtype, in(0), in(0).largest + 2, 1)));
    case Opcode::kErf:
    case Opcode::kTan:
    case Opcode::kAsin:
    case Opcode::kAcos:
    case Opcode::kAtanh:
      return One(Settle(dtype, Transcendental(dtype, in(0), 2.2, 2)));
    case Opcode::kAtan2: {
      const Magnitude angle{0, in(0).noise + in(1).noise, false};
      return One(Settle(dtype, Transcendental(dtype, angle, 1.6, 1)));
    }
    case Opcode::kPower:  // squares
      return One(Settle(
          dtype, Transcendental(dtype, in(0), in(0).largest * in(0).largest, 2 * in(0).largest)));
    case Opcode::kComplex:
      return One(Settle(dtype, joined(0, 2)));
    case Opcode::kStochasticConvert:
      if (noisy) return std::nullopt;
      return One(Settle(dtype, {in(0).largest + 1, 0, true}));
    case Opcode::kAfterAll:
      return One(Magnitude{});
    case Opcode::kScaledDot:
      return One(Sum(dtype, Times(dtype, Times(dtype, in(0), in(2)), Times(dtype, in(1), in(3))),
                     node.fold));
    case Opcode::kRaggedDot:
    case Opcode::kDot:
    case Opcode::kConvolution: {
      Magnitude product = Times(dtype, in(0), in(1));
      return One(Sum(dtype, product, node.fold));
    }
    case Opcode::kAllGatherStart:
    case Opcode::kCollectivePermuteStart:
      return std::vector<Magnitude>(node.types.size(), in(0));
    case Opcode::kAllGatherDone:
    case Opcode::kCollectivePermuteDone:
      return One((*operands[0])[1]);
    case Opcode::kAllReduce:
    case Opcode::kAllReduceStart:
    case Opcode::kReduceScatter:
      return One(Fold(dtype, node.fold_opcode, in(0), node.fold));
    case Opcode::kPartitionId:
    case Opcode::kReplicaId:
      return One(Magnitude{16, 0, true});
    case Opcode::kReduce:
    case Opcode::kReduceWindow: {
      const size_t count = node.types.size();
      if (count > 1 && noisy) return std::nullopt;
      std::vector<Magnitude> leaves;
      for (size_t i = 0; i < count; ++i) {
        Magnitude m = Join(in(i), in(count + i));
        auto fold = Fold(node.types[i].dtype, node.fold_opcode, m, node.fold + 1);
        if (!fold) return std::nullopt;
        leaves.push_back(*fold);
      }
      return leaves;
    }
    case Opcode::kSelectAndScatter: {
      if (in(0).noise > 0) return std::nullopt;
      return One(Sum(dtype, Join(in(1), in(2)), node.fold + 1));
    }
    case Opcode::kScatter: {
      if (node.fold_opcode == Opcode::kMultiply || node.fold_opcode == Opcode::kAdd) {
        return One(Fold(dtype, node.fold_opcode, Join(in(0), in(2)), node.fold + 1));
      }
      return One(Join(in(0), in(2)));
    }
    case Opcode::kSort: {
      if (operands.size() > 1 && in(0).noise > 0) return std::nullopt;
      if (node.combiner.find("pair_") == 0 && noisy) return std::nullopt;
      std::vector<Magnitude> leaves;
      for (const auto* operand : operands) leaves.push_back((*operand)[0]);
      return leaves;
    }
    case Opcode::kTopK:
      if (noisy) return std::nullopt;
      return std::vector<Magnitude>{in(0), Magnitude{1e3, 0, true}};
    case Opcode::kMap:
      return One(Fold(dtype, node.fold_opcode, joined(0, operands.size()), 2));
    case Opcode::kScan: {
      // Each element is rounded before the next is added.
      const int64_t count = node.fold + 1;
      auto fold = Sum(dtype, Join(in(0), in(1)), count, static_cast<double>(count));
      if (fold) fold = SettleWrapped(dtype, *fold);
      if (!fold) return std::nullopt;
      return std::vector<Magnitude>{*fold, *fold};
    }
    case Opcode::kFft: {
      const double n = static_cast<double>(node.fold);
      return One(Settle(dtype, {2 * n * in(0).largest,
                                2 * n * (in(0).noise + 1e-6 * (1 + in(0).largest)), false}));
    }
    case Opcode::kCholesky:
      // Well-conditioned by construction.
      return One(Settle(
          dtype, {std::sqrt(in(0).largest), in(0).noise + 1e-5 * (1 + in(0).largest), false}));
    case Opcode::kTriangularSolve: {
      const double growth = std::pow(1.5, static_cast<double>(node.fold));
      return One(Settle(
          dtype, {growth * in(1).largest, growth * (in(1).noise + 1e-6 * in(1).largest), false}));
    }
    case Opcode::kRngBitGenerator:
      return std::vector<Magnitude>{{LargestOf(DType::kU64), 0, true},
                                    {LargestOf(DType::kU64), 0, true}};
    case Opcode::kBatchNormTraining:
    case Opcode::kBatchNormInference:
    case Opcode::kBatchNormGrad: {
      // epsilon = 1/4: nothing is divided by less than 1/2.
      double most = 1;
      for (const auto* operand : operands) {
        if ((*operand)[0].noise > 0) return std::nullopt;
        most = std::max(most, (*operand)[0].largest);
      }
      if (most > 30) return std::nullopt;
      const double n = static_cast<double>(node.fold), large = 64 * n * std::pow(most, 5);
      const double noise = 2e-5 * n * std::pow(most, 3);
      return std::vector<Magnitude>(node.types.size(), {large, noise, false});
    }
    case Opcode::kBitcastConvert:
      if (noisy) return std::nullopt;
      return One(Settle(dtype, {LargestOf(dtype), 0, true}));
    case Opcode::kReducePrecision:
      if (noisy) return std::nullopt;
      return One(Settle(dtype, {2 * in(0).largest, 0, in(0).integral}));
    case Opcode::kWhile: {
      std::vector<Magnitude> state = *operands[0];
      std::vector<Magnitude> any = state;  // after so many trips or fewer
      for (int64_t trip = 0; trip < node.trips; ++trip) {
        auto next = MagnitudeOfBody(program, node.called[1], {state});
        if (!next) return std::nullopt;
        state = std::move(*next);
        for (size_t i = 0; i < any.size(); ++i) any[i] = Join(any[i], state[i]);
      }
      return node.trips_vary ? any : state;
    }
    case Opcode::kCall: {
      std::vector<std::vector<Magnitude>> arguments;
      for (const auto* operand : operands) arguments.push_back(*operand);
      return MagnitudeOfBody(program, node.called[0], arguments);
    }
    case Opcode::kConditional: {
      std::optional<std::vector<Magnitude>> result;
      for (size_t b = 0; b < node.called.size(); ++b) {
        auto branch = MagnitudeOfBody(program, node.called[b], {*operands[b + 1]});
        if (!branch) return std::nullopt;
        if (!result) {
          result = branch;
        } else {
          for (size_t i = 0; i < result->size(); ++i)
            (*result)[i] = Join((*result)[i], (*branch)[i]);
        }
      }
      return result;
    }
    default:
      // Integer and predicate operations.
      if (Rounds(dtype)) return std::nullopt;
      return One(Settle(dtype, {LargestOf(dtype), 0, true}));
  }
}

}  // namespace

std::optional<std::vector<Magnitude>> MagnitudeOfBody(
    const Program& program, size_t body, const std::vector<std::vector<Magnitude>>& parameters) {
  const Body& source = program.bodies[body];
  std::vector<std::vector<Magnitude>> values;
  size_t next = 0;
  for (const Node& node : source.nodes) {
    if (node.opcode == Opcode::kParameter && body != 0) {
      values.push_back(parameters[next++]);
      continue;
    }
    std::vector<const std::vector<Magnitude>*> operands;
    for (size_t operand : node.operands) operands.push_back(&values[operand]);
    auto value = MagnitudeOf(program, node, operands);
    if (!value) return std::nullopt;
    values.push_back(std::move(*value));
  }
  return values[source.root];
}

std::optional<std::vector<Magnitude>> MagnitudeOf(
    const Program& program, const Node& node,
    const std::vector<const std::vector<Magnitude>*>& operands) {
  auto result = BoundOf(program, node, operands);
  if (!result) return std::nullopt;
  bool nan = false;
  for (const auto* leaves : operands) {
    for (const Magnitude& m : *leaves) nan |= m.nan;
  }
  switch (node.opcode) {
    case Opcode::kParameter:
      for (size_t i = 0; i < result->size(); ++i) {
        (*result)[i].nan = program.has_nan && IsFloat(node.types[i].dtype);
      }
      return result;
    // What is known of each leaf has been passed on.
    case Opcode::kTuple:
    case Opcode::kGetTupleElement:
    case Opcode::kOptBarrier:
    case Opcode::kWhile:
    case Opcode::kConditional:
    case Opcode::kCall:
      return result;
    case Opcode::kSort:  // NaN has a place in total order only
      if (nan && node.combiner.find("total_") != 0) return std::nullopt;
      break;
    case Opcode::kTopK:
    case Opcode::kSelectAndScatter:
    case Opcode::kCholesky:
    case Opcode::kBitcastConvert:
    case Opcode::kConvolution:  // whether padding meets NaN is up to the implementation
      if (nan) return std::nullopt;
      return result;
    case Opcode::kReduce:
      if (nan && result->size() > 1) return std::nullopt;
      break;
    default:
      break;
  }
  for (size_t i = 0; i < result->size(); ++i) {
    (*result)[i].nan = nan && Rounds(node.types[i].dtype);
  }
  return result;
}

}  // namespace gshard::property
