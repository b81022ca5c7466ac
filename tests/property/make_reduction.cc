// Reductions, windows, sorts.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "tests/property/program_maker.h"

namespace gshard::property {
namespace {

// The least number of a type, or the negated largest one: what a maximum starts from.
std::string LeastText(DType dtype) {
  switch (dtype) {
    case DType::kF8E4M3FN:
      return "-448";
    case DType::kF8E4M3FNUZ:
      return "-240";
    case DType::kF8E4M3B11FNUZ:
      return "-30";
    case DType::kF8E5M2FNUZ:
      return "-57344";
    case DType::kF6E3M2FN:
      return "-28";
    case DType::kF6E2M3FN:
      return "-7.5";
    case DType::kF4E2M1FN:
      return "-6";
    default:
      break;
  }
  if (IsFloat(dtype)) return "-inf";
  if (ClassOf(dtype) != DTypeClass::kSigned) return "0";
  return fmt::format("{}", std::numeric_limits<int64_t>::min() >> (64 - DTypeBits(dtype)));
}

std::string MostText(DType dtype) {
  if (IsFloat(dtype)) return LeastText(dtype).substr(1);
  const int unused = 64 - DTypeBits(dtype);
  if (ClassOf(dtype) != DTypeClass::kSigned) {
    return fmt::format("{}", std::numeric_limits<uint64_t>::max() >> unused);
  }
  return fmt::format("{}", std::numeric_limits<int64_t>::max() >> unused);
}

}  // namespace

size_t ProgramMaker::Identity(Opcode opcode, DType dtype) {
  switch (opcode) {
    case Opcode::kMultiply:
    case Opcode::kAnd:
      return Scalar(dtype, 1);
    case Opcode::kMaximum:
    case Opcode::kMinimum:
      break;
    default:
      return Scalar(dtype, 0);
  }
  Node node;
  node.opcode = Opcode::kConstant;
  node.types = {{dtype, {}}};
  node.payload = opcode == Opcode::kMaximum ? LeastText(dtype) : MostText(dtype);
  node.is_identity = true;
  return Emit(std::move(node));
}

void ProgramMaker::MakeReduce() {
  const size_t x = AnyOfRank(1);
  const ArrayType from = TypeOf(x);
  Sizes dims, reduced;
  int64_t fold = 1;
  for (size_t i = 0; i < from.dims.size(); ++i) {
    if (Chance(50)) {
      reduced.push_back(static_cast<int64_t>(i));
      fold *= from.dims[i];
    } else {
      dims.push_back(from.dims[i]);
    }
  }
  std::vector<Opcode> opcodes = {Opcode::kAdd, Opcode::kAdd, Opcode::kMaximum, Opcode::kMinimum};
  if (IsInteger(from.dtype)) opcodes.push_back(Opcode::kMultiply);
  if (from.dtype == DType::kPred) opcodes = {Opcode::kAnd, Opcode::kOr};
  if (IsComplex(from.dtype)) opcodes = {Opcode::kAdd};
  Node node;
  node.opcode = Opcode::kReduce;
  node.fold_opcode = Pick(opcodes);
  node.fold = fold;
  node.types = {{from.dtype, dims}};
  const size_t init = Chance(15) ? Like({from.dtype, {}}) : Identity(node.fold_opcode, from.dtype);
  if (fold == 0 && nodes()[init].is_identity) throw Rejected();
  node.operands = {x, init};
  node.attributes = fmt::format(", dimensions={{{}}}", fmt::join(reduced, ","));
  node.combiner = Combiner(node.fold_opcode, from.dtype);
  Emit(std::move(node));
}

// (largest value, its lowest index) along one dim.
void ProgramMaker::MakeArgReduce() {
  const size_t x = Any(
      [&](size_t i) { return TypeOf(i).rank() >= 1 && IsNumeric(TypeOf(i).dtype) && !IsNoisy(i); });
  const ArrayType from = TypeOf(x);
  const size_t dim = Index(from.dims.size());
  Node iota;
  iota.opcode = Opcode::kIota;
  iota.types = {{DType::kS32, from.dims}};
  iota.attributes = fmt::format(", iota_dimension={}", dim);
  iota.magnitude = static_cast<double>(from.dims[dim]);
  const size_t index = Emit(std::move(iota));
  const std::string type(DTypeName(from.dtype));
  Node node;
  node.opcode = Opcode::kReduce;
  node.combiner = "arg_max_" + type;
  program_.combiners[node.combiner] = fmt::format(
      "{0} {{\n  {0}.a = {1}[] parameter(0)\n  {0}.i = s32[] parameter(1)\n"
      "  {0}.b = {1}[] parameter(2)\n  {0}.j = s32[] parameter(3)\n"
      "  {0}.gt = pred[] compare({0}.a, {0}.b), direction=GT\n"
      "  {0}.eq = pred[] compare({0}.a, {0}.b), direction=EQ\n"
      "  {0}.lt = pred[] compare({0}.i, {0}.j), direction=LT\n"
      "  {0}.tie = pred[] and({0}.eq, {0}.lt)\n  {0}.first = pred[] or({0}.gt, {0}.tie)\n"
      "  {0}.value = {1}[] select({0}.first, {0}.a, {0}.b)\n"
      "  {0}.index = s32[] select({0}.first, {0}.i, {0}.j)\n"
      "  ROOT {0}.r = ({1}[], s32[]) tuple({0}.value, {0}.index)\n}}\n",
      node.combiner, type);
  Sizes dims = from.dims;
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(dim));
  node.types = {{from.dtype, dims}, {DType::kS32, dims}};
  node.tuple = true;
  node.fold_opcode = Opcode::kMaximum;
  if (from.dims[dim] == 0) throw Rejected();
  const size_t low = Identity(Opcode::kMaximum, from.dtype);
  const size_t last = Identity(Opcode::kMinimum, DType::kS32);
  node.operands = {x, index, low, last};
  node.attributes = fmt::format(", dimensions={{{}}}", dim);
  const size_t pair = Emit(std::move(node));
  Parts(pair, 0);
  Parts(pair, 1);
}

