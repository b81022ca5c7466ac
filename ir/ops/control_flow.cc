// Attribute text of the control_flow family (see ir/attribute_table.h).
#include <cstddef>

#include "ir/attribute_table.h"

namespace gshard {
namespace {

using enum AttributeKind;

constexpr std::string_view kFusionKinds[] = {"kLoop", "kInput", "kOutput", "kCustom"};

constexpr AttributeRow kWhile[] = {
    Calls("condition", 0),
    Calls("body", 1),
};
// Either the first two or the last, by the type of operand 0.
constexpr AttributeRow kConditional[] = {
    Calls("true_computation", 0).Optional(),
    Calls("false_computation", 1).Optional(),
    Attribute("branch_computations", kComputations).Optional(),
};
constexpr AttributeRow kCall[] = {
    Calls("to_apply"),
    Attribute("is_composite", kBool, offsetof(CallAttributes, is_composite)).Optional(),
};
constexpr AttributeRow kFusion[] = {
    Attribute("kind", kWord, offsetof(FusionAttributes, kind)).Words(kFusionKinds),
    Attribute("output_to_operand_aliasing", kRaw,
              offsetof(FusionAttributes, output_to_operand_aliasing))
        .Optional(),
    Calls("calls"),
};
constexpr AttributeRow kAsyncStart[] = {
    Attribute("async_execution_thread", kString, offsetof(AsyncAttributes, execution_thread))
        .Optional(),
    Attribute("output_to_operand_aliasing", kRaw,
              offsetof(AsyncAttributes, output_to_operand_aliasing))
        .Optional(),
    Calls("calls"),
};
// Older dumps repeat what the start has.
constexpr AttributeRow kAsyncUpdate[] = {
    Attribute("async_execution_thread", kIgnored).Optional(),
    // That the state of the start stays where it is follows from what an update is.
    Attribute("output_to_operand_aliasing", kIgnored).Optional(),
    Attribute("calls", kIgnored).Optional(),
};
constexpr AttributeRow kAsyncDone[] = {
    Attribute("async_execution_thread", kIgnored).Optional(),
    Attribute("calls", kIgnored).Optional(),
};

}  // namespace

std::span<const OpcodeAttributes> ControlFlowRows() {
  static constexpr OpcodeAttributes kTable[] = {
      {Opcode::kWhile, kWhile},
      {Opcode::kConditional, kConditional},
      {Opcode::kCall, kCall},
      {Opcode::kFusion, kFusion},
      {Opcode::kAsyncStart, kAsyncStart},
      {Opcode::kAsyncUpdate, kAsyncUpdate},
      {Opcode::kAsyncDone, kAsyncDone},
  };
  return kTable;
}

}  // namespace gshard
