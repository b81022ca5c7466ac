// Elementwise operations, constants and values that are others' values in StableHLO.
#include <fmt/format.h>

#include <algorithm>

#include "ir/stablehlo/import/op_table.h"
#include "ir/stablehlo/print/dense_text.h"
#include "ir/stablehlo/print/module_writer.h"

namespace gshard::stablehlo {
namespace {

// The row that reads back as this opcode with no more than its operands; empty: there is none.
std::string_view NameOf(Opcode opcode) {
  for (const OpRow& row : AllRows()) {
    if (row.opcode == opcode) return row.name;
  }
  return {};
}

// Operands and result of one type: `op %a, %b : T`; else `op %a, %b : (A, B) -> C`. A select has
// the predicate's type besides, even where it selects predicates; a bitcast_convert has both types
// even where it changes none.
std::string TypesOf(const ModuleWriter& w, const Instruction* x) {
  const bool same = std::ranges::all_of(x->operands(), [&](const Instruction* operand) {
    return operand->shape()->bare() == x->shape()->bare();
  });
  const bool is_short =
      same && x->opcode() != Opcode::kSelect && x->opcode() != Opcode::kBitcastConvert;
  return is_short ? w.Type(x->shape()) : w.FunctionType(x);
}

bool WriteCompare(ModuleWriter& w, const Instruction* x) {
  constexpr std::string_view kDirections[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
  const auto& attributes = x->attributes<CompareAttributes>();
  const DType dtype = x->operand(0)->shape()->dtype();
  std::string_view type = "UNSIGNED";
  if (IsFloat(dtype) || IsComplex(dtype)) type = "FLOAT";
  if (ClassOf(dtype) == DTypeClass::kSigned) type = "SIGNED";
  if (attributes.type == ComparisonType::kTotalOrder) type = "TOTALORDER";
  ModuleWriter::Line line(x);
  line.head =
      fmt::format("stablehlo.compare {}, {}, {}",
                  kDirections[static_cast<size_t>(attributes.direction)], w.Operands(x), type);
  line.types = w.FunctionType(x);
  w.Emit(line);
  return true;
}

bool WriteConstant(ModuleWriter& w, const Instruction* x) {
  const Literal& literal = *x->attributes<ConstantAttributes>().literal;
  if (!x->shape()->IsArray()) return w.Fail(x, "StableHLO has no constants of tuples");
  std::string dense;
  if (x->shape()->rank() > 0 && !literal.elided && IsSplat(literal) &&
      x->shape()->element_count() > 1) {
    // A scalar and its broadcast, as splats are read.
    Literal scalar;
    scalar.shape = w.module().context().Scalar(x->shape()->dtype());
    scalar.data = literal.data.first(static_cast<size_t>(StorageBytes(x->shape()->dtype())));
    AppendDense(dense, scalar);
    const std::string value = w.NewValue();
    w.EmitRaw(x,
              fmt::format("{} = stablehlo.constant {} : {}", value, dense, w.Type(scalar.shape)));
    ModuleWriter::Line line(x);
    line.head = fmt::format("stablehlo.broadcast_in_dim {}, dims = []", value);
    line.types = fmt::format("({}) -> {}", w.Type(scalar.shape), w.Type(x->shape()));
    w.Emit(line);
    return true;
  }
  AppendDense(dense, literal);
  ModuleWriter::Line line(x);
  line.head = "stablehlo.constant";
  // Attributes stand before the value.
  w.AddCommonAttributes(line);
  if (!line.dict.empty()) line.head += fmt::format(" {{{}}}", Joined(line.dict));
  line.dict.clear();
  line.head += " " + dense;
  line.types = w.Type(x->shape());
  w.EmitInPlace(line);
  return true;
}

bool WriteRng(ModuleWriter& w, const Instruction* x) {
  const bool uniform = x->attributes<RngAttributes>().distribution == RngDistribution::kUniform;
  const std::string shape = w.NewValue();
  const Dims dims = x->shape()->dims();
  w.EmitRaw(x, fmt::format("{} = stablehlo.constant dense<{}> : tensor<{}xi64>", shape,
                           dims.empty() ? std::string() : ListText(dims), dims.size()));
  ModuleWriter::Line line(x);
  line.head = fmt::format("stablehlo.rng {}, {}, distribution = {}", w.Operands(x), shape,
                          uniform ? "UNIFORM" : "NORMAL");
  line.types = fmt::format("({}, {}, tensor<{}xi64>) -> {}", w.Type(x->operand(0)->shape()),
                           w.Type(x->operand(1)->shape()), dims.size(), w.Type(x->shape()));
  w.Emit(line);
  return true;
}

bool WriteLinearAlgebra(ModuleWriter& w, const Instruction* x) {
  ModuleWriter::Line line(x);
  line.types = w.FunctionType(x);
  switch (x->opcode()) {
    case Opcode::kRngBitGenerator: {
      constexpr std::string_view kNames[] = {"DEFAULT", "THREE_FRY", "PHILOX"};
      const auto algorithm = x->attributes<RngBitGeneratorAttributes>().algorithm;
      line.head = fmt::format("stablehlo.rng_bit_generator {}, algorithm = {}", w.Operands(x),
                              kNames[static_cast<size_t>(algorithm)]);
      break;
    }
    case Opcode::kCholesky:
      line.head = fmt::format("stablehlo.cholesky {}, lower = {}", w.Operands(x),
                              x->attributes<CholeskyAttributes>().lower);
      break;
    case Opcode::kTriangularSolve: {
      const auto& a = x->attributes<TriangularSolveAttributes>();
      constexpr std::string_view kNames[] = {"NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};
      w.Generic(x, "stablehlo.triangular_solve",
                {fmt::format("left_side = {}", a.left_side), fmt::format("lower = {}", a.lower),
                 fmt::format("transpose_a = #stablehlo<transpose {}>",
                             kNames[static_cast<size_t>(a.transpose_a)]),
                 fmt::format("unit_diagonal = {}", a.unit_diagonal)});
      return true;
    }
    default: {
      constexpr std::string_view kNames[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
      const auto& a = x->attributes<FftAttributes>();
      line.head = fmt::format("stablehlo.fft {}, type = {}, length = {}", w.Operands(x),
                              kNames[static_cast<size_t>(a.type)], ListText(a.length));
    }
  }
  w.Emit(line);
  return true;
}

// Values that StableHLO has no operation for, because they are their operand's.
bool WriteAlias(ModuleWriter& w, const Instruction* x) {
  w.SetValue(x, w.Of(x->operand(0)));
  return true;
}

}  // namespace

bool WriteElementwise(ModuleWriter& w, const Instruction* x) {
  switch (x->opcode()) {
    case Opcode::kCompare:
      return WriteCompare(w, x);
    case Opcode::kConstant:
      return WriteConstant(w, x);
    case Opcode::kRng:
      return WriteRng(w, x);
    case Opcode::kRngBitGenerator:
    case Opcode::kCholesky:
    case Opcode::kTriangularSolve:
    case Opcode::kFft:
      return WriteLinearAlgebra(w, x);
    case Opcode::kCopy:
      return WriteResharding(w, x) || WriteAlias(w, x);
    case Opcode::kCopyStart:
    case Opcode::kCopyDone:
    case Opcode::kAddDependency:
    case Opcode::kDomain:
      return WriteAlias(w, x);
    case Opcode::kMap:
      return false;
    case Opcode::kIota: {
      ModuleWriter::Line line(x);
      line.head = fmt::format("stablehlo.iota dim = {}", x->attributes<IotaAttributes>().dimension);
      line.types = w.Type(x->shape());
      w.Emit(line);
      return true;
    }
    case Opcode::kReducePrecision: {
      const auto& a = x->attributes<ReducePrecisionAttributes>();
      ModuleWriter::Line line(x);
      line.head = fmt::format("stablehlo.reduce_precision {}, format = e{}m{}", w.Operands(x),
                              a.exponent_bits, a.mantissa_bits);
      line.types = w.Type(x->shape());
      w.Emit(line);
      return true;
    }
    case Opcode::kPartitionId:
    case Opcode::kReplicaId:
      break;
    default:
      if (!IsElementwise(x->opcode())) return false;
  }
  const std::string_view name = NameOf(x->opcode());
  if (name.empty()) return false;
  ModuleWriter::Line line(x);
  line.head = std::string(name);
  if (x->operand_count() > 0) line.head += fmt::format(" {}", w.Operands(x));
  if (name.starts_with("chlo.")) {
    // `chlo.erf %x : T -> U`
    for (const Instruction* operand : x->operands()) {
      if (!line.types.empty()) line.types += ", ";
      line.types += w.Type(operand->shape());
    }
    line.types += fmt::format(" -> {}", w.Type(x->shape()));
  } else if (x->opcode() == Opcode::kComplex) {
    line.types = w.Type(x->shape());
  } else {
    line.types = TypesOf(w, x);
  }
  w.Emit(line);
  return true;
}

}  // namespace gshard::stablehlo