void ProgramMaker::MakeReduceWindow() {
  const size_t x = AnyNumeric(1);
  const ArrayType from = TypeOf(x);
  std::vector<Opcode> opcodes = {Opcode::kAdd, Opcode::kAdd, Opcode::kMaximum, Opcode::kMinimum};
  Node node;
  node.opcode = Opcode::kReduceWindow;
  node.fold_opcode = Pick(opcodes);
  node.fold = 1;
  Sizes dims, size, stride, base, dilation;
  std::vector<std::string> padding;
  const bool dilated_base = Chance(20), dilated_window = Chance(20);
  for (int64_t n : from.dims) {
    const bool windowed = Chance(60);
    size.push_back(windowed ? Between(1, std::min<int64_t>(n, 4)) : 1);
    stride.push_back(windowed && Chance(50) ? Between(1, 3) : 1);
    base.push_back(windowed && dilated_base ? Between(1, 3) : 1);
    dilation.push_back(windowed && dilated_window ? 2 : 1);
    const int64_t low = windowed && Chance(50) ? Between(-1, 3) : 0;
    const int64_t high = windowed && Chance(50) ? Between(-1, 3) : 0;
    padding.push_back(fmt::format("{}_{}", low, high));
    const int64_t whole = (n == 0 ? 0 : (n - 1) * base.back() + 1) + low + high;
    const int64_t window = (size.back() - 1) * dilation.back() + 1;
    if (whole < window) throw Rejected();
    dims.push_back((whole - window) / stride.back() + 1);
    node.fold *= size.back();
  }
  // A maximum may start anywhere; infinity would be nothing to calculate with.
  const size_t init = Scalar(from.dtype, node.fold_opcode == Opcode::kAdd ? 0 : Below(3));
  node.types = {{from.dtype, dims}};
  node.operands = {x, init};
  node.attributes =
      fmt::format(", window={{size={} stride={} pad={} lhs_dilate={} rhs_dilate={}}}",
                  fmt::join(size, "x"), fmt::join(stride, "x"), fmt::join(padding, "x"),
                  fmt::join(base, "x"), fmt::join(dilation, "x"));
  node.combiner = Combiner(node.fold_opcode, from.dtype);
  Emit(std::move(node));
}

