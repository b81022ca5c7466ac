// See instruction_names.h.

#include "cmd/cli/instruction_names.h"

#include <fmt/format.h>

#include <vector>

#include "ir/metadata.h"
#include "ir/parser_errors.h"

namespace gshard {

const Instruction* FindInstruction(const Module& module, std::string_view name) {
  for (const Computation* computation : module.computations()) {
    for (const Instruction* instruction : computation->instructions()) {
      if (instruction->name() == name) return instruction;
    }
  }
  return nullptr;
}

const Instruction* ValueAfterInlining(const Module& module, const Instruction* x) {
  auto call_of = [&](const Computation* callee) -> const Instruction* {
    for (const Computation* computation : module.computations()) {
      for (const Instruction* call : computation->instructions()) {
        if (call->opcode() == Opcode::kCall && call->called(0) == callee) return call;
      }
    }
    return nullptr;
  };
  while (x != nullptr) {
    if (x->opcode() == Opcode::kCall) {
      x = x->called(0)->root();
      continue;
    }
    const Instruction* call = x->opcode() == Opcode::kParameter ? call_of(x->parent()) : nullptr;
    if (call == nullptr) return x;
    x = call->operand(x->attributes<ParameterAttributes>().number);
  }
  return x;
}

std::string SimilarNames(const Module& module, std::string_view text) {
  constexpr size_t kMost = 8;
  std::vector<std::string_view> by_name, by_source;
  NearestWord nearest(text);
  for (const Computation* computation : module.computations()) {
    for (const Instruction* instruction : computation->instructions()) {
      nearest.Offer(instruction->name());
      if (instruction->name().find(text) != std::string_view::npos) {
        by_name.push_back(instruction->name());
      } else if (by_source.size() < kMost &&
                 (OpNameOf(*instruction).find(text) != std::string::npos ||
                  SourceLineOf(module, *instruction).find(text) != std::string::npos)) {
        by_source.push_back(instruction->name());
      }
      if (by_name.size() == kMost)
        return fmt::format("names like it: {}", fmt::join(by_name, ", "));
    }
  }
  if (!by_name.empty()) return fmt::format("names like it: {}", fmt::join(by_name, ", "));
  if (!by_source.empty()) {
    return fmt::format("op_name or source line has it: {}", fmt::join(by_source, ", "));
  }
  if (!nearest.best().empty()) return nearest.Hint();
  return "gshard-opt print and gshard-opt partition show the names";
}

}  // namespace gshard
