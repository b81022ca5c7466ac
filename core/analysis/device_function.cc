#include "core/analysis/device_function.h"

#include <algorithm>

#include "ir/computation.h"
#include "ir/literal.h"

namespace gshard {
namespace {

constexpr int kDeepestExpression = 64;
constexpr int64_t kMaxTableDigits = 4;
// Values stay far from overflow: sizes, offsets and device numbers do.
constexpr int64_t kLargestValue = int64_t{1} << 48;

void Normalize(std::vector<DeviceDigit>& digits) {
  std::sort(digits.begin(), digits.end(),
            [](const DeviceDigit& a, const DeviceDigit& b) { return a.stride > b.stride; });
  std::vector<DeviceDigit> kept;
  for (const DeviceDigit& digit : digits) {
    if (digit.size == 1 || digit.coefficient == 0) continue;
    if (!kept.empty() && kept.back().stride == digit.stride * digit.size &&
        kept.back().coefficient == digit.coefficient * digit.size) {
      kept.back() = {kept.back().size * digit.size, digit.stride, digit.coefficient};
    } else {
      kept.push_back(digit);
    }
  }
  digits = std::move(kept);
}

// Cuts digits at every point of `cuts` (sorted strides).
bool CutAt(const std::vector<int64_t>& cuts, const DeviceDigit& digit,
           std::vector<DeviceDigit>& out) {
  int64_t begin = digit.stride;
  const int64_t end = digit.stride * digit.size;
  for (int64_t cut : cuts) {
    if (cut <= begin) continue;
    if (cut > end) break;
    if (cut % begin != 0 || end % cut != 0) return false;
    out.push_back({cut / begin, begin, digit.coefficient * (begin / digit.stride)});
    begin = cut;
  }
  return begin == end;
}

bool IsSmall(const DeviceFunction& f) {
  return f.Least() >= -kLargestValue && f.Largest() <= kLargestValue;
}

// f = divisor * high + low with 0 <= low < divisor.
struct Division {
  DeviceFunction high, low;
};
std::optional<Division> Divide(const DeviceFunction& f, int64_t divisor) {
  Division result;
  result.high.bias = f.bias / divisor;
  result.low.bias = f.bias % divisor;
  for (const DeviceDigit& digit : f.digits) {
    if (digit.coefficient < 0) return std::nullopt;
    if (digit.coefficient % divisor == 0) {
      result.high.digits.push_back({digit.size, digit.stride, digit.coefficient / divisor});
    } else if (divisor % digit.coefficient == 0) {
      // The low part of the digit stays below the divisor, the high part is a multiple of it.
      int64_t low = std::min(digit.size, divisor / digit.coefficient);
      if (digit.size % low != 0) return std::nullopt;
      result.low.digits.push_back({low, digit.stride, digit.coefficient});
      result.high.digits.push_back({digit.size / low, digit.stride * low, 1});
    } else {
      result.low.digits.push_back(digit);
    }
  }
  Normalize(result.high.digits);
  Normalize(result.low.digits);
  if (result.low.Largest() >= divisor) return std::nullopt;
  return result;
}

bool FitsType(const DeviceFunction& f, DType dtype) {
  const int bits = DTypeBits(dtype);
  switch (ClassOf(dtype)) {
    case DTypeClass::kUnsigned:
      return f.Least() >= 0 && (bits >= 49 || f.Largest() < int64_t{1} << bits);
    case DTypeClass::kSigned:
      return bits >= 50 ||
             (f.Least() >= -(int64_t{1} << (bits - 1)) && f.Largest() < int64_t{1} << (bits - 1));
    default:
      return false;
  }
}

}  // namespace

int64_t DeviceFunction::Least() const {
  int64_t least = bias;
  for (const DeviceDigit& digit : digits) {
    least += std::min<int64_t>(0, digit.coefficient) * (digit.size - 1);
  }
  return least;
}

int64_t DeviceFunction::Largest() const {
  int64_t largest = bias;
  for (const DeviceDigit& digit : digits) {
    largest += std::max<int64_t>(0, digit.coefficient) * (digit.size - 1);
  }
  return largest;
}

int64_t DeviceFunction::At(int64_t device) const {
  int64_t value = bias;
  for (const DeviceDigit& digit : digits) {
    value += digit.coefficient * (device / digit.stride % digit.size);
  }
  return value;
}

DeviceFunction ConstantFunction(int64_t value) { return {value, {}}; }

DeviceFunction IdentityFunction(int64_t device_count) {
  if (device_count == 1) return {};
  return {0, {{device_count, 1, 1}}};
}

DeviceFunction Scaled(const DeviceFunction& f, int64_t factor) {
  DeviceFunction result = f;
  result.bias *= factor;
  for (DeviceDigit& digit : result.digits) digit.coefficient *= factor;
  if (factor == 0) result.digits.clear();
  return result;
}

std::optional<DeviceFunction> Sum(const DeviceFunction& f, const DeviceFunction& g) {
  DeviceFunction result;
  result.bias = f.bias + g.bias;
  std::vector<int64_t> cuts;
  for (const DeviceFunction* h : {&f, &g}) {
    for (const DeviceDigit& digit : h->digits) {
      cuts.push_back(digit.stride);
      cuts.push_back(digit.stride * digit.size);
    }
  }
  std::sort(cuts.begin(), cuts.end());
  std::vector<DeviceDigit> pieces;
  for (const DeviceFunction* h : {&f, &g}) {
    for (const DeviceDigit& digit : h->digits) {
      if (!CutAt(cuts, digit, pieces)) return std::nullopt;
    }
  }
  // Pieces of both are equal or disjoint now.
  std::sort(pieces.begin(), pieces.end(),
            [](const DeviceDigit& a, const DeviceDigit& b) { return a.stride > b.stride; });
  for (const DeviceDigit& piece : pieces) {
    if (!result.digits.empty() && result.digits.back().stride == piece.stride) {
      if (result.digits.back().size != piece.size) return std::nullopt;
      result.digits.back().coefficient += piece.coefficient;
    } else {
      result.digits.push_back(piece);
    }
  }
  Normalize(result.digits);
  return result;
}

std::optional<DeviceFunction> Quotient(const DeviceFunction& f, int64_t divisor) {
  if (f.Least() < 0 || divisor <= 0) return std::nullopt;
  std::optional<Division> division = Divide(f, divisor);
  if (!division) return std::nullopt;
  return division->high;
}

std::optional<DeviceFunction> Remainder(const DeviceFunction& f, int64_t divisor) {
  if (f.Least() < 0 || divisor <= 0) return std::nullopt;
  std::optional<Division> division = Divide(f, divisor);
  if (!division) return std::nullopt;
  return division->low;
}

std::optional<DeviceFunction> FunctionOfTable(std::span<const int64_t> table, int64_t max_digits) {
  if (table.empty()) return std::nullopt;
  DeviceFunction result;
  result.bias = table[0];
  const auto whole = static_cast<int64_t>(table.size());
  auto at = [&](int64_t i) { return table[static_cast<size_t>(i)]; };
  // Minor digits first: table[q * r + m] = table[q * r] + slope * m for the longest r that does.
  for (int64_t stride = 1; stride < whole;) {
    const int64_t left = whole / stride;
    const int64_t slope = at(stride) - at(0);
    int64_t run = 2;
    while (run < left && at(run * stride) == at(0) + slope * run) ++run;
    auto repeats = [&](int64_t r) {
      for (int64_t q = 0; q < left / r; ++q) {
        for (int64_t m = 1; m < r; ++m) {
          if (at((q * r + m) * stride) != at(q * r * stride) + slope * m) return false;
        }
      }
      return true;
    };
    while (run >= 2 && (left % run != 0 || !repeats(run))) --run;
    if (run < 2) return std::nullopt;
    if (slope != 0) result.digits.push_back({run, stride, slope});
    if (static_cast<int64_t>(result.digits.size()) > max_digits) return std::nullopt;
    stride *= run;
  }
  Normalize(result.digits);
  return result;
}

std::optional<DeviceFunction> PlaceInGroup(const ReplicaGroups& groups, int64_t device_count) {
  if (groups.IsAll()) return IdentityFunction(device_count);
  const TileAssignment* tiles = groups.tiles();
  if (tiles == nullptr || !tiles->has_axes()) return std::nullopt;
  std::optional<std::vector<DeviceAxis>> axes = tiles->AxesOfDim(1);
  if (!axes) return std::nullopt;
  DeviceFunction place;
  int64_t weight = 1;
  for (auto axis = axes->rbegin(); axis != axes->rend(); ++axis) {
    place.digits.push_back({axis->size, axis->stride, weight});
    weight *= axis->size;
  }
  Normalize(place.digits);
  return place;
}

std::optional<DeviceFunction> DeviceFunctions::Of(const Instruction* x) {
  if (!x->shape()->IsArray() || x->shape()->element_count() != 1) return std::nullopt;
  auto known = known_.find(x);
  if (known != known_.end()) return known->second;
  if (depth_ > kDeepestExpression) return std::nullopt;
  ++depth_;
  std::optional<DeviceFunction> result = Read(x);
  --depth_;
  if (result && (!IsSmall(*result) || !FitsType(*result, x->shape()->dtype()))) result.reset();
  known_[x] = result;
  return result;
}

std::optional<DeviceFunction> DeviceFunctions::Read(const Instruction* x) {
  switch (x->opcode()) {
    case Opcode::kPartitionId:
      return IdentityFunction(device_count_);
    case Opcode::kConstant: {
      const Literal* literal = x->attributes<ConstantAttributes>().literal;
      if (literal->elided || !IsInteger(x->shape()->dtype())) return std::nullopt;
      return ConstantFunction(ElementAsInt64(*literal, 0));
    }
    case Opcode::kConvert:
    case Opcode::kReshape:
    case Opcode::kBitcast:
    case Opcode::kCopy:
    case Opcode::kBroadcast:
      return Of(x->operand(0));
    case Opcode::kClamp: {
      std::optional<DeviceFunction> low = Of(x->operand(0));
      std::optional<DeviceFunction> value = low ? Of(x->operand(1)) : std::nullopt;
      std::optional<DeviceFunction> high = value ? Of(x->operand(2)) : std::nullopt;
      bool is_inside =
          high && value->Least() >= low->Largest() && value->Largest() <= high->Least();
      return is_inside ? value : std::nullopt;
    }
    case Opcode::kDynamicSlice:
      return ReadLookup(x);
    default:  // only these operations are understood
      return x->operand_count() == 2 ? ReadBinary(x) : std::nullopt;
  }
}

std::optional<DeviceFunction> DeviceFunctions::ReadBinary(const Instruction* x) {
  std::optional<DeviceFunction> a = Of(x->operand(0));
  std::optional<DeviceFunction> b = a ? Of(x->operand(1)) : std::nullopt;
  if (!b) return std::nullopt;
  switch (x->opcode()) {
    case Opcode::kAdd:
      return Sum(*a, *b);
    case Opcode::kSubtract:
      return Sum(*a, Scaled(*b, -1));
    case Opcode::kMultiply:
      if (a->IsConstant()) std::swap(a, b);
      if (!b->IsConstant()) return std::nullopt;
      if (int64_t product = 0;
          __builtin_mul_overflow(std::max(std::abs(a->Least()), std::abs(a->Largest())), b->bias,
                                 &product) ||
          std::abs(product) > kLargestValue) {
        return std::nullopt;
      }
      return Scaled(*a, b->bias);
    case Opcode::kDivide:
      return b->IsConstant() ? Quotient(*a, b->bias) : std::nullopt;
    case Opcode::kRemainder:
      return b->IsConstant() ? Remainder(*a, b->bias) : std::nullopt;
    case Opcode::kMinimum:
      if (a->Largest() <= b->Least()) return a;
      return b->Largest() <= a->Least() ? b : std::nullopt;
    case Opcode::kMaximum:
      if (a->Least() >= b->Largest()) return a;
      return b->Least() >= a->Largest() ? b : std::nullopt;
    default:  // no closed form
      return std::nullopt;
  }
}

std::optional<DeviceFunction> DeviceFunctions::ReadLookup(const Instruction* x) {
  const Instruction* table = x->operand(0);
  if (table->shape()->rank() != 1) return std::nullopt;
  if (table->opcode() == Opcode::kIota) {
    std::optional<DeviceFunction> index = Of(x->operand(1));
    bool is_inside = index && index->Least() >= 0 && index->Largest() < table->shape()->dim(0);
    return is_inside ? index : std::nullopt;
  }
  if (table->opcode() != Opcode::kConstant) return std::nullopt;
  const Literal* literal = table->attributes<ConstantAttributes>().literal;
  if (literal->elided || !IsInteger(table->shape()->dtype())) return std::nullopt;
  std::optional<DeviceFunction> index = Of(x->operand(1));
  const int64_t size = table->shape()->dim(0);
  if (!index || index->Least() < 0 || index->Largest() >= size) return std::nullopt;
  std::vector<int64_t> values(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) values[static_cast<size_t>(i)] = ElementAsInt64(*literal, i);
  std::optional<DeviceFunction> of_index = FunctionOfTable(values, kMaxTableDigits);
  if (!of_index) return std::nullopt;
  std::optional<DeviceFunction> result = ConstantFunction(of_index->bias);
  for (const DeviceDigit& digit : of_index->digits) {
    std::optional<DeviceFunction> value = Quotient(*index, digit.stride);
    if (value && digit.stride * digit.size < size) value = Remainder(*value, digit.size);
    if (!value) return std::nullopt;
    result = Sum(*result, Scaled(*value, digit.coefficient));
    if (!result) return std::nullopt;
  }
  return result;
}

}  // namespace gshard