void ProgramMaker::MakeCumulative() {
  const size_t x = AnyNumeric(1);
  const ArrayType from = TypeOf(x);
  const size_t dim = Index(from.dims.size());
  const int64_t n = from.dims[dim];
  if (n == 0) throw Rejected();
  const bool backward = Chance(30);
  Sizes size(from.dims.size(), 1);
  std::vector<std::string> padding(from.dims.size(), "0_0");
  // Sometimes each element's own value is left out, sometimes windows reach back too far.
  const int64_t end = Chance(35) ? -1 : 0;
  const int64_t reach = n - 1 + (n == 1 && end < 0 ? 1 : Chance(20) ? Below(3) : 0);
  size[dim] = reach + end + 1;
  padding[dim] = backward ? fmt::format("{}_{}", end, reach) : fmt::format("{}_{}", reach, end);
  Node node;
  node.opcode = Opcode::kReduceWindow;
  node.fold_opcode = Chance(70) ? Opcode::kAdd : Opcode::kMaximum;
  node.fold = n;
  const bool starts_from_nothing = end == 0 && Chance(70);
  const size_t init =
      starts_from_nothing ? Identity(node.fold_opcode, from.dtype) : Scalar(from.dtype, Below(3));
  node.types = {from};
  node.operands = {x, init};
  node.attributes =
      fmt::format(", window={{size={} pad={}}}", fmt::join(size, "x"), fmt::join(padding, "x"));
  node.combiner = Combiner(node.fold_opcode, from.dtype);
  Emit(std::move(node));
}

void ProgramMaker::MakeSelectAndScatter() {
  const size_t x = Any(
      [&](size_t i) { return TypeOf(i).rank() >= 1 && IsNumeric(TypeOf(i).dtype) && !IsNoisy(i); });
  const ArrayType from = TypeOf(x);
  Sizes dims, size, stride;
  std::vector<std::string> padding;
  int64_t positions = 1;
  for (int64_t n : from.dims) {
    const bool windowed = Chance(60);
    size.push_back(windowed ? Between(1, std::min<int64_t>(n, 3)) : 1);
    stride.push_back(windowed && Chance(60) ? Between(1, 3) : 1);
    // A window that lies in padding selects nothing: low < size, high < size.
    const int64_t low = windowed && Chance(40) ? Below(size.back()) : 0;
    const int64_t high = windowed && Chance(40) ? Below(size.back()) : 0;
    padding.push_back(fmt::format("{}_{}", low, high));
    dims.push_back((n + low + high - size.back()) / stride.back() + 1);
    positions *= size.back();
  }
  const size_t source = Like({from.dtype, dims});
  const size_t init = Scalar(from.dtype, Chance(80) ? 0 : 2);
  const std::string type(DTypeName(from.dtype));
  std::string direction = Chance(70) ? "GE" : "GT";
  if (Rarely(200)) direction = direction == "GE" ? "LE" : "LT";
  const std::string select = fmt::format("select_{}_{}", direction, type);
  Node node;
  node.opcode = Opcode::kSelectAndScatter;
  node.types = {from};
  node.operands = {x, source, init};
  node.fold = positions;
  // One text holds both computations: only `combiner` names what to print.
  const std::string both = fmt::format("{}_and_add_{}", select, type);
  program_.combiners[both] = fmt::format(
      "{0} {{\n  {0}.a = {1}[] parameter(0)\n  {0}.b = {1}[] parameter(1)\n"
      "  ROOT {0}.r = pred[] compare({0}.a, {0}.b), direction={2}\n}}\n\n"
      "scatter_{0} {{\n  scatter_{0}.a = {1}[] parameter(0)\n  scatter_{0}.b = {1}[] parameter(1)\n"
      "  ROOT scatter_{0}.r = {1}[] add(scatter_{0}.a, scatter_{0}.b)\n}}\n",
      select, type, direction);
  node.attributes = fmt::format(
      ", window={{size={} stride={} pad={}}}, select={}, scatter=scatter_{}", fmt::join(size, "x"),
      fmt::join(stride, "x"), fmt::join(padding, "x"), select, select);
  node.combiner = both;
  Emit(std::move(node));
}

