// See rule_summary.h.
#include "core/propagation/rule_summary.h"

#include "core/propagation/rules.h"

namespace gshard {

const char* PropagationSummary(Opcode opcode) {
  const Rule& rule = RuleOf(opcode);
  bool forward = rule.forward != nullptr && rule.forward != NothingForward;
  bool backward = rule.backward != nullptr && rule.backward != NothingBackward;
  if (forward && backward) return "both";
  if (forward) return "forward";
  if (backward) return "backward";
  return rule.supported == Never ? "-" : "receives";
}

bool TakesShardings(Opcode opcode) { return RuleOf(opcode).supported != Never; }

}  // namespace gshard
