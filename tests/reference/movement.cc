// Data movement: broadcast, reshape, transpose, slices, pad, concatenate, reverse, iota,
// bitcast-convert (docs/semantics.md, section 6).
#include <algorithm>
#include <cstring>

#include "tests/reference/families.h"

namespace gshard::cpu {
namespace {

// result[index] = operand[source(index)].
template <typename Source>
ReferenceValue Rearranged(const Instruction& x, const ReferenceValue& operand, Source source) {
  ReferenceValue result = Zeros(x.shape());
  ForEachIndex(x.shape()->dims(),
               [&](const Index& index) { At(result, index) = At(operand, source(index)); });
  return result;
}

// Starts of a dynamic slice, clamped so that it lies inside.
Index Starts(ReferenceOperands indices, std::span<const int64_t> dims,
             std::span<const int64_t> sizes) {
  std::vector<Number> numbers;
  std::vector<bool> is_unsigned;
  for (const ReferenceValue& value : indices) {
    for (const Number& number : value.data) {
      numbers.push_back(number);
      is_unsigned.push_back(ClassOf(value.shape->dtype()) == DTypeClass::kUnsigned);
    }
  }
  Index starts;
  for (size_t d = 0; d < dims.size(); ++d) {
    const int64_t last = dims[d] - sizes[d];
    const bool huge = is_unsigned[d] && numbers[d].i < 0;
    starts.push_back(huge ? last : std::clamp<int64_t>(numbers[d].i, 0, last));
  }
  return starts;
}

Index Sum(const Index& a, const Index& b) {
  Index sum = a;
  for (size_t d = 0; d < sum.size(); ++d) sum[d] += b[d];
  return sum;
}

ReferenceValue Pad(const Instruction& x, ReferenceOperands operands) {
  ReferenceValue result = Zeros(x.shape());
  std::fill(result.data.begin(), result.data.end(), operands[1].data[0]);
  const auto padding = x.attributes<PadAttributes>().padding;
  ForEachIndex(operands[0].shape->dims(), [&](const Index& index) {
    Index target = index;
    for (size_t d = 0; d < index.size(); ++d) {
      target[d] = padding[d].low + index[d] * (padding[d].interior + 1);
    }
    if (IsInside(x.shape()->dims(), target)) At(result, target) = At(operands[0], index);
  });
  return result;
}

ReferenceValue Concatenate(const Instruction& x, ReferenceOperands operands) {
  ReferenceValue result = Zeros(x.shape());
  const size_t dim = static_cast<size_t>(x.attributes<DimensionsAttributes>().dimensions[0]);
  int64_t offset = 0;
  for (const ReferenceValue& operand : operands) {
    ForEachIndex(operand.shape->dims(), [&](const Index& index) {
      Index target = index;
      target[dim] += offset;
      At(result, target) = At(operand, index);
    });
    offset += operand.shape->dims()[dim];
  }
  return result;
}

// A little-endian stream of bits, each element DTypeBits wide.
ReferenceValue BitcastConvert(const Instruction& x, const ReferenceValue& operand) {
  const auto width = [](DType type) { return type == DType::kPred ? 8 : DTypeBits(type); };
  const int from = width(operand.shape->dtype()), to = width(x.shape()->dtype());
  const std::vector<std::byte> in = ToBytes(operand);
  const size_t in_bytes = static_cast<size_t>(StorageBytes(operand.shape->dtype()));
  const size_t out_bytes = static_cast<size_t>(StorageBytes(x.shape()->dtype()));
  std::vector<std::byte> out(static_cast<size_t>(x.shape()->element_count()) * out_bytes);
  for (int64_t bit = 0; bit < operand.shape->element_count() * from; ++bit) {
    const size_t in_byte =
        static_cast<size_t>(bit / from) * in_bytes + static_cast<size_t>(bit % from / 8);
    const size_t out_byte =
        static_cast<size_t>(bit / to) * out_bytes + static_cast<size_t>(bit % to / 8);
    const bool set = (std::to_integer<unsigned>(in[in_byte]) >> (bit % from % 8) & 1) != 0;
    if (set) out[out_byte] |= static_cast<std::byte>(1u << (bit % to % 8));
  }
  ReferenceValue result = FromBytes(x.shape(), out);
  for (Number& number : result.data) number = RoundTo(x.shape()->dtype(), number);
  return result;
}

ReferenceValue Iota(const Instruction& x) {
  ReferenceValue result = Zeros(x.shape());
  const size_t dim = static_cast<size_t>(x.attributes<IotaAttributes>().dimension);
  ForEachIndex(x.shape()->dims(), [&](const Index& index) {
    At(result, index) = ConvertReference(DType::kS64, x.shape()->dtype(), {index[dim], 0});
  });
  return result;
}

}  // namespace

ReferenceValue MovementReference(const Instruction& x, ReferenceOperands operands) {
  switch (x.opcode()) {
    case Opcode::kIota:
      return Iota(x);
    case Opcode::kPad:
      return Pad(x, operands);
    case Opcode::kConcatenate:
      return Concatenate(x, operands);
    case Opcode::kBitcastConvert:
      return BitcastConvert(x, operands[0]);
    case Opcode::kBitcast:
    case Opcode::kReshape:
    case Opcode::kDynamicReshape: {
      ReferenceValue result = operands[0];
      result.shape = x.shape();
      return result;
    }
    case Opcode::kGetDimensionSize: {
      ReferenceValue result = Zeros(x.shape());
      result.data[0].i = operands[0].shape->dim(x.attributes<DimensionsAttributes>().dimensions[0]);
      return result;
    }
    default:
      break;
  }
  const ReferenceValue& operand = operands[0];
  const std::span<const int64_t> sizes = operand.shape->dims();
  if (x.opcode() == Opcode::kDynamicUpdateSlice) {
    ReferenceValue result = operand;
    const Index starts = Starts(operands.subspan(2), sizes, operands[1].shape->dims());
    ForEachIndex(operands[1].shape->dims(), [&](const Index& index) {
      At(result, Sum(starts, index)) = At(operands[1], index);
    });
    return result;
  }
  if (x.opcode() == Opcode::kDynamicSlice) {
    const Index starts = Starts(operands.subspan(1), sizes, x.shape()->dims());
    return Rearranged(x, operand, [&](const Index& index) { return Sum(starts, index); });
  }
  if (x.opcode() == Opcode::kSlice) {
    const SliceAttributes& slice = x.attributes<SliceAttributes>();
    return Rearranged(x, operand, [&](Index index) {
      for (size_t d = 0; d < index.size(); ++d) {
        index[d] = slice.starts[d] + index[d] * slice.strides[d];
      }
      return index;
    });
  }
  const Dims dims = x.attributes<DimensionsAttributes>().dimensions;
  return Rearranged(x, operand, [&](const Index& index) {
    Index source(sizes.size(), 0);
    for (size_t d = 0; d < source.size(); ++d) {
      switch (x.opcode()) {
        case Opcode::kBroadcast:
          source[d] = sizes[d] == 1 ? 0 : index[static_cast<size_t>(dims[d])];
          break;
        case Opcode::kTranspose:
          source[static_cast<size_t>(dims[d])] = index[d];
          break;
        case Opcode::kReverse:
          source[d] = std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end()
                          ? sizes[d] - 1 - index[d]
                          : index[d];
          break;
        default:
          throw InternalError("not a movement of data");
      }
    }
    return source;
  });
}

}  // namespace gshard::cpu