void ProgramMaker::MakeSort() {
  // Long ones are worth sorting in pieces.
  const bool is_long = body_ == 0 && Chance(30);
  const size_t key = is_long ? Parameter({RandomDType(), {Between(300, 2900)}})
                             : Any([&](size_t i) { return TypeOf(i).rank() >= 1; });
  const ArrayType from = TypeOf(key);
  if (IsComplex(from.dtype)) throw Rejected();
  const size_t dim = Index(from.dims.size());
  Node node;
  node.opcode = Opcode::kSort;
  node.operands = {key};
  node.types = {from};
  const int64_t more = Chance(50) ? 0 : Between(1, 2);
  for (int64_t i = 0; i < more; ++i) {
    const ArrayType type{RandomDType(), from.dims};
    node.operands.push_back(Chance(40) && type.dtype != DType::kPred ? Iota(type) : Like(type));
    node.types.push_back(TypeOf(node.operands.back()));
  }
  node.tuple = more > 0;
  const bool greater = Chance(40);
  const bool is_total = IsFloat(from.dtype) && Chance(40);
  std::string name = std::string(is_total ? "total_" : "") + (greater ? "gt" : "lt");
  for (const ArrayType& type : node.types) name += fmt::format("_{}", DTypeName(type.dtype));
  std::string text = fmt::format("{} {{\n", name);
  int64_t number = 0;
  for (const ArrayType& type : node.types) {
    for (char side : {'a', 'b'}) {
      text += fmt::format("  {}.{}{} = {}[] parameter({})\n", name, side, number / 2,
                          DTypeName(type.dtype), number);
      ++number;
    }
  }
  text += fmt::format("  ROOT {0}.r = pred[] compare({0}.a0, {0}.b0), direction={1}{2}\n}}\n", name,
                      greater ? "GT" : "LT", is_total ? ", type=TOTALORDER" : "");
  program_.combiners[name] = text;
  node.combiner = name;
  node.attributes = fmt::format(", dimensions={{{}}}", dim);
  if (more > 0 || Chance(30)) node.attributes += ", is_stable=true";
  const size_t leaves = node.types.size();
  const size_t sorted = Emit(std::move(node));
  for (size_t i = 0; leaves > 1 && i < leaves; ++i) Parts(sorted, i);
}

void ProgramMaker::MakeTopK() {
  const bool any_type = !options_.for_xla && Rarely(300);
  const size_t x = Any([&](size_t i) {
    return TypeOf(i).rank() >= 1 && !IsNoisy(i) &&
           (TypeOf(i).dtype == DType::kF32 || TypeOf(i).dtype == DType::kS32 ||
            TypeOf(i).dtype == DType::kBF16 || (any_type && IsNumeric(TypeOf(i).dtype)));
  });
  const ArrayType from = TypeOf(x);
  Sizes dims = from.dims;
  dims.back() = Between(1, dims.back());
  Node node;
  node.opcode = Opcode::kTopK;
  node.types = {{from.dtype, dims}, {DType::kS32, dims}};
  node.tuple = true;
  node.operands = {x};
  node.attributes = fmt::format(", k={}, largest={}", dims.back(), Chance(70) ? "true" : "false");
  const size_t top = Emit(std::move(node));
  Parts(top, 0);
  Parts(top, 1);
}

