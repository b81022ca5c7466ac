// The generator's frame: meshes, placements, sources of values, the choice of operations.
#include "tests/property/random_program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "tests/property/program_maker.h"

namespace gshard::property {
namespace {

constexpr int64_t kMaxElements = 3000;
constexpr size_t kMaxParameters = 6;

// May any operation take it as an array? Identities are of a size that nobody calculates with, and
// as data they would tie with padding.
bool IsArray(const Node& node) { return !node.tuple && !node.in_region && !node.is_identity; }

std::string DenseText(const Sizes& dims, size_t at, const std::function<std::string()>& element) {
  if (at == dims.size()) return element();
  std::vector<std::string> parts;
  for (int64_t i = 0; i < dims[at]; ++i) parts.push_back(DenseText(dims, at + 1, element));
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

}  // namespace

ProgramMaker::ProgramMaker(uint64_t seed, ProgramOptions options)
    : engine_(seed * 0x9e3779b97f4a7c15u + 1),
      rare_engine_(seed * 0xbf58476d1ce4e5b9u + 1),
      options_(std::move(options)) {
  engine_.discard(16);
  rare_engine_.discard(16);
}

int64_t ProgramMaker::RandomSize() {
  const int64_t size = Pick(sizes_);
  return has_empty_dims_ && Rarely(150) ? 0 : size;
}

Sizes ProgramMaker::RandomDims(int64_t rank) {
  Sizes dims;
  for (int64_t i = 0; i < rank; ++i) dims.push_back(RandomSize());
  while (Product(dims) > kMaxElements) dims[Index(dims.size())] = 1 + Below(4);
  return dims;
}

DType ProgramMaker::RandomDType() {
  static const std::vector<DType> kRare = {
      DType::kF8E4M3,     DType::kF8E3M4,     DType::kF8E4M3B11FNUZ,
      DType::kF8E5M2FNUZ, DType::kF8E4M3FNUZ, DType::kF4E2M1FN,
      DType::kF6E3M2FN,   DType::kF6E2M3FN,   DType::kS2,
      DType::kU2,         DType::kU1};
  if (!options_.for_xla && Rarely(25)) return kRare[rare_engine_() % kRare.size()];
  if (Chance(50)) return main_dtype_;
  static const std::vector<std::pair<DType, int>> kWeights = {
      {DType::kF32, 34}, {DType::kS32, 16},     {DType::kBF16, 11}, {DType::kPred, 8},
      {DType::kF64, 5},  {DType::kS8, 3},       {DType::kU32, 3},   {DType::kU8, 2},
      {DType::kF16, 3},  {DType::kC64, 3},      {DType::kC128, 1},  {DType::kS64, 2},
      {DType::kU64, 1},  {DType::kS16, 2},      {DType::kU16, 1},   {DType::kS4, 2},
      {DType::kU4, 1},   {DType::kF8E4M3FN, 1}, {DType::kF8E5M2, 1}};
  int64_t at = Below(100);
  for (const auto& [dtype, weight] : kWeights) {
    at -= weight;
    if (at < 0) return dtype;
  }
  return DType::kF32;
}

std::string ProgramMaker::ScalarLiteral(DType dtype, int64_t value) const {
  if (dtype == DType::kPred) return value != 0 ? "true" : "false";
  if (IsComplex(dtype)) return fmt::format("({}, 0)", value);
  return fmt::format("{}", value);
}

size_t ProgramMaker::Emit(Node node) {
  for (const ArrayType& type : node.types) {
    if (Product(type.dims) > kMaxElements) throw Rejected();
    for (int64_t dim : type.dims) {
      if (dim < (has_empty_dims_ ? 0 : 1)) throw Rejected();
    }
  }
  std::vector<const std::vector<Magnitude>*> operands;
  for (size_t operand : node.operands) operands.push_back(&magnitudes_[operand]);
  auto magnitude = MagnitudeOf(program_, node, operands);
  if (!magnitude) throw Rejected();
  node.id = program_.next_id++;
  if (node.opcode != Opcode::kParameter && node.opcode != Opcode::kTuple &&
      node.opcode != Opcode::kAfterAll) {
    MaybePlace(node, 14);
  }
  nodes().push_back(std::move(node));
  magnitudes_.push_back(std::move(*magnitude));
  return nodes().size() - 1;
}

size_t ProgramMaker::Emit(Opcode opcode, ArrayType type, std::vector<size_t> operands,
                          std::string attributes) {
  Node node;
  node.opcode = opcode;
  node.types = {std::move(type)};
  node.operands = std::move(operands);
  node.attributes = std::move(attributes);
  return Emit(std::move(node));
}

size_t ProgramMaker::Parameter(ArrayType type) {
  Node node;
  node.opcode = Opcode::kParameter;
  node.types = {std::move(type)};
  MaybePlace(node, 75);
  return Emit(std::move(node));
}

int64_t ProgramMaker::LargestLiteral(DType dtype, int64_t wanted) {
  if (!IsInteger(dtype) || DTypeBits(dtype) > 4) return wanted;
  const bool is_signed = ClassOf(dtype) == DTypeClass::kSigned;
  return std::min(wanted, (int64_t{1} << (DTypeBits(dtype) - (is_signed ? 1 : 0))) - 1);
}

size_t ProgramMaker::Scalar(DType dtype, int64_t value) {
  value = LargestLiteral(dtype, value);
  Node node;
  node.opcode = Opcode::kConstant;
  node.types = {{dtype, {}}};
  node.payload = ScalarLiteral(dtype, value);
  node.magnitude = std::fabs(static_cast<double>(value));
  return Emit(std::move(node));
}

size_t ProgramMaker::Constant(ArrayType type) {
  Node node;
  node.opcode = Opcode::kConstant;
  node.magnitude = 5;
  const bool is_signed = ClassOf(type.dtype) != DTypeClass::kUnsigned;
  const int64_t least = is_signed ? -2 : 0, most = LargestLiteral(type.dtype, 5);
  node.payload = DenseText(type.dims, 0, [&] {
    return ScalarLiteral(type.dtype, type.dtype == DType::kPred ? Below(2) : Between(least, most));
  });
  node.types = {std::move(type)};
  return Emit(std::move(node));
}

size_t ProgramMaker::Iota(ArrayType type) {
  if (type.dims.empty() || type.dtype == DType::kPred) throw Rejected();
  Node node;
  node.opcode = Opcode::kIota;
  const size_t dim = Index(type.dims.size());
  node.attributes = fmt::format(", iota_dimension={}", dim);
  node.magnitude = static_cast<double>(type.dims[dim]);
  node.types = {std::move(type)};
  return Emit(std::move(node));
}

size_t ProgramMaker::BroadcastTo(size_t scalar, const Sizes& dims) {
  if (dims.empty()) return scalar;
  return Emit(Opcode::kBroadcast, {TypeOf(scalar).dtype, dims}, {scalar}, ", dimensions={}");
}

size_t ProgramMaker::New(ArrayType type) {
  size_t parameters = 0;
  for (const Node& node : nodes()) parameters += node.opcode == Opcode::kParameter ? 1 : 0;
  if (body_ == 0 && (Chance(75) || (parameters < 2 && Chance(80))) && parameters < kMaxParameters) {
    return Parameter(type);
  }
  const int64_t kind = Below(4);
  if (kind == 0 && Product(type.dims) <= 60) return Constant(type);
  if (kind == 1 && type.rank() > 0 && type.dtype != DType::kPred) return Iota(type);
  if (kind == 2 && type.rank() > 0) {
    // A row or a column.
    Sizes dims, kept;
    for (size_t i = 0; i < type.dims.size(); ++i) {
      if (Chance(50)) continue;
      dims.push_back(type.dims[i]);
      kept.push_back(static_cast<int64_t>(i));
    }
    if (dims.size() < type.dims.size()) {
      const size_t part = Like({type.dtype, dims});
      return Emit(Opcode::kBroadcast, type, {part},
                  fmt::format(", dimensions={{{}}}", fmt::join(kept, ",")));
    }
  }
  const size_t scalar = Scalar(type.dtype, type.dtype == DType::kPred ? Below(2) : Below(4));
  return BroadcastTo(scalar, type.dims);
}

size_t ProgramMaker::Like(ArrayType type) {
  std::vector<size_t> same, dims;
  for (size_t i = 0; i < nodes().size(); ++i) {
    const Node& node = nodes()[i];
    if (!IsArray(node)) continue;
    if (node.type() == type) same.push_back(i);
    if (node.type().dims == type.dims && !IsNoisy(i) && !IsComplex(node.type().dtype)) {
      dims.push_back(i);
    }
  }
  if (!same.empty() && Chance(80)) return Pick(same);
  if (!dims.empty() && Chance(40) && type.dtype != DType::kPred) {
    const size_t from = Pick(dims);
    if (TypeOf(from).dtype != type.dtype) return Emit(Opcode::kConvert, type, {from});
  }
  return New(type);
}

size_t ProgramMaker::Any(const std::function<bool(size_t)>& accepts) {
  std::vector<bool> used(nodes().size(), false);
  for (const Node& node : nodes()) {
    for (size_t operand : node.operands) used[operand] = true;
  }
  std::vector<size_t> found;
  for (size_t i = 0; i < nodes().size(); ++i) {
    if (!IsArray(nodes()[i]) || !accepts(i)) continue;
    const bool is_source = nodes()[i].operands.empty();
    const bool is_scalar = TypeOf(i).dims.empty();
    const int weight = (used[i] ? 1 : 4) * (is_source ? 1 : 3) * (is_scalar ? 1 : 4);
    found.insert(found.end(), static_cast<size_t>(weight), i);
  }
  return Pick(found);
}

size_t ProgramMaker::AnyOfRank(int64_t least) {
  auto accepts = [&](size_t i) { return TypeOf(i).rank() >= least; };
  for (size_t i = 0; i < nodes().size(); ++i) {
    if (IsArray(nodes()[i]) && accepts(i)) return Any(accepts);
  }
  return New({RandomDType(), RandomDims(std::max<int64_t>(least, Between(1, 3)))});
}

size_t ProgramMaker::AnyNumeric(int64_t least_rank) {
  return Any(
      [&](size_t i) { return TypeOf(i).rank() >= least_rank && IsNumeric(TypeOf(i).dtype); });
}

std::string ProgramMaker::Combiner(Opcode opcode, DType dtype) {
  const std::string name = fmt::format("{}_{}", OpcodeName(opcode), DTypeName(dtype));
  const std::string type(DTypeName(dtype));
  program_.combiners[name] = fmt::format(
      "{0} {{\n  {0}.a = {1}[] parameter(0)\n  {0}.b = {1}[] parameter(1)\n"
      "  ROOT {0}.r = {1}[] {2}({0}.a, {0}.b)\n}}\n",
      name, type, OpcodeName(opcode));
  return name;
}

// By axes of the program's mesh, perhaps by parts of them.
Placement ProgramMaker::RandomShardyPlacement(int64_t rank) {
  Placement placement;
  const int64_t kind = Below(100);
  if (kind < 8) return placement;  // all is open
  placement.kind = Placement::Kind::kTiled;
  placement.dims.resize(static_cast<size_t>(rank));
  for (const int64_t size : program_.mesh) {
    const bool divides = size % 2 == 0 && size > 2 && Chance(30);
    if (divides) placement.mesh.push_back(2);
    placement.mesh.push_back(divides ? size / 2 : size);
  }
  std::vector<size_t> axes(placement.mesh.size());
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = i;
  if (Chance(40)) Shuffle(axes);
  for (size_t axis : axes) {
    if (rank == 0 || kind < 16 || Chance(30)) {
      if (Chance(20)) placement.replicated.push_back(axis);
      continue;
    }
    placement.dims[Index(placement.dims.size())].push_back(axis);
  }
  const bool has_priorities = Chance(20);
  for (int64_t d = 0; d < rank; ++d) {
    placement.open.push_back(Chance(35));
    placement.priorities.push_back(has_priorities ? Below(3) : 0);
  }
  return placement;
}

// Two values of the same sizes, now and then.
void ProgramMaker::MarkGroup() {
  if (!Chance(20)) return;
  const auto may = [&](const Node& node) {
    return !node.tuple && !node.in_region && node.opcode != Opcode::kAfterAll &&
           node.type().rank() > 0;
  };
  std::vector<size_t> members;
  for (size_t i = 0; i < nodes().size(); ++i) {
    if (may(nodes()[i])) members.push_back(i);
  }
  if (members.empty()) return;
  const Sizes dims = TypeOf(Pick(members)).dims;
  for (const size_t i : members) {
    if (TypeOf(i).dims == dims) nodes()[i].in_group = Chance(60);
  }
}

// Results as jit's out_shardings annotate them: by calls.
void ProgramMaker::AnnotateResults(std::vector<size_t>& results) {
  for (size_t& result : results) {
    if (TypeOf(result).rank() == 0 || Chance(30)) continue;
    Node node;
    node.opcode = Opcode::kCustomCall;
    node.types = {TypeOf(result)};
    node.operands = {result};
    node.attributes =
        ", custom_call_target=\"xla.sdy.FuncResultSharding\", custom_call_has_side_effect=true";
    node.placements = {RandomPlacement(TypeOf(result).rank())};
    try {
      result = Emit(std::move(node));
    } catch (const Rejected&) {  // too large to be compared
    }
  }
}

Placement ProgramMaker::RandomPlacement(int64_t rank) {
  if (options_.shardy) return RandomShardyPlacement(rank);
  Placement placement;
  const int64_t kind = Below(100);
  if (kind < 12 || rank == 0) {
    placement.kind = Placement::Kind::kReplicated;
    return placement;
  }
  if (kind < 16) {
    placement.kind = Placement::Kind::kMaximal;
    placement.device = Below(program_.devices);
    return placement;
  }
  placement.kind = Placement::Kind::kTiled;
  placement.mesh = program_.mesh;
  if (Chance(10)) {
    // Another factorisation of the same devices.
    placement.mesh.clear();
    int64_t rest = program_.devices;
    for (int64_t factor : {2, 2, 3, 2, 5, 7}) {
      if (rest % factor == 0) {
        placement.mesh.push_back(factor);
        rest /= factor;
      }
    }
    if (rest > 1) placement.mesh.push_back(rest);
    Shuffle(placement.mesh);
  }
  placement.dims.resize(static_cast<size_t>(rank));
  std::vector<size_t> axes(placement.mesh.size());
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = i;
  if (Chance(40)) Shuffle(axes);
  bool any = false;
  for (size_t axis : axes) {
    if (Chance(25)) continue;
    placement.dims[Index(placement.dims.size())].push_back(axis);
    any = true;
  }
  if (!any) placement.dims[Index(placement.dims.size())].push_back(axes[0]);
  if (Chance(6)) {
    for (int64_t d = 0; d < program_.devices; ++d) placement.order.push_back(d);
    Shuffle(placement.order);
  }
  return placement;
}

void ProgramMaker::MaybePlace(Node& node, int percent) {
  if (!node.placements.empty() || !Chance(percent)) return;
  for (const ArrayType& type : node.types) node.placements.push_back(RandomPlacement(type.rank()));
  // The value as a sum over the devices that have a tile of it.
  if (node.opcode == Opcode::kParameter || node.tuple || !Chance(12)) return;
  Placement& placement = node.placements[0];
  const DType dtype = node.type().dtype;
  if (placement.kind == Placement::Kind::kReplicated) {
    placement.kind = Placement::Kind::kTiled;
    placement.mesh = program_.mesh;
    placement.dims.resize(node.type().dims.size());
  }
  placement.unreduced =
      placement.kind == Placement::Kind::kTiled && dtype != DType::kPred && DTypeBits(dtype) >= 16;
}

bool ProgramMaker::TryOne(const Family& family) {
  const size_t nodes_before = nodes().size(), bodies_before = program_.bodies.size();
  const size_t body = body_;
  std::vector<std::vector<Magnitude>> magnitudes = magnitudes_;
  const int depth = depth_;
  try {
    (this->*family.make)();
    return true;
  } catch (const Rejected&) {
    body_ = body;
    depth_ = depth;
    nodes().resize(nodes_before);
    program_.bodies.resize(bodies_before);
    magnitudes_ = std::move(magnitudes);
    magnitudes_.resize(nodes_before);
    return false;
  }
}

void ProgramMaker::RandomOperations(int64_t count) {
  int total = 0;
  const Family* focus = nullptr;
  for (const Family& family : Families()) {
    total += family.weight;
    if (options_.focus == family.name) focus = &family;
  }
  int rare_total = 0;
  for (const Family& family : RareFamilies()) {
    rare_total += family.weight;
    if (options_.focus == family.name) focus = &family;
  }
  for (int64_t made = 0, tries = 0; made < count && tries < 12 * count; ++tries) {
    const Family* chosen = focus;
    if (focus == nullptr && Rarely(20)) {
      auto at = static_cast<int64_t>(rare_engine_() % static_cast<uint64_t>(rare_total));
      for (const Family& family : RareFamilies()) {
        at -= family.weight;
        if (at < 0) {
          chosen = &family;
          break;
        }
      }
    } else if (focus == nullptr || Chance(50)) {
      int64_t at = Below(total);
      for (const Family& family : Families()) {
        at -= family.weight;
        if (at < 0) {
          chosen = &family;
          break;
        }
      }
    }
    made += TryOne(*chosen) ? 1 : 0;
  }
}

Program ProgramMaker::Make() {
  static const std::vector<Sizes> kMeshes = {
      {2},    {2},    {4},    {4},    {3},       {6},       {8},       {5},       {2, 2},
      {2, 2}, {2, 3}, {3, 2}, {2, 4}, {4, 2},    {4, 2},    {4, 4},    {2, 8},    {7},
      {16},   {12},   {2, 6}, {3, 4}, {2, 2, 2}, {2, 2, 2}, {2, 2, 3}, {2, 3, 2}, {4, 2, 2}};
  do {
    program_.mesh = Pick(kMeshes);
  } while (options_.devices > 0 && Product(program_.mesh) != options_.devices);
  program_.devices = Product(program_.mesh);
  program_.shardy = options_.shardy;
  program_.has_nan = Chance(10);
  program_.propagate_to_output = Chance(40);
  program_.propagate_to_parameters = Chance(25);
  static const std::vector<int64_t> kSizes = {1, 2, 3, 4, 4,  5,  6,  6,  7,
                                              8, 8, 8, 9, 10, 11, 12, 13, 16};
  has_empty_dims_ = Rarely(30);
  for (int64_t i = Between(1, 3); i > 0; --i) sizes_.push_back(Pick(kSizes));
  if (Chance(40)) sizes_.push_back(program_.devices);
  if (Chance(30)) sizes_.push_back(2 * Pick(program_.mesh));
  static const std::vector<DType> kMain = {DType::kF32, DType::kF32, DType::kF32, DType::kS32,
                                           DType::kBF16};
  main_dtype_ = Pick(kMain);
  program_.bodies.emplace_back();
  for (int64_t i = Between(1, 3); i > 0; --i) {
    try {
      Parameter({RandomDType(), RandomDims(Between(1, 4))});
    } catch (const Rejected&) {
    }
  }
  RandomOperations(Between(1, Chance(30) ? 14 : 6));
  // The root: the last value, or a tuple of values nobody uses, or of any.
  std::vector<bool> used(nodes().size(), false);
  for (const Node& node : nodes()) {
    for (size_t operand : node.operands) used[operand] = true;
  }
  std::vector<size_t> results;
  for (size_t i = 0; i < nodes().size(); ++i) {
    if (nodes()[i].tuple || nodes()[i].in_region) continue;
    if ((!used[i] && !nodes()[i].operands.empty()) || Chance(4)) results.push_back(i);
  }
  if (results.empty()) {
    for (size_t i = 0; i < nodes().size(); ++i) {
      if (!nodes()[i].tuple && !nodes()[i].in_region) results = {i};
    }
  }
  if (options_.shardy) {
    MarkGroup();
    if (Chance(40)) AnnotateResults(results);
  }
  if (results.size() == 1 && Chance(70)) {
    program_.entry().root = results[0];
    Node& root = nodes()[results[0]];
    if (root.opcode != Opcode::kParameter) MaybePlace(root, 60);
  } else {
    Node root;
    root.opcode = Opcode::kTuple;
    root.tuple = true;
    for (size_t i : results) root.types.push_back(TypeOf(i));
    root.operands = results;
    MaybePlace(root, 60);
    program_.entry().root = Emit(std::move(root));
  }
  RemoveUnused(program_);
  return std::move(program_);
}

const std::vector<ProgramMaker::Family>& ProgramMaker::Families() {
  static const std::vector<Family> kFamilies = {
      {"unary", 8, &ProgramMaker::MakeUnary},
      {"binary", 16, &ProgramMaker::MakeBinary},
      {"ternary", 6, &ProgramMaker::MakeTernary},
      {"convert", 5, &ProgramMaker::MakeConvert},
      {"broadcast", 8, &ProgramMaker::MakeBroadcast},
      {"reshape", 12, &ProgramMaker::MakeReshape},
      {"transpose", 7, &ProgramMaker::MakeTranspose},
      {"slice", 10, &ProgramMaker::MakeSlice},
      {"pad", 9, &ProgramMaker::MakePad},
      {"concatenate", 9, &ProgramMaker::MakeConcatenate},
      {"reverse", 5, &ProgramMaker::MakeReverse},
      {"dynamic-slice", 7, &ProgramMaker::MakeDynamicSlice},
      {"dynamic-update-slice", 7, &ProgramMaker::MakeDynamicUpdateSlice},
      {"iota", 3, &ProgramMaker::MakeIota},
      {"source", 3, &ProgramMaker::MakeSource},
      {"marker", 4, &ProgramMaker::MakeMarker},
      {"dot", 16, &ProgramMaker::MakeDot},
      {"convolution", 10, &ProgramMaker::MakeConvolution},
      {"reduce", 12, &ProgramMaker::MakeReduce},
      {"arg-reduce", 4, &ProgramMaker::MakeArgReduce},
      {"reduce-window", 7, &ProgramMaker::MakeReduceWindow},
      {"cumulative", 5, &ProgramMaker::MakeCumulative},
      {"select-and-scatter", 4, &ProgramMaker::MakeSelectAndScatter},
      {"gather", 10, &ProgramMaker::MakeGather},
      {"scatter", 10, &ProgramMaker::MakeScatter},
      {"sort", 6, &ProgramMaker::MakeSort},
      {"topk", 3, &ProgramMaker::MakeTopK},
      {"fft", 2, &ProgramMaker::MakeFft},
      {"cholesky", 1, &ProgramMaker::MakeCholesky},
      {"triangular-solve", 1, &ProgramMaker::MakeTriangularSolve},
      {"random-bits", 1, &ProgramMaker::MakeRandomBits},
      {"batch-norm", 2, &ProgramMaker::MakeBatchNorm},
      {"scan", 2, &ProgramMaker::MakeScan},
      {"bits", 2, &ProgramMaker::MakeBits},
      {"map", 1, &ProgramMaker::MakeMap},
      {"while", 5, &ProgramMaker::MakeWhile},
      {"conditional", 5, &ProgramMaker::MakeConditional},
      {"call", 2, &ProgramMaker::MakeCall},
      {"tuple", 3, &ProgramMaker::MakeTuple},
      {"function", 6, &ProgramMaker::MakeFunction},
      {"rare-binary", 4, &ProgramMaker::MakeRareBinary},
      {"rare-order", 2, &ProgramMaker::MakeRareOrder},
      {"ragged-dot", 2, &ProgramMaker::MakeRaggedDot},
      {"scaled-dot", 1, &ProgramMaker::MakeScaledDot},
      {"manual", 4, &ProgramMaker::MakeManual},
  };
  return kFamilies;
}

const std::vector<ProgramMaker::Family>& ProgramMaker::RareFamilies() {
  static const std::vector<Family> kFamilies = {
      {"reduce-several", 2, &ProgramMaker::MakeReduceSeveral},
      {"sort-pairs", 2, &ProgramMaker::MakeSortPairs},
      {"scatter-replace", 2, &ProgramMaker::MakeScatterReplace},
      {"dot-widened", 2, &ProgramMaker::MakeDotWidened},
      {"manual-exchange", 2, &ProgramMaker::MakeManualExchange},
      {"manual-async", 3, &ProgramMaker::MakeManualAsync},
  };
  return kFamilies;
}

Program MakeRandomProgram(uint64_t seed, const ProgramOptions& options) {
  return ProgramMaker(seed, options).Make();
}

std::vector<std::string> FamilyNames() {
  std::vector<std::string> names;
  for (const auto& family : ProgramMaker::Families()) names.emplace_back(family.name);
  for (const auto& family : ProgramMaker::RareFamilies()) names.emplace_back(family.name);
  return names;
}

std::vector<Opcode> GeneratedOpcodes() {
  static const std::vector<Opcode> kLeftOut = {
      // Each run draws other numbers.
      Opcode::kRng, Opcode::kRngGetAndUpdateState,
      // Dynamic shapes.
      Opcode::kDynamicReshape, Opcode::kSetDimensionSize,
      // Inlined before partitioning.
      Opcode::kCall,
      // Its result is never tiled.
      Opcode::kAfterAll,
      // Of the host, or left by compilers after partitioning.
      Opcode::kSend, Opcode::kSendDone, Opcode::kRecv, Opcode::kRecvDone, Opcode::kInfeed,
      Opcode::kOutfeed, Opcode::kFusion, Opcode::kAsyncStart, Opcode::kAsyncUpdate,
      Opcode::kAsyncDone, Opcode::kDomain, Opcode::kCopyStart, Opcode::kCopyDone};
  std::vector<Opcode> opcodes;
  for (int i = 0; i < kOpcodeCount; ++i) {
    const auto opcode = static_cast<Opcode>(i);
    if (std::find(kLeftOut.begin(), kLeftOut.end(), opcode) == kLeftOut.end()) {
      opcodes.push_back(opcode);
    }
  }
  return opcodes;
}

}  // namespace gshard::property
