// Elementwise operations and those that move data without arithmetic.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tests/property/program_maker.h"

namespace gshard::property {

void ProgramMaker::MakeUnary() {
  const size_t x = AnyOfRank(0);
  const ArrayType type = TypeOf(x);
  std::vector<Opcode> opcodes = {Opcode::kCopy};
  if (type.dtype == DType::kPred) {
    opcodes = {Opcode::kNot};
  } else if (IsFloat(type.dtype)) {
    opcodes = {Opcode::kNegate, Opcode::kAbs,    Opcode::kSign,        Opcode::kFloor,
               Opcode::kTanh,   Opcode::kCosine, Opcode::kExponential, Opcode::kLogistic};
  } else if (IsInteger(type.dtype)) {
    opcodes = {Opcode::kNegate, Opcode::kNot, Opcode::kPopcnt, Opcode::kCountLeadingZeros};
  } else if (IsComplex(type.dtype)) {
    if (Chance(50)) {
      Emit(Chance(50) ? Opcode::kReal : Opcode::kImag,
           {type.dtype == DType::kC64 ? DType::kF32 : DType::kF64, type.dims}, {x});
      return;
    }
    opcodes = {Opcode::kNegate};
  }
  Emit(Pick(opcodes), type, {x});
}

void ProgramMaker::MakeBinary() {
  const size_t a = AnyOfRank(0);
  const ArrayType type = TypeOf(a);
  std::vector<Opcode> opcodes = {Opcode::kAdd, Opcode::kAdd, Opcode::kMultiply, Opcode::kSubtract};
  if (type.dtype == DType::kPred) {
    opcodes = {Opcode::kAnd, Opcode::kOr, Opcode::kXor};
  } else if (IsInteger(type.dtype)) {
    opcodes.insert(opcodes.end(), {Opcode::kMaximum, Opcode::kMinimum, Opcode::kDivide,
                                   Opcode::kRemainder, Opcode::kAnd, Opcode::kShiftLeft});
  } else if (IsFloat(type.dtype)) {
    opcodes.insert(opcodes.end(), {Opcode::kMaximum, Opcode::kMinimum, Opcode::kDivide});
  }
  const Opcode opcode = Pick(opcodes);
  size_t b = Like(type);
  if (opcode == Opcode::kDivide && IsFloat(type.dtype)) {
    const size_t one = BroadcastTo(Scalar(type.dtype, 1), type.dims);
    b = Emit(Opcode::kAdd, type, {Emit(Opcode::kAbs, type, {b}), one});
  }
  std::vector<size_t> operands = {a, b};
  if (opcode != Opcode::kDivide && Chance(50)) std::swap(operands[0], operands[1]);
  Emit(opcode, type, operands);
}

void ProgramMaker::MakeTernary() {
  if (Chance(25)) {
    const size_t x = AnyNumeric();
    const ArrayType type = TypeOf(x);
    const bool scalars = Chance(50);
    const ArrayType bound{type.dtype, scalars ? Sizes{} : type.dims};
    const size_t low = Like(bound), high = Like(bound);
    Emit(Opcode::kClamp, type, {low, x, high});
    return;
  }
  const size_t a = Any([&](size_t i) { return !IsNoisy(i) && !IsComplex(TypeOf(i).dtype); });
  const ArrayType type = TypeOf(a);
  static const std::vector<const char*> kDirections = {"EQ", "NE", "LT", "LE", "GT", "GE"};
  size_t pred = 0;
  if (Chance(20)) {
    pred = Like({DType::kPred, {}});
  } else {
    const size_t b = Like(type);
    pred = Emit(Opcode::kCompare, {DType::kPred, type.dims}, {a, b},
                fmt::format(", direction={}", Pick(kDirections)));
    if (Chance(20)) return;
  }
  const size_t on_true = Any([&](size_t i) { return TypeOf(i).dims == type.dims; });
  const size_t on_false = Like(TypeOf(on_true));
  Emit(Opcode::kSelect, TypeOf(on_true), {pred, on_true, on_false});
}

void ProgramMaker::MakeConvert() {
  const size_t x = Any([&](size_t i) { return !IsComplex(TypeOf(i).dtype); });
  DType dtype = RandomDType();
  if (dtype == TypeOf(x).dtype || dtype == DType::kPred) throw Rejected();
  Emit(Opcode::kConvert, {dtype, TypeOf(x).dims}, {x});
}

void ProgramMaker::MakeBroadcast() {
  const size_t x = Any([&](size_t i) { return TypeOf(i).rank() <= 2; });
  const ArrayType from = TypeOf(x);
  std::vector<int64_t> sources(from.dims.size());
  for (size_t i = 0; i < sources.size(); ++i) sources[i] = static_cast<int64_t>(i);
  for (int64_t added = Between(1, 2); added > 0; --added) {
    sources.insert(sources.begin() + Between(0, static_cast<int64_t>(sources.size())), -1);
  }
  Sizes dims, dimensions(from.dims.size());
  for (size_t i = 0; i < sources.size(); ++i) {
    if (sources[i] < 0) {
      dims.push_back(RandomSize());
    } else {
      dims.push_back(from.dims[static_cast<size_t>(sources[i])]);
      dimensions[static_cast<size_t>(sources[i])] = static_cast<int64_t>(i);
    }
  }
  Emit(Opcode::kBroadcast, {from.dtype, dims}, {x},
       fmt::format(", dimensions={{{}}}", fmt::join(dimensions, ",")));
}

void ProgramMaker::MakeReshape() {
  const size_t x = AnyOfRank(1);
  const ArrayType from = TypeOf(x);
  Sizes dims = from.dims;
  for (int64_t step = Between(1, 3); step > 0; --step) {
    const int64_t kind = Below(5);
    if (kind <= 1 && dims.size() > 1) {  // merge neighbours
      const size_t i = Index(dims.size() - 1);
      dims[i] *= dims[i + 1];
      dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    } else if (kind <= 3 && !dims.empty()) {  // split
      const size_t i = Index(dims.size());
      std::vector<int64_t> divisors;
      for (int64_t d = 1; d <= dims[i]; ++d) {
        if (dims[i] % d == 0) divisors.push_back(d);
      }
      const int64_t major = Pick(divisors);
      dims[i] /= major;
      dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(i), major);
    } else if (dims.size() < 4) {
      dims.insert(dims.begin() + Between(0, static_cast<int64_t>(dims.size())), 1);
    }
  }
  if (dims == from.dims || dims.size() > 5) throw Rejected();
  Emit(Opcode::kReshape, {from.dtype, dims}, {x});
}