// A sum and a maximum of two arrays in one pass.
void ProgramMaker::MakeReduceSeveral() {
  const size_t x = AnyNumeric(1);
  const ArrayType first = TypeOf(x);
  const size_t y =
      Any([&](size_t i) { return TypeOf(i).dims == first.dims && IsNumeric(TypeOf(i).dtype); });
  const ArrayType second = TypeOf(y);
  Node node;
  node.opcode = Opcode::kReduce;
  Sizes dims, reduced;
  node.fold = 1;
  for (size_t i = 0; i < first.dims.size(); ++i) {
    if (Chance(50)) {
      reduced.push_back(static_cast<int64_t>(i));
      node.fold *= first.dims[i];
    } else {
      dims.push_back(first.dims[i]);
    }
  }
  const std::string a(DTypeName(first.dtype)), b(DTypeName(second.dtype));
  node.combiner = fmt::format("sum_and_most_{}_{}", a, b);
  program_.combiners[node.combiner] = fmt::format(
      "{0} {{\n  {0}.a = {1}[] parameter(0)\n  {0}.i = {2}[] parameter(1)\n"
      "  {0}.b = {1}[] parameter(2)\n  {0}.j = {2}[] parameter(3)\n"
      "  {0}.sum = {1}[] add({0}.a, {0}.b)\n  {0}.most = {2}[] maximum({0}.i, {0}.j)\n"
      "  ROOT {0}.r = ({1}[], {2}[]) tuple({0}.sum, {0}.most)\n}}\n",
      node.combiner, a, b);
  node.types = {{first.dtype, dims}, {second.dtype, dims}};
  node.tuple = true;
  const size_t least = Identity(Opcode::kMaximum, second.dtype);
  if (node.fold == 0 && nodes()[least].is_identity) throw Rejected();
  node.operands = {x, y, Scalar(first.dtype, 0), least};
  node.attributes = fmt::format(", dimensions={{{}}}", fmt::join(reduced, ","));
  const size_t pair = Emit(std::move(node));
  Parts(pair, 0);
  Parts(pair, 1);
}

// By the first key, then by the second.
void ProgramMaker::MakeSortPairs() {
  const size_t key = Any([&](size_t i) { return TypeOf(i).rank() >= 1 && !IsNoisy(i); });
  const ArrayType first = TypeOf(key);
  const size_t other = Any([&](size_t i) { return TypeOf(i).dims == first.dims && !IsNoisy(i); });
  const ArrayType second = TypeOf(other);
  if (IsComplex(first.dtype) || IsComplex(second.dtype)) throw Rejected();
  const std::string a(DTypeName(first.dtype)), b(DTypeName(second.dtype));
  const char* const direction = Chance(50) ? "LT" : "GT";
  Node node;
  node.opcode = Opcode::kSort;
  node.combiner = fmt::format("pair_{}_{}_{}", direction, a, b);
  program_.combiners[node.combiner] = fmt::format(
      "{0} {{\n  {0}.a = {1}[] parameter(0)\n  {0}.b = {1}[] parameter(1)\n"
      "  {0}.c = {2}[] parameter(2)\n  {0}.d = {2}[] parameter(3)\n"
      "  {0}.before = pred[] compare({0}.a, {0}.b), direction={3}\n"
      "  {0}.same = pred[] compare({0}.a, {0}.b), direction=EQ\n"
      "  {0}.less = pred[] compare({0}.c, {0}.d), direction=LT\n"
      "  {0}.tie = pred[] and({0}.same, {0}.less)\n"
      "  ROOT {0}.r = pred[] or({0}.before, {0}.tie)\n}}\n",
      node.combiner, a, b, direction);
  node.types = {first, second};
  node.tuple = true;
  node.operands = {key, other};
  node.attributes = fmt::format(", dimensions={{{}}}, is_stable=true", Index(first.dims.size()));
  const size_t sorted = Emit(std::move(node));
  Parts(sorted, 0);
  Parts(sorted, 1);
}

size_t ProgramMaker::Parts(size_t tuple, size_t index) {
  Node node;
  node.opcode = Opcode::kGetTupleElement;
  node.types = {nodes()[tuple].types[index]};
  node.operands = {tuple};
  node.index = static_cast<int64_t>(index);
  node.attributes = fmt::format(", index={}", index);
  return Emit(std::move(node));
}

}  // namespace gshard::property
