// Parts of the verifier that look at one thing each. Private to ir/. All return nothing if fine.
#ifndef GSHARD_IR_VERIFY_CHECKS_H_
#define GSHARD_IR_VERIFY_CHECKS_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ir/module.h"

namespace gshard {

// E-VERIFY-006: groups are disjoint and cover the devices, sizes fit the shapes, channel rules.
std::optional<std::string> CheckCollective(const Module& module, const Instruction& instruction);

// E-VERIFY-007: the -done of a pair takes its -start, channels agree, async chains are whole.
std::optional<std::string> CheckAsyncPair(const Instruction& instruction);

// E-VERIFY-009: layouts, aliases, donors and propagation flags fit the entry computation.
std::optional<std::string> CheckHeader(const Module& module);

// E-VERIFY-010: "{op_name="x" source_line=3 ..}", separated by spaces or commas.
std::optional<std::string> CheckMetadataText(std::string_view text);
// E-VERIFY-010: "{key="value",key2={..}}".
std::optional<std::string> CheckFrontendAttributesText(std::string_view text);

// E-VERIFY-003: output_to_operand_aliasing={{0}: (1, {}), ..} names existing parts of one shape.
std::optional<std::string> CheckAliasing(const Instruction& instruction, std::string_view text);

}  // namespace gshard

#endif  // GSHARD_IR_VERIFY_CHECKS_H_
