// Rules by opcode: what picks, and from what.
#include "backends/cpu/verify/near_ties.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "backends/cpu/verify/analysis/taint.h"
#include "backends/cpu/verify/element_error.h"
#include "ir/computation.h"
#include "ir/constant_fill.h"

namespace gshard::cpu {
namespace {

bool IsFloatArray(const Instruction& x) {
  return x.shape()->IsArray() && IsFloat(x.shape()->dtype());
}

// The same everywhere whatever the partitioning.
bool IsGiven(const Instruction& x) {
  if (x.opcode() == Opcode::kConstant || x.opcode() == Opcode::kIota) return true;
  return x.opcode() == Opcode::kBroadcast && IsGiven(*x.operand(0));
}

bool RoundsFloats(const Instruction& x) {
  if (x.operand_count() == 0 || !IsFloatArray(*x.operand(0))) return false;
  switch (x.opcode()) {
    case Opcode::kCompare:
    case Opcode::kFloor:
    case Opcode::kCeil:
    case Opcode::kRoundNearestAfz:
    case Opcode::kRoundNearestEven:
    case Opcode::kSign:
    case Opcode::kIsFinite:
    case Opcode::kRemainder:
    case Opcode::kSelectAndScatter:
      return true;
    case Opcode::kConvert:
      return !IsFloat(x.shape()->dtype()) && !IsComplex(x.shape()->dtype());
    default:  // keeps the float
      return false;
  }
}

// The dim along which a choice picks one of several elements; -1: it does not, or several.
int64_t PickedDim(const Instruction& choice) {
  switch (choice.opcode()) {
    case Opcode::kReduce: {
      const auto& dims = choice.attributes<DimensionsAttributes>().dimensions;
      return dims.size() == 1 ? dims[0] : -1;
    }
    case Opcode::kSort:
      return choice.attributes<SortAttributes>().dimension;
    case Opcode::kTopK:
    case Opcode::kCustomCall:  // TopK
      return choice.operand(0)->shape()->rank() - 1;
    default:  // picks nothing
      return -1;
  }
}

// An index that counts along `dim`: the picks of an arg-max.
bool CountsAlong(const Instruction& x, int64_t dim) {
  const Instruction* from = &x;
  while (from->opcode() == Opcode::kBroadcast || from->opcode() == Opcode::kConvert ||
         from->opcode() == Opcode::kCopy) {
    if (from->opcode() == Opcode::kBroadcast) {
      const auto& dims = from->attributes<DimensionsAttributes>().dimensions;
      const auto found = std::find(dims.begin(), dims.end(), dim);
      if (found == dims.end()) return false;
      dim = found - dims.begin();
    }
    from = from->operand(0);
  }
  return from->opcode() == Opcode::kIota && from->attributes<IotaAttributes>().dimension == dim;
}

// Does element `leaf` of the choice's result hold indices along the dim that is picked from?
bool PicksAreIndices(const Instruction& choice, int64_t leaf, int64_t dim) {
  switch (choice.opcode()) {
    case Opcode::kTopK:
    case Opcode::kCustomCall:
      return leaf == 1;
    case Opcode::kReduce:
    case Opcode::kSort:
      return leaf < choice.operand_count() && CountsAlong(*choice.operand(leaf), dim);
    default:  // picks nothing
      return false;
  }
}

int64_t ReadPick(DType dtype, const std::byte* data) {
  int64_t value = 0;
  std::memcpy(&value, data, std::min<size_t>(static_cast<size_t>(StorageBytes(dtype)), 8));
  return value;
}

// The flat index in `keys` of place `pick` along `dim` for element `at` of the result, which has
// the other dims of `keys` in order (and, of sorts, another place along `dim`).
int64_t PlaceOf(const Instruction& x, int64_t at, const Shape* keys, int64_t dim, int64_t pick) {
  std::vector<int64_t> index = IndexOf(at, x.shape()->dims());
  if (x.shape()->rank() == keys->rank()) {
    index[static_cast<size_t>(dim)] = pick;
  } else {
    index.insert(index.begin() + dim, pick);
  }
  int64_t flat = 0;
  for (size_t i = 0; i < index.size(); ++i) {
    flat = flat * keys->dim(static_cast<int64_t>(i)) + index[i];
  }
  return flat;
}

bool Compares(ComparisonDirection direction, double a, double b) {
  switch (direction) {
    case ComparisonDirection::kEq:
      return a == b;
    case ComparisonDirection::kNe:
      return a != b;
    case ComparisonDirection::kGe:
      return a >= b;
    case ComparisonDirection::kGt:
      return a > b;
    case ComparisonDirection::kLe:
      return a <= b;
    case ComparisonDirection::kLt:
      return a < b;
  }
  return false;
}

// What an operation that RoundsFloats makes of one element of each operand.
double PickOf(const Instruction& x, double a, double b) {
  switch (x.opcode()) {
    case Opcode::kCompare:
      return Compares(x.attributes<CompareAttributes>().direction, a, b) ? 1 : 0;
    case Opcode::kFloor:
      return std::floor(a);
    case Opcode::kCeil:
      return std::ceil(a);
    case Opcode::kRoundNearestAfz:
      return std::round(a);
    case Opcode::kRoundNearestEven:
      return std::nearbyint(a);
    case Opcode::kSign:
      return a == 0 ? a : std::copysign(1, a);
    case Opcode::kIsFinite:
      return std::isfinite(a) ? 1 : 0;
    case Opcode::kRemainder:
      return std::fmod(a, b);
    case Opcode::kConvert:
      return std::trunc(a);
    default:  // rounds nothing
      return std::numeric_limits<double>::quiet_NaN();
  }
}

}  // namespace

const Instruction* DecidingInstruction(const Instruction& x) {
  if (RoundsFloats(x)) return &x;
  if (x.opcode() != Opcode::kGetTupleElement) return nullptr;
  return IsDiscreteChoice(*x.operand(0)) ? x.operand(0) : nullptr;
}

std::vector<const Instruction*> DecidingOperands(const Instruction& choice) {
  int64_t count = choice.operand_count();
  if (choice.opcode() == Opcode::kReduce || choice.opcode() == Opcode::kReduceWindow) count /= 2;
  if (choice.opcode() == Opcode::kSelectAndScatter) count = 1;
  std::vector<const Instruction*> operands;
  for (int64_t i = 0; i < count; ++i) {
    const Instruction& operand = *choice.operand(i);
    if (IsFloatArray(operand) && !IsGiven(operand)) operands.push_back(&operand);
  }
  return operands;
}

std::vector<Contender> ContendersOf(const Instruction& x, int64_t at, const std::byte* have,
                                    const std::byte* want) {
  const Instruction& choice = *DecidingInstruction(x);
  const Instruction& first = *choice.operand(0);
  if (&choice == &x) {
    if (x.opcode() == Opcode::kSelectAndScatter) return {};
    std::vector<Contender> sides;
    for (const Instruction* operand : x.operands()) sides.push_back({operand, at});
    return sides;
  }
  const int64_t dim = PickedDim(choice);
  const int64_t leaf = x.attributes<GetTupleElementAttributes>().index;
  if (dim < 0 || !PicksAreIndices(choice, leaf, dim)) return {};
  const DType dtype = x.shape()->dtype();
  const int64_t mesh = ReadPick(dtype, have), whole = ReadPick(dtype, want);
  const Shape* keys = first.shape();
  if (std::min(mesh, whole) < 0 || std::max(mesh, whole) >= keys->dim(dim)) return {};
  return {{&first, PlaceOf(x, at, keys, dim, mesh)}, {&first, PlaceOf(x, at, keys, dim, whole)}};
}

bool MakesPick(const Instruction& x, const std::byte* pick,
               std::span<const ContenderValue> values) {
  if (values.empty() || !std::ranges::all_of(values, &ContenderValue::known)) return false;
  const Instruction& choice = *DecidingInstruction(x);
  const DType dtype = choice.operand(0)->shape()->dtype();
  if (&choice != &x) {
    return ElementError(dtype, values[0].want.data(), 0, values[1].want.data(), 0) <=
           values[0].allowed + values[1].allowed;
  }
  const double a = ElementValue(dtype, values[0].have.data(), 0);
  const double b = values.size() > 1 ? ElementValue(dtype, values[1].have.data(), 0) : 0;
  return ElementValue(x.shape()->dtype(), pick, 0) == PickOf(x, a, b);
}

void ReadGiven(const Instruction& x, ContenderValue& value) {
  const Literal* fill = ConstantFill(&x);
  const auto bytes = static_cast<size_t>(StorageBytes(x.shape()->dtype()));
  if (fill == nullptr || bytes > value.want.size()) return;
  std::memcpy(value.want.data(), fill->data.data(), bytes);
  value.have = value.want;
  value.known = true;
}

NearTie DescribeNearTie(const Instruction& x, Mismatch pick,
                        const std::vector<Contender>& contenders,
                        const std::vector<ContenderValue>& values) {
  NearTie tie;
  tie.opcode = OpcodeName(DecidingInstruction(x)->opcode());
  tie.pick = std::move(pick);
  tie.pick.name = x.name();
  bool all_known = true;
  for (size_t i = 0; i < contenders.size(); ++i) {
    const Instruction& operand = *contenders[i].operand;
    const DType dtype = operand.shape()->dtype();
    all_known &= values[i].known;
    if (!values[i].known) continue;
    tie.candidates.push_back({std::string(operand.name()),
                              IndexOf(contenders[i].at, operand.shape()->dims()),
                              FormatElement(dtype, values[i].have.data(), 0),
                              FormatElement(dtype, values[i].want.data(), 0)});
  }
  if (!all_known || contenders.empty()) return tie;
  const DType dtype = contenders[0].operand->shape()->dtype();
  const std::byte* from = values[0].want.data();
  const std::byte* to = values.size() == 2 ? values[1].want.data() : values[0].have.data();
  tie.apart = ElementError(dtype, from, 0, to, 0);
  tie.ulps = tie.apart / UnitInLastPlace(dtype, std::max(ElementMagnitude(dtype, from, 0),
                                                         ElementMagnitude(dtype, to, 0)));
  for (const ContenderValue& value : values) tie.allowed = std::max(tie.allowed, value.allowed);
  return tie;
}

}  // namespace gshard::cpu
