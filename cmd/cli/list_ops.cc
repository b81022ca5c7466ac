// The matrix opcode x layer. See list_ops.h.

#include "cmd/cli/list_ops.h"

#include <fmt/format.h>

#include "backends/cpu/opcode_support.h"
#include "cmd/cli/program.h"
#include "core/autodiff/rules.h"
#include "core/json.h"
#include "core/partition/rule_table.h"
#include "core/propagation/rule_summary.h"
#include "ir/opcode.h"

namespace gshard {
namespace {

// "rule", or "whole": operands are made whole and every device computes all of it.
const char* PartitionOf(Opcode opcode) { return RuleFor(opcode).is_default ? "whole" : "rule"; }

}  // namespace

int RunListOps(bool json) {
  Json rows = Json::Array();
  if (!json) {
    fmt::print("{:<28}{:<16}{:<11}{:<11}{:<6}{}\n", "opcode", "family", "propagate", "partition",
               "grad", "run");
  }
  for (int i = 0; i < kOpcodeCount; ++i) {
    Opcode opcode = static_cast<Opcode>(i);
    const OpcodeInfo& info = InfoOf(opcode);
    if (json) {
      rows.Append({{"opcode", info.text},
                   {"family", info.family},
                   {"propagate", PropagationSummary(opcode)},
                   {"partition", PartitionOf(opcode)},
                   {"grad", TextOf(GradRuleFor(opcode).kind)},
                   {"run", cpu::TextOf(cpu::SupportOf(opcode))}});
    } else {
      fmt::print("{:<28}{:<16}{:<11}{:<11}{:<6}{}\n", info.text, info.family,
                 PropagationSummary(opcode), PartitionOf(opcode),
                 TextOf(GradRuleFor(opcode).kind), cpu::TextOf(cpu::SupportOf(opcode)));
    }
  }
  if (json) {
    const Json document = {{"schema", "gshard.list_ops/1"}, {"ops", std::move(rows)}};
    fmt::print("{}", document.Text());
  }
  return kExitOk;
}

}  // namespace gshard
