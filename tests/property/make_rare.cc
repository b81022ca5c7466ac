// Operations that partition like commoner ones, so that none is left out: functions of one and two
// arguments on arguments that keep them tame, sizes, tokens, ragged and scaled dots.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tests/property/program_maker.h"

namespace gshard::property {

// |x| + least.
size_t ProgramMaker::AtLeast(size_t x, int64_t least) {
  const ArrayType type = TypeOf(x);
  const size_t bound = BroadcastTo(Scalar(type.dtype, least), type.dims);
  return Emit(Opcode::kAdd, type, {Emit(Opcode::kAbs, type, {x}), bound});
}

void ProgramMaker::MakeFunction() {
  const size_t x = Any([&](size_t i) { return IsFloat(TypeOf(i).dtype); });
  const ArrayType type = TypeOf(x);
  static const std::vector<Opcode> kAnywhere = {Opcode::kExponentialMinusOne,
                                                Opcode::kSine,
                                                Opcode::kSinh,
                                                Opcode::kCosh,
                                                Opcode::kAsinh,
                                                Opcode::kErf,
                                                Opcode::kCbrt};
  static const std::vector<Opcode> kFromOne = {Opcode::kLog, Opcode::kLogPlusOne, Opcode::kSqrt,
                                               Opcode::kRsqrt};
  static const std::vector<Opcode> kNearZero = {Opcode::kTan, Opcode::kAsin, Opcode::kAcos,
                                                Opcode::kAtanh};
  static const std::vector<Opcode> kExact = {Opcode::kCeil, Opcode::kRoundNearestAfz,
                                             Opcode::kRoundNearestEven};
  switch (Below(6)) {
    case 0:
      Emit(Pick(kAnywhere), type, {x});
      return;
    case 1:
      Emit(Pick(kFromOne), type, {AtLeast(x, 1)});
      return;
    case 2: {
      const size_t half =
          Emit(Opcode::kDivide, type,
               {Emit(Opcode::kCosine, type, {x}), BroadcastTo(Scalar(type.dtype, 2), type.dims)});
      Emit(Pick(kNearZero), type, {half});
      return;
    }
    case 3:
      Emit(Opcode::kAcosh, type, {AtLeast(x, 2)});
      return;
    case 4:
      Emit(Opcode::kIsFinite, {DType::kPred, type.dims}, {x});
      return;
    default:
      Emit(Pick(kExact), type, {x});
  }
}

void ProgramMaker::MakeRareBinary() {
  const size_t a = AnyNumeric();
  const ArrayType type = TypeOf(a);
  if (IsInteger(type.dtype)) {
    std::vector<Opcode> opcodes = {Opcode::kShiftRightArithmetic, Opcode::kShiftRightLogical};
    if (!options_.for_xla) opcodes.push_back(Opcode::kMulhi);
    Emit(Pick(opcodes), type, {a, Like(type)});
    return;
  }
  const int64_t kind = Below(4);
  if (kind == 0 && (type.dtype == DType::kF32 || type.dtype == DType::kF64)) {
    const DType pair = type.dtype == DType::kF32 ? DType::kC64 : DType::kC128;
    Emit(Opcode::kComplex, {pair, type.dims}, {a, Like(type)});
  } else if (kind == 1) {
    Emit(Opcode::kAtan2, type, {a, AtLeast(Like(type), 1)});
  } else if (kind == 2) {
    Emit(Opcode::kPower, type, {AtLeast(a, 1), BroadcastTo(Scalar(type.dtype, 2), type.dims)});
  } else if (!options_.for_xla && type.dtype == DType::kF32) {
    const size_t bits = Like({DType::kU32, type.dims});
    Emit(Opcode::kStochasticConvert, {DType::kS32, type.dims}, {a, bits});
  } else {
    throw Rejected();
  }
}

void ProgramMaker::MakeRareOrder() {
  const size_t x = AnyOfRank(1);
  const ArrayType type = TypeOf(x);
  switch (Below(3)) {
    case 0:
      Emit(Opcode::kBitcast, type, {x});
      return;
    case 1: {
      Node token;
      token.opcode = Opcode::kAfterAll;
      token.types = {{DType::kToken, {}}};
      token.tuple = true;  // nothing else takes it
      const size_t after = Emit(std::move(token));
      Emit(Opcode::kAddDependency, type, {x, after});
      return;
    }
    default:
      Emit(Opcode::kGetDimensionSize, {DType::kS32, {}}, {x},
           fmt::format(", dimensions={{{}}}", Index(type.dims.size())));
  }
}

// Rows in groups, each with its own right-hand side.
void ProgramMaker::MakeRaggedDot() {
  if (options_.for_xla) throw Rejected();
  const size_t lhs =
      Any([&](size_t i) { return TypeOf(i).rank() == 2 && TypeOf(i).dtype == DType::kF32; });
  const int64_t rows = TypeOf(lhs).dims[0], inner = TypeOf(lhs).dims[1];
  const int64_t groups = Between(1, 4), columns = RandomSize();
  const size_t rhs = Like({DType::kF32, {groups, inner, columns}});
  Sizes sizes(static_cast<size_t>(groups), 0);
  for (int64_t row = Between(rows / 2, rows); row > 0; --row) ++sizes[Index(sizes.size())];
  Node counts;
  counts.opcode = Opcode::kConstant;
  counts.types = {{DType::kS32, {groups}}};
  counts.magnitude = static_cast<double>(rows);
  counts.payload = fmt::format("{{{}}}", fmt::join(sizes, ", "));
  const size_t group_sizes = Emit(std::move(counts));
  Node node;
  node.opcode = Opcode::kRaggedDot;
  node.types = {{DType::kF32, {rows, columns}}};
  node.operands = {lhs, rhs, group_sizes};
  node.fold = inner;
  node.attributes =
      ", lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, "
      "rhs_group_dims={0}";
  Emit(std::move(node));
}

// Operands with a factor per block of the contracted dim.
void ProgramMaker::MakeScaledDot() {
  if (options_.for_xla) throw Rejected();
  const int64_t rows = RandomSize(), columns = RandomSize();
  const int64_t blocks = std::max<int64_t>(1, RandomSize()), inner = blocks * Between(1, 3);
  const auto matrix = [&](int64_t height, int64_t width) {
    return Like({DType::kF32, {height, width}});
  };
  Node node;
  node.opcode = Opcode::kScaledDot;
  node.types = {{DType::kF32, {rows, columns}}};
  node.operands = {matrix(rows, inner), matrix(inner, columns), matrix(rows, blocks),
                   matrix(blocks, columns)};
  node.fold = inner;
  node.attributes = ", lhs_contracting_dims={1}, rhs_contracting_dims={0}";
  Emit(std::move(node));
}

}  // namespace gshard::property
