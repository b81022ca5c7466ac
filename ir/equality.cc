// Compares attributes by the rows of ir/attribute_table.h, so that no opcode needs code here.
#include "ir/equality.h"

#include <tsl/robin_map.h>

#include <algorithm>

#include "ir/attribute_table.h"

namespace gshard {
namespace {

template <typename T>
const T& Member(const Instruction& instruction, const AttributeRow& row) {
  const char* attributes = static_cast<const char*>(instruction.raw_attributes());
  return *reinterpret_cast<const T*>(attributes + row.offset);
}

template <typename T>
bool SameSpan(std::span<const T> a, std::span<const T> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

bool SamePadding(std::span<const PadDim> a, std::span<const PadDim> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const PadDim& x, const PadDim& y) {
    return x.low == y.low && x.high == y.high && x.interior == y.interior;
  });
}

bool SameWindow(std::span<const WindowDim> a, std::span<const WindowDim> b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(), [](const WindowDim& x, const WindowDim& y) {
        return x.size == y.size && x.stride == y.stride && x.pad_low == y.pad_low &&
               x.pad_high == y.pad_high && x.base_dilation == y.base_dilation &&
               x.window_dilation == y.window_dilation && x.reversal == y.reversal;
      });
}

bool SameLiteral(const Literal* a, const Literal* b) {
  if (a == b) return true;
  if (a == nullptr || b == nullptr || a->elided || b->elided || a->shape != b->shape) return false;
  return SameSpan(a->data, b->data) &&
         std::equal(a->elements.begin(), a->elements.end(), b->elements.begin(), b->elements.end(),
                    SameLiteral);
}

bool SameGroups(const ReplicaGroups* a, const ReplicaGroups* b) {
  return a == b || (a != nullptr && b != nullptr && *a == *b);
}

bool SameValue(const AttributeRow& row, const Instruction& a, const Instruction& b) {
  switch (row.kind) {
    case AttributeKind::kInt:
    case AttributeKind::kDim:
      return Member<int64_t>(a, row) == Member<int64_t>(b, row);
    case AttributeKind::kBool:
      return Member<bool>(a, row) == Member<bool>(b, row);
    case AttributeKind::kDouble:
      return Member<double>(a, row) == Member<double>(b, row);
    case AttributeKind::kEnum:
      return Member<uint8_t>(a, row) == Member<uint8_t>(b, row);
    case AttributeKind::kWord:
    case AttributeKind::kString:
    case AttributeKind::kRaw:
    case AttributeKind::kDimLabels:
      return Member<std::string_view>(a, row) == Member<std::string_view>(b, row);
    case AttributeKind::kDims:
      return SameSpan(Member<Dims>(a, row), Member<Dims>(b, row));
    case AttributeKind::kSlice: {
      const auto& x = a.attributes<SliceAttributes>();
      const auto& y = b.attributes<SliceAttributes>();
      return SameSpan(x.starts, y.starts) && SameSpan(x.limits, y.limits) &&
             SameSpan(x.strides, y.strides);
    }
    case AttributeKind::kPadding:
      return SamePadding(Member<std::span<const PadDim>>(a, row),
                         Member<std::span<const PadDim>>(b, row));
    case AttributeKind::kWindow:
      return SameWindow(Member<std::span<const WindowDim>>(a, row),
                        Member<std::span<const WindowDim>>(b, row));
    case AttributeKind::kPrecision:
      return SameSpan(Member<std::span<const Precision>>(a, row),
                      Member<std::span<const Precision>>(b, row));
    case AttributeKind::kReplicaGroups:
      return SameGroups(Member<const ReplicaGroups*>(a, row), Member<const ReplicaGroups*>(b, row));
    case AttributeKind::kDevicePairs:
      return SameSpan(Member<std::span<const DevicePair>>(a, row),
                      Member<std::span<const DevicePair>>(b, row));
    case AttributeKind::kShape:
      return Member<const Shape*>(a, row) == Member<const Shape*>(b, row);
    case AttributeKind::kShapeList:
      return SameSpan(Member<std::span<const Shape* const>>(a, row),
                      Member<std::span<const Shape* const>>(b, row));
    case AttributeKind::kLiteral:
      return SameLiteral(Member<const Literal*>(a, row), Member<const Literal*>(b, row));
    case AttributeKind::kComputation:
    case AttributeKind::kComputations:
    case AttributeKind::kIgnored:
      return true;  // called computations are compared apart
  }
  return false;
}

// What stands where others have operands.
bool SameInParentheses(const Instruction& a, const Instruction& b) {
  if (a.opcode() == Opcode::kParameter) {
    return a.attributes<ParameterAttributes>().number == b.attributes<ParameterAttributes>().number;
  }
  if (a.opcode() == Opcode::kConstant) {
    return SameLiteral(a.attributes<ConstantAttributes>().literal,
                       b.attributes<ConstantAttributes>().literal);
  }
  return true;
}

}  // namespace

bool SameOperation(const Instruction& a, const Instruction& b) {
  if (&a == &b) return true;
  if (a.opcode() != b.opcode() || a.frontend_attributes() != b.frontend_attributes() ||
      a.backend_config() != b.backend_config()) {
    return false;
  }
  if (!SameInParentheses(a, b)) return false;
  for (const AttributeRow& row : AttributesOf(a.opcode())) {
    if (!SameValue(row, a, b)) return false;
  }
  return std::equal(a.called().begin(), a.called().end(), b.called().begin(), b.called().end(),
                    [](const Computation* x, const Computation* y) {
                      return x == y || SameComputation(*x, *y);
                    });
}

bool SameComputation(const Computation& a, const Computation& b) {
  if (&a == &b) return true;
  if (a.instructions().size() != b.instructions().size() ||
      a.execution_thread() != b.execution_thread()) {
    return false;
  }
  tsl::robin_map<const Instruction*, const Instruction*> in_b;
  for (size_t i = 0; i < a.instructions().size(); ++i) {
    const Instruction& x = *a.instructions()[i];
    const Instruction& y = *b.instructions()[i];
    if (x.shape() != y.shape() || x.sharding() != y.sharding() || !SameOperation(x, y) ||
        !std::equal(
            x.operands().begin(), x.operands().end(), y.operands().begin(), y.operands().end(),
            [&](const Instruction* of_a, const Instruction* of_b) { return in_b[of_a] == of_b; })) {
      return false;
    }
    in_b[&x] = &y;
  }
  return in_b[a.root()] == b.root();
}

}  // namespace gshard