void ProgramMaker::MakeTranspose() {
  const size_t x = AnyOfRank(2);
  const ArrayType from = TypeOf(x);
  Sizes permutation(from.dims.size());
  for (size_t i = 0; i < permutation.size(); ++i) permutation[i] = static_cast<int64_t>(i);
  Shuffle(permutation);
  Sizes dims;
  for (int64_t p : permutation) dims.push_back(from.dims[static_cast<size_t>(p)]);
  Emit(Opcode::kTranspose, {from.dtype, dims}, {x},
       fmt::format(", dimensions={{{}}}", fmt::join(permutation, ",")));
}

void ProgramMaker::MakeSlice() {
  const size_t x = AnyOfRank(1);
  const ArrayType from = TypeOf(x);
  std::vector<std::string> parts;
  Sizes dims;
  const bool strided = Chance(40);
  for (int64_t size : from.dims) {
    int64_t start = 0, limit = size, stride = 1;
    if (Chance(60)) {
      start = Below(size);
      limit = Between(start + 1, size);
      if (strided) stride = Between(1, 3);
    }
    dims.push_back((limit - start + stride - 1) / stride);
    parts.push_back(strided ? fmt::format("[{}:{}:{}]", start, limit, stride)
                            : fmt::format("[{}:{}]", start, limit));
  }
  Emit(Opcode::kSlice, {from.dtype, dims}, {x},
       fmt::format(", slice={{{}}}", fmt::join(parts, ", ")));
}

void ProgramMaker::MakePad() {
  const size_t x = AnyOfRank(1);
  const ArrayType from = TypeOf(x);
  std::vector<std::string> parts;
  Sizes dims;
  const bool interior = Chance(35), negative = Chance(30);
  for (int64_t size : from.dims) {
    int64_t low = 0, high = 0, between = 0;
    if (Chance(60)) {
      low = Between(negative ? -3 : 0, 4);
      high = Between(negative ? -3 : 0, 4);
      if (interior) between = Below(3);
    }
    dims.push_back(size + std::max<int64_t>(size - 1, 0) * between + low + high);
    parts.push_back(interior ? fmt::format("{}_{}_{}", low, high, between)
                             : fmt::format("{}_{}", low, high));
  }
  const size_t value = Like({from.dtype, {}});
  Emit(Opcode::kPad, {from.dtype, dims}, {x, value},
       fmt::format(", padding={}", fmt::join(parts, "x")));
}

