#include "core/check/ragged_sizes.h"

#include <fmt/format.h>

#include "ir/computation.h"

namespace gshard {
namespace {

// Operands that tell rows: how many are sent to each member, and how many are expected of each.
constexpr size_t kSent = 3, kExpected = 5;

}  // namespace

std::optional<CommunicationFinding> CompareRaggedSizes(
    const Instruction& x, const ResolvedGroups& groups,
    std::span<const DeviceLeaves* const> operands) {
  const DeviceValue& sent = (*operands[kSent])[0];
  const DeviceValue& expected = (*operands[kExpected])[0];
  if (!sent.IsKnown() || !expected.IsKnown()) return std::nullopt;
  const int64_t count = x.operand(kSent)->shape()->element_count();
  for (size_t g = 0; g < groups.group_count(); ++g) {
    const auto members = groups.group(g);
    if (static_cast<int64_t>(members.size()) != count) continue;
    for (size_t to = 0; to < members.size(); ++to) {
      for (size_t from = 0; from < members.size(); ++from) {
        const auto of = static_cast<int64_t>(from), at = static_cast<int64_t>(to);
        const int64_t rows = sent.ElementOn(members[from], at, count);
        const int64_t wanted = expected.ElementOn(members[to], of, count);
        if (rows == wanted) continue;
        Diagnostic error = x.parent()->module().ErrorAt(
            &x, "E-RUN-RANGE",
            fmt::format("a ragged-all-to-all sends {} rows from member {} of the group to device "
                        "{}, which expects {}",
                        rows, from, members[to], wanted));
        error.hint = "the sizes that a device expects are those that the others send it";
        return CommunicationFinding{std::move(error), &x, {members[from], members[to]}};
      }
    }
  }
  return std::nullopt;
}

}  // namespace gshard
