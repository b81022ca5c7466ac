// See op_name_group.h.

#include "core/cost/op_name_group.h"

#include <re2/re2.h>

#include <algorithm>

#include "ir/metadata.h"

namespace gshard {

struct OpNameGroup::Pattern {
  RE2 expression;
};

OpNameGroup::OpNameGroup(std::unique_ptr<Pattern> pattern) : pattern_(std::move(pattern)) {}
OpNameGroup::OpNameGroup(OpNameGroup&& other) noexcept = default;
OpNameGroup::~OpNameGroup() = default;

Expected<OpNameGroup> OpNameGroup::Parse(const std::string& pattern) {
  std::unique_ptr<Pattern> parsed(new Pattern{RE2(pattern, RE2::Quiet)});
  if (!parsed->expression.ok()) {
    return Fail(MakeError("E-COST-004", "--group-by: " + parsed->expression.error()));
  }
  return OpNameGroup(std::move(parsed));
}

std::string OpNameGroup::Of(const Instruction& instruction) const {
  const std::string name = OpNameOf(instruction);
  const RE2& expression = pattern_->expression;
  re2::StringPiece match[2];
  const int captures = std::min(1, expression.NumberOfCapturingGroups());
  if (!expression.Match(name, 0, name.size(), RE2::UNANCHORED, match, captures + 1)) return "";
  return std::string(match[captures]);
}

}  // namespace gshard
