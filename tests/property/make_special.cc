// Rarer operations: transforms, linear algebra, normalisation, scans, bits.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tests/property/program_maker.h"

namespace gshard::property {

void ProgramMaker::MakeFft() {
  static constexpr const char* kNames[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
  const size_t kind = Index(std::size(kNames));
  const bool to_half = kind == 2, from_half = kind == 3;
  const DType dtype = to_half ? DType::kF32 : DType::kC64;
  ArrayType type{dtype, RandomDims(Chance(40) ? 1 : Between(1, 3))};
  // Tiles of a cut dim are exchanged where their number divides the signal.
  if (Chance(50)) {
    const int64_t n = program_.devices * (Chance(60) ? program_.devices : Between(1, 8));
    type.dims.back() = from_half ? n / 2 + 1 : n;
  }
  const size_t x =
      Chance(70) ? Like(type)
                 : Any([&](size_t i) { return TypeOf(i).dtype == dtype && TypeOf(i).rank() > 0; });
  type = TypeOf(x);
  const auto length = static_cast<size_t>(Between(1, std::min<int64_t>(type.rank(), 3)));
  Sizes lengths(type.dims.end() - static_cast<std::ptrdiff_t>(length), type.dims.end());
  if (Product(lengths) == 0) throw Rejected();
  if (from_half) lengths.back() = std::max<int64_t>(1, 2 * (lengths.back() - 1) + Below(2));
  Node node;
  node.opcode = Opcode::kFft;
  node.types = {type};
  if (to_half) node.types[0] = {DType::kC64, type.dims};
  if (to_half) node.types[0].dims.back() = lengths.back() / 2 + 1;
  if (from_half) node.types[0] = {DType::kF32, type.dims};
  if (from_half) node.types[0].dims.back() = lengths.back();
  node.operands = {x};
  node.fold = Product(lengths);
  node.attributes =
      fmt::format(", fft_type={}, fft_length={{{}}}", kNames[kind], fmt::join(lengths, ","));
  if (Chance(35)) {
    Placement along;
    along.kind = Placement::Kind::kTiled;
    along.mesh = program_.mesh;
    along.dims.resize(type.dims.size());
    for (size_t axis = 0; axis < along.mesh.size(); ++axis) along.dims.back().push_back(axis);
    // A marker's placement is that of the manual region behind it.
    if (nodes()[x].opcode != Opcode::kCustomCall) nodes()[x].placements = {along};
  }
  if (Chance(60)) node.placements = nodes()[x].placements;
  Emit(std::move(node));
}

// Of x.xT + n.I, which is positive definite.
void ProgramMaker::MakeCholesky() {
  const int64_t n = Between(1, 8), inner = Between(1, 4);
  Sizes batch = RandomDims(Below(3));
  Sizes dims = batch, square = batch;
  dims.insert(dims.end(), {n, inner});
  square.insert(square.end(), {n, n});
  const size_t x = Like({DType::kF32, dims});
  const auto rank = static_cast<int64_t>(dims.size());
  Sizes batch_dims;
  for (int64_t i = 0; i + 2 < rank; ++i) batch_dims.push_back(i);
  const std::string batches = fmt::format("{}", fmt::join(batch_dims, ","));
  Node dot;
  dot.opcode = Opcode::kDot;
  dot.types = {{DType::kF32, square}};
  dot.operands = {x, x};
  dot.fold = inner;
  if (!batch_dims.empty()) dot.attributes = fmt::format(", lhs_batch_dims={{{}}}", batches);
  dot.attributes += fmt::format(", lhs_contracting_dims={{{}}}", rank - 1);
  if (!batch_dims.empty()) dot.attributes += fmt::format(", rhs_batch_dims={{{}}}", batches);
  dot.attributes += fmt::format(", rhs_contracting_dims={{{}}}", rank - 1);
  const size_t product = Emit(std::move(dot));
  auto iota = [&](int64_t dim) {
    Node node;
    node.opcode = Opcode::kIota;
    node.types = {{DType::kS32, square}};
    node.attributes = fmt::format(", iota_dimension={}", dim);
    node.magnitude = static_cast<double>(n);
    return Emit(std::move(node));
  };
  const size_t row = iota(rank - 2), column = iota(rank - 1);
  const size_t diagonal =
      Emit(Opcode::kCompare, {DType::kPred, square}, {row, column}, ", direction=EQ");
  const ArrayType type{DType::kF32, square};
  const size_t some = BroadcastTo(Scalar(DType::kF32, 9), square);
  const size_t none = BroadcastTo(Scalar(DType::kF32, 0), square);
  const size_t shift = Emit(Opcode::kSelect, type, {diagonal, some, none});
  const size_t sum = Emit(Opcode::kAdd, type, {product, shift});
  Emit(Opcode::kCholesky, type, {sum}, Chance(60) ? ", lower=true" : "");
}

// With a unit diagonal and a tame triangle the solution stays small.
void ProgramMaker::MakeTriangularSolve() {
  const int64_t n = Between(1, 8), columns = Between(1, 8);
  Sizes batch = RandomDims(Below(3));
  Sizes square = batch, dims = batch;
  square.insert(square.end(), {n, n});
  const bool left = Chance(50);
  dims.insert(dims.end(), {left ? n : columns, left ? columns : n});
  const ArrayType type{DType::kF32, square};
  const size_t a = Like(type);
  const size_t tame = Emit(Opcode::kTanh, type, {a});
  const size_t small = BroadcastTo(Scalar(DType::kF32, 2), square);
  const size_t half = Emit(Opcode::kDivide, type, {tame, small});
  const size_t b = Like({DType::kF32, dims});
  std::string attributes = left ? ", left_side=true" : "";
  if (Chance(50)) attributes += ", lower=true";
  attributes += ", unit_diagonal=true";
  attributes += Chance(50)    ? ", transpose_a=NO_TRANSPOSE"
                : Rarely(300) ? ", transpose_a=ADJOINT"
                              : ", transpose_a=TRANSPOSE";
  Node node;
  node.opcode = Opcode::kTriangularSolve;
  node.types = {{DType::kF32, dims}};
  node.operands = {half, b};
  node.attributes = attributes;
  node.fold = n;
  Emit(std::move(node));
}

void ProgramMaker::MakeRandomBits() {
  const bool philox = Chance(50);
  const size_t state = Like({DType::kU64, {philox && Chance(50) ? 3 : 2}});
  static const std::vector<DType> kTypes = {DType::kU32, DType::kU32, DType::kU64, DType::kU16};
  ArrayType type{Pick(kTypes), RandomDims(Between(1, 3))};
  // Tiles that are runs of the generator's blocks.
  if (Chance(60)) type.dims[0] = program_.devices * Between(1, 4);
  Node node;
  node.opcode = Opcode::kRngBitGenerator;
  node.types = {TypeOf(state), type};
  node.tuple = true;
  node.operands = {state};
  node.attributes = philox ? ", algorithm=rng_philox" : ", algorithm=rng_three_fry";
  MaybePlace(node, 60);
  const size_t pair = Emit(std::move(node));
  Parts(pair, 0);
  Parts(pair, 1);
}

void ProgramMaker::MakeBatchNorm() {
  const size_t x =
      Any([&](size_t i) { return TypeOf(i).rank() >= 2 && TypeOf(i).dtype == DType::kF32; });
  const ArrayType type = TypeOf(x);
  if (Product(type.dims) == 0) throw Rejected();
  const size_t feature = Index(type.dims.size());
  const ArrayType per_feature{type.dtype, {type.dims[feature]}};
  const size_t scale = Like(per_feature), offset = Like(per_feature);
  Node node;
  node.attributes = fmt::format(", epsilon=0.25, feature_index={}", feature);
  node.fold = Product(type.dims) / type.dims[feature];
  node.types = {type};
  switch (Below(3)) {
    case 0:
      node.opcode = Opcode::kBatchNormTraining;
      node.operands = {x, scale, offset};
      break;
    case 1: {
      const size_t mean = Like(per_feature);
      const size_t variance = Emit(Opcode::kAbs, per_feature, {Like(per_feature)});
      node.opcode = Opcode::kBatchNormInference;
      node.operands = {x, scale, offset, mean, variance};
      Emit(std::move(node));
      return;
    }
    default: {
      const size_t variance = Emit(Opcode::kAbs, per_feature, {Like(per_feature)});
      node.opcode = Opcode::kBatchNormGrad;
      node.operands = {x, scale, offset, variance, Like(type)};
      break;
    }
  }
  node.types = {type, per_feature, per_feature};
  node.tuple = true;
  const size_t result = Emit(std::move(node));
  for (size_t i = 0; i < 3; ++i) Parts(result, i);
}

namespace {

// Text of a scan's computation: element and carry are {0}.x and {0}.c of type {1}.
struct ScanBody {
  const char* name;
  const char* steps;
  const char* results;
};

// In which the carries fold elements, or runs of them.
constexpr ScanBody kFolding[] = {
    {"running", "  {0}.s = {1} add({0}.x, {0}.c)\n", "{0}.s, {0}.s"},
    {"turned", "  {0}.s = {1} add({0}.x, {0}.c)\n  {0}.n = {1} negate({0}.s)\n", "{0}.n, {0}.s"},
    {"most", "  {0}.s = {1} maximum({0}.c, {0}.x)\n", "{0}.c, {0}.s"},
    // The last element that is not 0: the order matters.
    {"last",
     "  {0}.z = {1} subtract({0}.x, {0}.x)\n  {0}.p = {2} compare({0}.x, {0}.z), direction=NE\n"
     "  {0}.s = {1} select({0}.p, {0}.x, {0}.c)\n",
     "{0}.s, {0}.s"},
};
constexpr ScanBody kOther = {"alternating", "  {0}.s = {1} subtract({0}.x, {0}.c)\n",
                             "{0}.s, {0}.s"};

}  // namespace

void ProgramMaker::MakeScan() {
  const size_t x = AnyNumeric(1);
  const ArrayType type = TypeOf(x);
  const size_t dim = Index(type.dims.size());
  ArrayType carry = type;
  carry.dims.erase(carry.dims.begin() + static_cast<std::ptrdiff_t>(dim));
  const size_t init = Like(carry);
  const bool folds = Chance(80);
  const ScanBody& body = folds ? kFolding[Index(std::size(kFolding))] : kOther;
  // What is as good as 0 is not 0 everywhere.
  if (body.name == std::string("last") && (IsNoisy(x) || IsNoisy(init))) throw Rejected();
  const std::string shape = ShapeText(carry);
  Node node;
  node.combiner =
      fmt::format("{}_{}_{}", body.name, DTypeName(type.dtype), fmt::join(carry.dims, "x"));
  const std::string text = fmt::format(
      "{{0}} {{{{\n  {{0}}.x = {{1}} parameter(0)\n  {{0}}.c = {{1}} parameter(1)\n{}"
      "  ROOT {{0}}.r = ({{1}}, {{1}}) tuple({})\n}}}}\n",
      body.steps, body.results);
  program_.combiners[node.combiner] =
      fmt::format(fmt::runtime(text), node.combiner, shape, ShapeText({DType::kPred, carry.dims}));
  node.opcode = Opcode::kScan;
  node.types = {type, carry};
  node.tuple = true;
  node.operands = {x, init};
  node.fold = type.dims[dim];
  node.attributes = fmt::format(", dimensions={{{}}}, num_carries=1{}{}", dim,
                                Chance(40) ? ", is_reverse=true" : "",
                                folds && Chance(80) ? ", is_associative=true" : "");
  const size_t result = Emit(std::move(node));
  Parts(result, 0);
  Parts(result, 1);
}

void ProgramMaker::MakeBits() {
  const size_t x = Any([&](size_t i) { return !IsNoisy(i); });
  const ArrayType type = TypeOf(x);
  if (type.dtype == DType::kF32 && Chance(40)) {
    Emit(Opcode::kReducePrecision, type, {x}, ", exponent_bits=5, mantissa_bits=3");
  } else if (type.dtype == DType::kF32) {
    Emit(Opcode::kBitcastConvert, {DType::kS32, type.dims}, {x});
  } else if (type.dtype == DType::kS32 || type.dtype == DType::kU32) {
    ArrayType bytes{DType::kU8, type.dims};
    bytes.dims.push_back(4);
    const size_t narrow = Emit(Opcode::kBitcastConvert, bytes, {x});
    if (Chance(60)) {
      const size_t moved = Emit(Opcode::kNot, bytes, {narrow});
      Emit(Opcode::kBitcastConvert, {DType::kU32, type.dims}, {moved});
    }
  } else {
    throw Rejected();
  }
}

void ProgramMaker::MakeMap() {
  const size_t a = AnyNumeric(1);
  const ArrayType type = TypeOf(a);
  const size_t b = Like(type);
  Sizes dimensions;
  for (size_t i = 0; i < type.dims.size(); ++i) dimensions.push_back(static_cast<int64_t>(i));
  Node node;
  node.opcode = Opcode::kMap;
  node.types = {type};
  node.operands = {a, b};
  node.fold_opcode = Opcode::kAdd;
  node.combiner = Combiner(Opcode::kAdd, type.dtype);
  node.attributes = fmt::format(", dimensions={{{}}}", fmt::join(dimensions, ","));
  Emit(std::move(node));
}

}  // namespace gshard::property