void ProgramMaker::MakeConcatenate() {
  const size_t x = AnyOfRank(1);
  ArrayType type = TypeOf(x);
  const size_t dim = Index(type.dims.size());
  const int64_t size = type.dims[dim];
  std::vector<size_t> operands;
  if (Chance(30) && size > 1) {  // rotation, or a wrap-around pad
    auto slice = [&](int64_t start, int64_t limit) {
      ArrayType part = type;
      part.dims[dim] = limit - start;
      std::vector<std::string> parts;
      for (size_t i = 0; i < type.dims.size(); ++i) {
        parts.push_back(i == dim ? fmt::format("[{}:{}]", start, limit)
                                 : fmt::format("[0:{}]", type.dims[i]));
      }
      return Emit(Opcode::kSlice, part, {x}, fmt::format(", slice={{{}}}", fmt::join(parts, ", ")));
    };
    const int64_t at = Between(1, size - 1);
    if (Chance(60)) {
      operands = {slice(at, size), slice(0, at)};
    } else {
      const int64_t right = Between(1, size - 1);
      operands = {slice(at, size), x, slice(0, right)};
    }
  } else {
    operands = {x};
    for (int64_t more = Between(1, 2); more > 0; --more) {
      ArrayType other = type;
      if (Chance(50)) other.dims[dim] = RandomSize();
      operands.insert(operands.begin() + Between(0, static_cast<int64_t>(operands.size())),
                      Like(other));
    }
  }
  type.dims[dim] = 0;
  for (size_t operand : operands) type.dims[dim] += TypeOf(operand).dims[dim];
  Emit(Opcode::kConcatenate, type, operands, fmt::format(", dimensions={{{}}}", dim));
}

void ProgramMaker::MakeReverse() {
  const size_t x = AnyOfRank(1);
  const ArrayType type = TypeOf(x);
  Sizes dimensions;
  for (size_t i = 0; i < type.dims.size(); ++i) {
    if (Chance(60)) dimensions.push_back(static_cast<int64_t>(i));
  }
  if (dimensions.empty()) throw Rejected();
  Emit(Opcode::kReverse, type, {x}, fmt::format(", dimensions={{{}}}", fmt::join(dimensions, ",")));
}

void ProgramMaker::MakeDynamicSlice() {
  const size_t x = AnyOfRank(1);
  const ArrayType from = TypeOf(x);
  Sizes dims;
  std::vector<size_t> operands = {x};
  const DType index = Chance(80) ? DType::kS32 : DType::kU32;
  for (int64_t size : from.dims) {
    dims.push_back(Chance(40) ? size : Chance(40) ? std::min<int64_t>(size, 1) : Between(1, size));
    operands.push_back(Chance(25) ? Scalar(index, Below(size)) : Like({index, {}}));
  }
  Emit(Opcode::kDynamicSlice, {from.dtype, dims}, operands,
       fmt::format(", dynamic_slice_sizes={{{}}}", fmt::join(dims, ",")));
}

void ProgramMaker::MakeDynamicUpdateSlice() {
  const size_t x = AnyOfRank(1);
  const ArrayType type = TypeOf(x);
  Sizes dims;
  for (int64_t size : type.dims)
    dims.push_back(Chance(40) ? size : Chance(40) ? std::min<int64_t>(size, 1) : Between(1, size));
  const size_t update = Like({type.dtype, dims});
  std::vector<size_t> operands = {x, update};
  for (int64_t size : type.dims) {
    operands.push_back(Chance(25) ? Scalar(DType::kS32, Below(size)) : Like({DType::kS32, {}}));
  }
  Emit(Opcode::kDynamicUpdateSlice, type, operands);
}

void ProgramMaker::MakeIota() {
  DType dtype = RandomDType();
  if (dtype == DType::kPred) dtype = DType::kS32;
  Iota({dtype, RandomDims(Between(1, 3))});
}

void ProgramMaker::MakeSource() {
  if (body_ != 0 || options_.for_xla || Chance(60)) {
    New({RandomDType(), RandomDims(Between(0, 4))});
    return;
  }
  Node node;
  node.opcode = Opcode::kParameter;
  node.tuple = true;
  for (int64_t i = Between(1, 3); i > 0; --i) {
    node.types.push_back({RandomDType(), RandomDims(Between(0, 3))});
  }
  MaybePlace(node, 75);
  const size_t leaves = node.types.size();
  const size_t parameter = Emit(std::move(node));
  for (size_t i = 0; i < leaves; ++i) Parts(parameter, i);
}

// What may pass in some directions only.
void ProgramMaker::MakeBarrier() {
  const size_t x = AnyOfRank(1);
  Node node;
  node.opcode = Opcode::kCustomCall;
  node.types = {TypeOf(x)};
  node.operands = {x};
  node.attributes = fmt::format(
      ", custom_call_target=\"xla.sdy.PropagationBarrier\", custom_call_has_side_effect=true, "
      "frontend_attributes={{xla.sdy.allowed_direction=\"{}\"}}",
      Below(4));
  node.placements.emplace_back();
  Emit(std::move(node));
}

void ProgramMaker::MakeMarker() {
  if (options_.shardy && Chance(25)) return MakeBarrier();
  const size_t x = AnyOfRank(1);
  Node node;
  node.opcode = Opcode::kCustomCall;
  node.types = {TypeOf(x)};
  node.operands = {x};
  node.attributes = ", custom_call_target=\"Sharding\"";
  node.placements = {RandomPlacement(TypeOf(x).rank())};
  Emit(std::move(node));
}

}  // namespace gshard::property
