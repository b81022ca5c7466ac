// See instruction_names.h.

#include "core/transforms/annotations/instruction_names.h"

#include <re2/re2.h>

#include <optional>
#include <string_view>
#include <unordered_map>

#include "core/analysis/parameter_pattern.h"
#include "ir/dims.h"
#include "ir/metadata.h"

namespace gshard {

InstructionNames::InstructionNames(const Module& module) {
  std::unordered_map<std::string_view, int32_t> known;  // by metadata
  for (Computation* computation : module.computations()) {
    for (Instruction* x : computation->instructions()) {
      Entry entry;
      entry.instruction = x;
      if (!x->metadata().empty()) {
        const auto next = static_cast<int32_t>(op_names_.size());
        const auto [found, is_new] = known.try_emplace(x->metadata(), next);
        if (is_new) op_names_.push_back(OpNameOf(*x));
        entry.op_name = found->second;
      }
      if (computation == module.entry() && x->opcode() == Opcode::kParameter) {
        entry.parameter = x->attributes<ParameterAttributes>().number;
      }
      entries_.push_back(std::move(entry));
    }
  }
}

Expected<std::vector<Instruction*>> InstructionNames::Matching(const std::string& pattern) const {
  RE2::Options quiet;
  quiet.set_log_errors(false);
  const RE2 compiled(pattern, quiet);
  if (!compiled.ok()) {
    return Fail(MakeError("E-ANNOTATE-002", "bad regular expression: " + compiled.error()));
  }
  const ParameterPattern of_parameter(pattern);
  std::vector<std::optional<bool>> op_name_matches(op_names_.size());
  std::vector<Instruction*> matches;
  for (const Entry& entry : entries_) {
    const std::string_view name = entry.instruction->name();
    bool is_match = RE2::PartialMatch({name.data(), name.size()}, compiled);
    if (!is_match && entry.op_name >= 0) {
      std::optional<bool>& known = op_name_matches[At(entry.op_name)];
      if (!known) known = RE2::PartialMatch(op_names_[At(entry.op_name)], compiled);
      is_match = *known;
    }
    if (!is_match && entry.parameter >= 0) is_match = of_parameter.Finds(entry.parameter);
    if (is_match) matches.push_back(entry.instruction);
  }
  return matches;
}

}  // namespace gshard
