// The text of every opcode's attributes as data: one table drives both the parser and the printer.
//
// A row says how an attribute is called, how its value looks, which member of the opcode's struct
// (ir/attributes.h) holds it, whether it must be written, and when it is printed. Rows stand in
// printing order; each family's rows are in ir/ops/<family>.cc. Attributes that every instruction
// may have (sharding, metadata, ..) are not here.
#ifndef GSHARD_IR_ATTRIBUTE_TABLE_H_
#define GSHARD_IR_ATTRIBUTE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "ir/attributes.h"
#include "ir/opcode.h"

namespace gshard {

// How a value is written, and the member's type.
enum class AttributeKind : uint8_t {
  kInt,            // 3                            int64_t
  kBool,           // true                         bool
  kDouble,         // 1e-05                        double
  kEnum,           // LT, one of `words`           an enum of one byte
  kWord,           // kLoop, one of `words`        std::string_view
  kString,         // "text"                       std::string_view without quotes
  kRaw,            // {..}, "..", word or number   std::string_view, verbatim
  kDims,           // {0,2}                        Dims
  kDim,            // {1}                          int64_t
  kSlice,          // {[0:4], [1:9:2]}             SliceAttributes
  kPadding,        // 0_1x2_3_1                    std::span<const PadDim>
  kWindow,         // {size=3x3 pad=0_1x1_0}       std::span<const WindowDim>
  kDimLabels,      // b01f_01io->b01f              std::string_view
  kPrecision,      // {high,default}               std::span<const Precision>
  kReplicaGroups,  // any of its forms             const ReplicaGroups*
  kDevicePairs,    // {{0,1},{1,0}}                std::span<const DevicePair>
  kShape,          // f32[2]{0}                    const Shape*
  kShapeList,      // {f32[2]{0}, s32[]}           std::span<const Shape* const>
  kLiteral,        // f32[2]{0} {1, 2}             const Literal*
  kComputation,    // %f or {..inline..}           Instruction::called()[0 or 1]
  kComputations,   // {%f, %g}                     Instruction::called()
  kIgnored,        // read, dropped
};

struct AttributeRow {
  std::string_view name;
  AttributeKind kind = AttributeKind::kRaw;
  uint16_t offset = 0;  // of the member; of a computation: its index in called()
  bool required = false;
  bool always_printed = false;
  bool read_only = false;  // another spelling of a member that another row prints
  // The value that is not printed: of integers and booleans. Other kinds: when empty.
  int64_t omitted = 0;
  std::span<const std::string_view> words;

  // Builders, for the tables.
  constexpr AttributeRow Optional() const {
    AttributeRow row = *this;
    row.required = row.always_printed = false;
    return row;
  }
  constexpr AttributeRow OmittedIf(int64_t value) const {
    AttributeRow row = Optional();
    row.omitted = value;
    return row;
  }
  constexpr AttributeRow AlwaysPrinted() const {
    AttributeRow row = Optional();
    row.always_printed = true;
    return row;
  }
  constexpr AttributeRow ReadOnly() const {
    AttributeRow row = Optional();
    row.read_only = true;
    return row;
  }
  constexpr AttributeRow Words(std::span<const std::string_view> allowed) const {
    AttributeRow row = *this;
    row.words = allowed;
    return row;
  }
};

// A required attribute. `offset`: offsetof(Struct, member).
constexpr AttributeRow Attribute(std::string_view name, AttributeKind kind, size_t offset = 0) {
  AttributeRow row;
  row.name = name;
  row.kind = kind;
  row.offset = static_cast<uint16_t>(offset);
  row.required = row.always_printed = true;
  return row;
}

// Called computations in the order of Instruction::called().
constexpr AttributeRow Calls(std::string_view name, size_t index = 0) {
  return Attribute(name, AttributeKind::kComputation, index);
}

// Of enum Precision, in its order.
inline constexpr std::string_view kPrecisionWords[] = {"default", "high", "highest",
                                                       "packed_nibble"};

struct OpcodeAttributes {
  Opcode opcode;
  std::span<const AttributeRow> rows;
};

// Rows of an opcode, at most 32; empty if it has none of its own.
std::span<const AttributeRow> AttributesOf(Opcode opcode);

// One function a family, in ir/ops/<family>.cc.
std::span<const OpcodeAttributes> ElementwiseRows();
std::span<const OpcodeAttributes> BroadcastRows();
std::span<const OpcodeAttributes> ReshapeRows();
std::span<const OpcodeAttributes> TransposeRows();
std::span<const OpcodeAttributes> SliceRows();
std::span<const OpcodeAttributes> DotRows();
std::span<const OpcodeAttributes> ConvolutionRows();
std::span<const OpcodeAttributes> ReduceRows();
std::span<const OpcodeAttributes> ReduceWindowRows();
std::span<const OpcodeAttributes> GatherScatterRows();
std::span<const OpcodeAttributes> SortRows();
std::span<const OpcodeAttributes> IotaConstantRows();
std::span<const OpcodeAttributes> RngRows();
std::span<const OpcodeAttributes> LinalgRows();
std::span<const OpcodeAttributes> FftRows();
std::span<const OpcodeAttributes> ControlFlowRows();
std::span<const OpcodeAttributes> TupleRows();
std::span<const OpcodeAttributes> CollectivesRows();
std::span<const OpcodeAttributes> CustomCallRows();

}  // namespace gshard

#endif  // GSHARD_IR_ATTRIBUTE_TABLE_H_
