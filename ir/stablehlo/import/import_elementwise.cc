// Elementwise operations and those that need no more than their operands.
#include <fmt/format.h>

#include "ir/stablehlo/import/converters.h"
#include "ir/stablehlo/import/importer.h"

namespace gshard::stablehlo {

// Attributes are those of an opcode that has none, or only such as may be left out.
bool ConvertElementwise(Importer& in, const Operation& op) {
  const Opcode opcode = op.row->opcode;
  return in.WantResults(op, 1) &&
         in.Define(op, 0,
                   in.EmitRaw(op, opcode, in.Operands(op), NewAttributes(in.arena(), opcode),
                              in.ResultShape(op), {}));
}

bool ConvertMath(Importer& in, const Operation& op) {
  MathAttributes attributes;
  // The default says nothing; what asks for more is kept.
  const auto accuracy = in.Find(op, {"result_accuracy"});
  if (accuracy.has_value() && accuracy->find("TOLERANCE") != accuracy->npos) {
    std::vector<NamedAttribute> fields;
    double atol = 0, rtol = 0;
    int64_t ulps = 0;
    if (!SplitFields(*accuracy, fields) || !ReadNumber(FieldOf(fields, "atol"), atol) ||
        !ReadNumber(FieldOf(fields, "rtol"), rtol) || !ReadInteger(FieldOf(fields, "ulps"), ulps)) {
      return in.BadValue(op, "result_accuracy", *accuracy);
    }
    attributes.result_accuracy = in.arena().Copy(std::string_view(
        fmt::format("{{tolerance={{atol={},rtol={},ulps={}}}}}", atol, rtol, ulps)));
  } else if (accuracy.has_value() && accuracy->find("HIGHEST") != accuracy->npos) {
    attributes.result_accuracy = "{mode=highest}";
  }
  return in.WantResults(op, 1) && in.EmitResults(op, op.row->opcode, in.Operands(op), attributes);
}

bool ConvertConvert(Importer& in, const Operation& op) {
  if (!in.WantOperands(op, 1) || !in.WantResults(op, 1)) return false;
  const Shape* shape = op.results[0].type;
  if (shape == nullptr || !shape->IsArray()) {
    return in.Fail(op, ParseError::kShape, "the result of a convert is a tensor");
  }
  Instruction* operand = in.Operand(op, 0);
  if (in.ResultShape(op) == nullptr)
    shape = in.context().WithDType(operand->shape(), shape->dtype());
  Instruction* const operands[] = {operand};
  return in.Define(op, 0, in.Emit(op, Opcode::kConvert, operands, NoAttributes{}, shape));
}

bool ConvertReducePrecision(Importer& in, const Operation& op) {
  ReducePrecisionAttributes attributes;
  if (const auto format = in.Find(op, {"format"})) {
    const size_t m = format->find('m');
    if (!format->starts_with('e') || m == format->npos ||
        !ReadInteger(format->substr(1, m - 1), attributes.exponent_bits) ||
        !ReadInteger(format->substr(m + 1), attributes.mantissa_bits)) {
      return in.BadValue(op, "format", *format);
    }
  } else if (!in.Int(op, {"exponent_bits"}, attributes.exponent_bits) ||
             !in.Int(op, {"mantissa_bits"}, attributes.mantissa_bits)) {
    return false;
  }
  return in.WantResults(op, 1) && in.EmitResults(op, op.row->opcode, in.Operands(op), attributes);
}

bool ReadComparison(Importer& in, const Operation& op, CompareAttributes& attributes) {
  constexpr std::string_view kDirections[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
  const auto direction = in.Find(op, {"comparison_direction", "#0"});
  const std::string_view word = direction.has_value() ? WordOf(*direction) : std::string_view();
  const auto found = std::ranges::find(kDirections, word);
  if (found == std::end(kDirections)) {
    return in.BadValue(op, "comparison_direction", direction.value_or(""));
  }
  attributes.direction = static_cast<ComparisonDirection>(found - std::begin(kDirections));
  // FLOAT, SIGNED and UNSIGNED follow from the operands' type.
  const auto type = in.Find(op, {"compare_type", "#1"});
  if (type.has_value() && WordOf(*type) == "TOTALORDER") {
    attributes.type = ComparisonType::kTotalOrder;
  }
  return true;
}

bool ConvertCompare(Importer& in, const Operation& op) {
  CompareAttributes attributes;
  return in.WantOperands(op, 2) && in.WantResults(op, 1) && ReadComparison(in, op, attributes) &&
         in.EmitResults(op, Opcode::kCompare, in.Operands(op), attributes);
}

// A scalar predicate counts for every element; HLO's select wants one for each. Bounds of clamp may
// be scalars in both.
bool ConvertSelectOrClamp(Importer& in, const Operation& op) {
  if (!in.WantOperands(op, 3) || !in.WantResults(op, 1)) return false;
  std::vector<Instruction*> operands = in.Operands(op);
  const Shape* wide = operands[1]->shape();
  if (op.row->opcode == Opcode::kSelect && operands[0]->shape()->IsScalar() && wide->rank() > 0) {
    Builder builder = in.BuilderFor(op);
    operands[0] = builder.BroadcastScalar(operands[0], wide->dims());
  }
  return in.EmitResults(op, op.row->opcode, operands, NoAttributes{});
}

bool ConvertMap(Importer& in, const Operation& op) {
  DimensionsAttributes attributes;
  if (!in.WantRegions(op, 1) || !in.WantResults(op, 1) ||
      !in.Integers(op, {"dimensions"}, attributes.dimensions)) {
    return false;
  }
  Computation* computation = in.RegionComputation(op, *op.regions[0]);
  if (computation == nullptr) return false;
  Computation* const called[] = {computation};
  return in.EmitResults(op, Opcode::kMap, in.Operands(op), attributes, called);
}

bool ConvertRng(Importer& in, const Operation& op) {
  RngAttributes attributes;
  const auto distribution = in.Find(op, {"rng_distribution", "distribution"});
  const std::string_view word = distribution.has_value() ? WordOf(*distribution) : "";
  if (word != "UNIFORM" && word != "NORMAL") {
    return in.BadValue(op, "rng_distribution", distribution.value_or(""));
  }
  attributes.distribution = word == "NORMAL" ? RngDistribution::kNormal : RngDistribution::kUniform;
  // The third operand is the shape, which the result's type says already.
  if (!in.WantOperands(op, 3) || !in.WantResults(op, 1)) return false;
  Instruction* const operands[] = {in.Operand(op, 0), in.Operand(op, 1)};
  const Shape* shape = in.ResultShape(op);
  if (shape == nullptr) {
    std::vector<int64_t> dims;
    if (!in.ConstantDims(op, 2, dims)) return false;
    shape = in.ArrayOf(op, op.results[0].type->dtype(), dims);
  }
  return shape != nullptr &&
         in.Define(op, 0, in.Emit(op, Opcode::kRng, operands, attributes, shape));
}

bool ConvertRngBitGenerator(Importer& in, const Operation& op) {
  RngBitGeneratorAttributes attributes;
  const auto algorithm = in.Find(op, {"rng_algorithm", "algorithm"});
  const std::string_view word = algorithm.has_value() ? WordOf(*algorithm) : "DEFAULT";
  if (word == "THREE_FRY") {
    attributes.algorithm = RngAlgorithm::kThreeFry;
  } else if (word == "PHILOX") {
    attributes.algorithm = RngAlgorithm::kPhilox;
  } else if (word != "DEFAULT") {
    return in.BadValue(op, "rng_algorithm", *algorithm);
  }
  return in.WantResults(op, 2) && in.EmitResults(op, op.row->opcode, in.Operands(op), attributes);
}

bool ConvertCholesky(Importer& in, const Operation& op) {
  CholeskyAttributes attributes;
  return in.WantResults(op, 1) && in.Bool(op, {"lower"}, attributes.lower) &&
         in.EmitResults(op, op.row->opcode, in.Operands(op), attributes);
}

bool ConvertTriangularSolve(Importer& in, const Operation& op) {
  TriangularSolveAttributes attributes;
  if (!in.Bool(op, {"left_side"}, attributes.left_side) ||
      !in.Bool(op, {"lower"}, attributes.lower) ||
      !in.Bool(op, {"unit_diagonal"}, attributes.unit_diagonal)) {
    return false;
  }
  const auto transpose = in.Find(op, {"transpose_a"});
  const std::string_view word = transpose.has_value() ? WordOf(*transpose) : "NO_TRANSPOSE";
  if (word == "TRANSPOSE") attributes.transpose_a = TransposeKind::kTranspose;
  if (word == "ADJOINT") attributes.transpose_a = TransposeKind::kAdjoint;
  return in.WantResults(op, 1) && in.EmitResults(op, op.row->opcode, in.Operands(op), attributes);
}

bool ConvertFft(Importer& in, const Operation& op) {
  FftAttributes attributes;
  constexpr std::string_view kTypes[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
  const auto type = in.Find(op, {"fft_type", "type"});
  const auto found = std::ranges::find(kTypes, type.has_value() ? WordOf(*type) : "");
  if (found == std::end(kTypes)) return in.BadValue(op, "fft_type", type.value_or(""));
  attributes.type = static_cast<FftType>(found - std::begin(kTypes));
  return in.Integers(op, {"fft_length", "length"}, attributes.length) && in.WantResults(op, 1) &&
         in.EmitResults(op, op.row->opcode, in.Operands(op), attributes);
}

}  // namespace gshard::stablehlo
