#include "core/analysis/device_function.h"

#include <algorithm>

#include "ir/computation.h"
#include "ir/literal.h"

namespace gshard {
namespace {

constexpr int kDeepestExpression = 64;
constexpr int64_t kMaxTableSubAxes = 4;
// Values stay far from overflow: sizes, offsets and device numbers do.
constexpr int64_t kLargestValue = int64_t{1} << 48;

void Normalize(std::vector<DeviceSubAxis>& sub_axes) {
  std::sort(sub_axes.begin(), sub_axes.end(),
            [](const DeviceSubAxis& a, const DeviceSubAxis& b) { return a.stride > b.stride; });
  std::vector<DeviceSubAxis> kept;
  for (const DeviceSubAxis& sub_axis : sub_axes) {
    if (sub_axis.size == 1 || sub_axis.coefficient == 0) continue;
    if (!kept.empty() && kept.back().stride == sub_axis.stride * sub_axis.size &&
        kept.back().coefficient == sub_axis.coefficient * sub_axis.size) {
      kept.back() = {kept.back().size * sub_axis.size, sub_axis.stride, sub_axis.coefficient};
    } else {
      kept.push_back(sub_axis);
    }
  }
  sub_axes = std::move(kept);
}

// Cuts sub-axes at every point of `cuts` (sorted strides).
bool CutAt(const std::vector<int64_t>& cuts, const DeviceSubAxis& sub_axis,
           std::vector<DeviceSubAxis>& out) {
  int64_t begin = sub_axis.stride;
  const int64_t end = sub_axis.stride * sub_axis.size;
  for (int64_t cut : cuts) {
    if (cut <= begin) continue;
    if (cut > end) break;
    if (cut % begin != 0 || end % cut != 0) return false;
    out.push_back({cut / begin, begin, sub_axis.coefficient * (begin / sub_axis.stride)});
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
  for (const DeviceSubAxis& sub_axis : f.sub_axes) {
    if (sub_axis.coefficient < 0) return std::nullopt;
    if (sub_axis.coefficient % divisor == 0) {
      result.high.sub_axes.push_back(
          {sub_axis.size, sub_axis.stride, sub_axis.coefficient / divisor});
    } else if (divisor % sub_axis.coefficient == 0) {
      // The low part of the sub-axis stays below the divisor, the high part is a multiple of it.
      int64_t low = std::min(sub_axis.size, divisor / sub_axis.coefficient);
      if (sub_axis.size % low != 0) return std::nullopt;
      result.low.sub_axes.push_back({low, sub_axis.stride, sub_axis.coefficient});
      result.high.sub_axes.push_back({sub_axis.size / low, sub_axis.stride * low, 1});
    } else {
      result.low.sub_axes.push_back(sub_axis);
    }
  }
  Normalize(result.high.sub_axes);
  Normalize(result.low.sub_axes);
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
  for (const DeviceSubAxis& sub_axis : sub_axes) {
    least += std::min<int64_t>(0, sub_axis.coefficient) * (sub_axis.size - 1);
  }
  return least;
}

int64_t DeviceFunction::Largest() const {
  int64_t largest = bias;
  for (const DeviceSubAxis& sub_axis : sub_axes) {
    largest += std::max<int64_t>(0, sub_axis.coefficient) * (sub_axis.size - 1);
  }
  return largest;
}

int64_t DeviceFunction::At(int64_t device) const {
  int64_t value = bias;
  for (const DeviceSubAxis& sub_axis : sub_axes) {
    value += sub_axis.coefficient * (device / sub_axis.stride % sub_axis.size);
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
  for (DeviceSubAxis& sub_axis : result.sub_axes) sub_axis.coefficient *= factor;
  if (factor == 0) result.sub_axes.clear();
  return result;
}

std::optional<DeviceFunction> Sum(const DeviceFunction& f, const DeviceFunction& g) {
  DeviceFunction result;
  result.bias = f.bias + g.bias;
  std::vector<int64_t> cuts;
  for (const DeviceFunction* h : {&f, &g}) {
    for (const DeviceSubAxis& sub_axis : h->sub_axes) {
      cuts.push_back(sub_axis.stride);
      cuts.push_back(sub_axis.stride * sub_axis.size);
    }
  }
  std::sort(cuts.begin(), cuts.end());
  std::vector<DeviceSubAxis> pieces;
  for (const DeviceFunction* h : {&f, &g}) {
    for (const DeviceSubAxis& sub_axis : h->sub_axes) {
      if (!CutAt(cuts, sub_axis, pieces)) return std::nullopt;
    }
  }
  // Pieces of both are equal or disjoint now.
  std::sort(pieces.begin(), pieces.end(),
            [](const DeviceSubAxis& a, const DeviceSubAxis& b) { return a.stride > b.stride; });
  for (const DeviceSubAxis& piece : pieces) {
    if (!result.sub_axes.empty() && result.sub_axes.back().stride == piece.stride) {
      if (result.sub_axes.back().size != piece.size) return std::nullopt;
      result.sub_axes.back().coefficient += piece.coefficient;
    } else {
      result.sub_axes.push_back(piece);
    }
  }
  Normalize(result.sub_axes);
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

std::optional<DeviceFunction> FunctionOfTable(std::span<const int64_t> table,
                                              int64_t max_sub_axes) {
  if (table.empty()) return std::nullopt;
  DeviceFunction result;
  result.bias = table[0];
  const auto whole = static_cast<int64_t>(table.size());
  auto at = [&](int64_t i) { return table[static_cast<size_t>(i)]; };
  // Minor sub-axes first: table[q * r + m] = table[q * r] + slope * m for the longest r that does.
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
    if (slope != 0) result.sub_axes.push_back({run, stride, slope});
    if (static_cast<int64_t>(result.sub_axes.size()) > max_sub_axes) return std::nullopt;
    stride *= run;
  }
  Normalize(result.sub_axes);
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
    place.sub_axes.push_back({axis->size, axis->stride, weight});
    weight *= axis->size;
  }
  Normalize(place.sub_axes);
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
  std::optional<DeviceFunction> of_index = FunctionOfTable(values, kMaxTableSubAxes);
  if (!of_index) return std::nullopt;
  std::optional<DeviceFunction> result = ConstantFunction(of_index->bias);
  for (const DeviceSubAxis& sub_axis : of_index->sub_axes) {
    std::optional<DeviceFunction> value = Quotient(*index, sub_axis.stride);
    if (value && sub_axis.stride * sub_axis.size < size) value = Remainder(*value, sub_axis.size);
    if (!value) return std::nullopt;
    result = Sum(*result, Scaled(*value, sub_axis.coefficient));
    if (!result) return std::nullopt;
  }
  return result;
}

}  // namespace gshard
