// Sharding rules as Shardy writes them, for operations that bring their own (custom calls).
#ifndef GSHARD_CORE_OP_DIMS_RULE_TEXT_H_
#define GSHARD_CORE_OP_DIMS_RULE_TEXT_H_

#include <optional>
#include <string_view>

#include "core/op_dims/dim_relation.h"

namespace gshard {

// "#sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=8, j=32, k=16} reduction={k}, custom>", with
// or without its name and angle brackets. Nothing if it is not of that form.
std::optional<DimRelation> ReadRule(std::string_view text);

}  // namespace gshard

#endif  // GSHARD_CORE_OP_DIMS_RULE_TEXT_H_
