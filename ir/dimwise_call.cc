#include "ir/dimwise_call.h"

#include <charconv>

#include "ir/attributes.h"
#include "ir/shape.h"

namespace gshard {

bool IsDimwiseCall(const Instruction& x) {
  return x.opcode() == Opcode::kCustomCall && x.operand_count() == 1 &&
         x.attributes<CustomCallAttributes>().target.starts_with(kDimwiseTarget) &&
         x.shape()->IsArray() && x.operand(0)->shape()->IsArray() &&
         x.shape()->rank() == x.operand(0)->shape()->rank();
}

bool FollowsOperandDim(const Instruction& call, int64_t dim) {
  const std::string_view target = call.attributes<CustomCallAttributes>().target;
  std::string_view rest = target.substr(target.rfind(':') + 1);
  while (!rest.empty()) {
    int64_t other = -1;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), other);
    if (error != std::errc() || other == dim) return false;
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    if (rest.starts_with(',')) rest.remove_prefix(1);
  }
  return true;
}

}  // namespace gshard
