#include "ir/attribute_equality.h"

#include <algorithm>

#include "ir/attribute_table.h"
#include "ir/hash.h"

namespace gshard {
namespace {

template <typename T>
const T& Member(const Instruction& x, const AttributeRow& row) {
  return *reinterpret_cast<const T*>(static_cast<const char*>(x.raw_attributes()) + row.offset);
}

template <typename T, typename Equal>
bool SameSpans(std::span<const T> a, std::span<const T> b, Equal equal) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), equal);
}

bool SameWindowDim(const WindowDim& a, const WindowDim& b) {
  return a.size == b.size && a.stride == b.stride && a.pad_low == b.pad_low &&
         a.pad_high == b.pad_high && a.base_dilation == b.base_dilation &&
         a.window_dilation == b.window_dilation && a.reversal == b.reversal;
}

bool SamePadDim(const PadDim& a, const PadDim& b) {
  return a.low == b.low && a.high == b.high && a.interior == b.interior;
}

// Of two contexts, too.
bool SameTypeAndDims(const Shape* a, const Shape* b) {
  if (!a->IsArray() || !b->IsArray()) return a->kind() == b->kind();
  return a->dtype() == b->dtype() && SameDims(a, b);
}

// Elided literals are equal to themselves only: nobody knows what is in them.
bool SameLiterals(const Literal* a, const Literal* b) {
  if (a == b) return true;
  if (a == nullptr || b == nullptr || a->elided || b->elided) return false;
  return SameTypeAndDims(a->shape, b->shape) &&
         std::equal(a->data.begin(), a->data.end(), b->data.begin(), b->data.end()) &&
         SameSpans(a->elements, b->elements, SameLiterals);
}

bool SameGroups(const ReplicaGroups* a, const ReplicaGroups* b) {
  return a == b || (a != nullptr && b != nullptr && *a == *b);
}

bool SameValue(const Instruction& a, const Instruction& b, const AttributeRow& row) {
  auto same = [&]<typename T>(const T*) { return Member<T>(a, row) == Member<T>(b, row); };
  auto same_span = [&]<typename T>(const T*) {
    return std::ranges::equal(Member<std::span<const T>>(a, row),
                              Member<std::span<const T>>(b, row));
  };
  switch (row.kind) {
    case AttributeKind::kInt:
    case AttributeKind::kDim:
      return row.name == "channel_id" || same(static_cast<const int64_t*>(nullptr));
    case AttributeKind::kBool:
      return same(static_cast<const bool*>(nullptr));
    case AttributeKind::kDouble:
      return same(static_cast<const double*>(nullptr));
    case AttributeKind::kEnum:
      return same(static_cast<const uint8_t*>(nullptr));
    case AttributeKind::kWord:
    case AttributeKind::kString:
    case AttributeKind::kRaw:
    case AttributeKind::kDimLabels:
      return same(static_cast<const std::string_view*>(nullptr));
    case AttributeKind::kDims:
      return same_span(static_cast<const int64_t*>(nullptr));
    case AttributeKind::kPrecision:
      return same_span(static_cast<const Precision*>(nullptr));
    case AttributeKind::kDevicePairs:
      return same_span(static_cast<const DevicePair*>(nullptr));
    case AttributeKind::kShapeList:
      return same_span(static_cast<const Shape* const*>(nullptr));
    case AttributeKind::kShape:
      return same(static_cast<const Shape* const*>(nullptr));
    case AttributeKind::kSlice: {
      const auto& p = a.attributes<SliceAttributes>();
      const auto& q = b.attributes<SliceAttributes>();
      return std::ranges::equal(p.starts, q.starts) && std::ranges::equal(p.limits, q.limits) &&
             std::ranges::equal(p.strides, q.strides);
    }
    case AttributeKind::kPadding:
      return SameSpans(Member<std::span<const PadDim>>(a, row),
                       Member<std::span<const PadDim>>(b, row), SamePadDim);
    case AttributeKind::kWindow:
      return SameSpans(Member<std::span<const WindowDim>>(a, row),
                       Member<std::span<const WindowDim>>(b, row), SameWindowDim);
    case AttributeKind::kReplicaGroups:
      return SameGroups(Member<const ReplicaGroups*>(a, row), Member<const ReplicaGroups*>(b, row));
    case AttributeKind::kLiteral:
      return SameLiterals(Member<const Literal*>(a, row), Member<const Literal*>(b, row));
    case AttributeKind::kComputation:
    case AttributeKind::kComputations:
    case AttributeKind::kIgnored:
      return true;
  }
  return false;
}

}  // namespace

bool SameAttributes(const Instruction& a, const Instruction& b) {
  if (a.opcode() != b.opcode()) return false;
  if (a.raw_attributes() == b.raw_attributes()) return true;
  // Written between the parentheses, not as attributes.
  if (a.opcode() == Opcode::kConstant) {
    return SameLiterals(a.attributes<ConstantAttributes>().literal,
                        b.attributes<ConstantAttributes>().literal);
  }
  if (a.opcode() == Opcode::kParameter) {
    return a.attributes<ParameterAttributes>().number == b.attributes<ParameterAttributes>().number;
  }
  return std::ranges::all_of(AttributesOf(a.opcode()),
                             [&](const AttributeRow& row) { return SameValue(a, b, row); });
}

size_t HashOfAttributes(const Instruction& instruction) {
  size_t hash = static_cast<size_t>(instruction.opcode());
  if (instruction.opcode() == Opcode::kConstant) {
    const Literal* literal = instruction.attributes<ConstantAttributes>().literal;
    constexpr size_t kPrefix = 64;
    std::span<const std::byte> data = literal->data;
    return HashSpan(hash, data.first(std::min(kPrefix, data.size())));
  }
  for (const AttributeRow& row : AttributesOf(instruction.opcode())) {
    switch (row.kind) {
      case AttributeKind::kInt:
      case AttributeKind::kDim:
        if (row.name == "channel_id") break;
        hash = HashCombine(hash, static_cast<uint64_t>(Member<int64_t>(instruction, row)));
        break;
      case AttributeKind::kEnum:
        hash = HashCombine(hash, Member<uint8_t>(instruction, row));
        break;
      case AttributeKind::kDims:
        hash = HashSpan(hash, Member<Dims>(instruction, row));
        break;
      case AttributeKind::kSlice: {
        const auto& slice = instruction.attributes<SliceAttributes>();
        hash = HashSpan(HashSpan(hash, slice.starts), slice.limits);
        break;
      }
      default:
        break;
    }
  }
  return hash;
}

}  // namespace gshard
