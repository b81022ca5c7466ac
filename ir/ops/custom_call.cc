// Attribute text of the custom_call family (see ir/attribute_table.h).
#include <cstddef>

#include "ir/attribute_table.h"

namespace gshard {
namespace {

using enum AttributeKind;

constexpr std::string_view kPaddingTypes[] = {"PADDING_VALID", "PADDING_SAME"};
constexpr std::string_view kSchedules[] = {"SCHEDULE_LATEST", "SCHEDULE_EARLIEST"};
constexpr std::string_view kApiVersions[] = {
    "API_VERSION_ORIGINAL",
    "API_VERSION_STATUS_RETURNING",
    "API_VERSION_STATUS_RETURNING_UNIFIED",
    "API_VERSION_TYPED_FFI",
};

constexpr AttributeRow kCustomCall[] = {
    Attribute("window", kWindow, offsetof(CustomCallAttributes, window)).Optional(),
    Attribute("dim_labels", kDimLabels, offsetof(CustomCallAttributes, dim_labels)).Optional(),
    Attribute("feature_group_count", kInt, offsetof(CustomCallAttributes, feature_group_count))
        .OmittedIf(1),
    Attribute("batch_group_count", kInt, offsetof(CustomCallAttributes, batch_group_count))
        .OmittedIf(1),
    Attribute("operand_precision", kPrecision, offsetof(CustomCallAttributes, precision))
        .Optional(),
    Attribute("padding_type", kWord, offsetof(CustomCallAttributes, padding_type))
        .Words(kPaddingTypes)
        .Optional(),
    Attribute("custom_call_target", kString, offsetof(CustomCallAttributes, target)),
    Attribute("operand_layout_constraints", kShapeList,
              offsetof(CustomCallAttributes, operand_layout_constraints))
        .Optional(),
    Attribute("custom_call_has_side_effect", kBool, offsetof(CustomCallAttributes, has_side_effect))
        .Optional(),
    Attribute("literal", kLiteral, offsetof(CustomCallAttributes, literal)).Optional(),
    Attribute("output_to_operand_aliasing", kRaw,
              offsetof(CustomCallAttributes, output_to_operand_aliasing))
        .Optional(),
    Attribute("schedule", kWord, offsetof(CustomCallAttributes, schedule))
        .Words(kSchedules)
        .Optional(),
    Attribute("api_version", kWord, offsetof(CustomCallAttributes, api_version))
        .Words(kApiVersions)
        .Optional(),
    Attribute("called_computations", kComputations).Optional(),
    Calls("to_apply").Optional(),
};

}  // namespace

std::span<const OpcodeAttributes> CustomCallRows() {
  static constexpr OpcodeAttributes kTable[] = {
      {Opcode::kCustomCall, kCustomCall},
  };
  return kTable;
}

}  // namespace gshard
