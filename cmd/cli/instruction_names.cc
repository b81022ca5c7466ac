// See instruction_names.h.

#include "cmd/cli/instruction_names.h"

#include <fmt/format.h>

#include <vector>

#include "ir/metadata.h"
#include "ir/parser_errors.h"
#include "ir/source_lines.h"

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

namespace {

constexpr size_t kMaxSimilar = 8;

// Instructions that hold the text: in their names, else in their op_names or source lines. No more
// than a hint shows.
struct Similar {
  std::vector<const Instruction*> by_name, by_source;
};

Similar SimilarTo(const Module& module, std::string_view text) {
  Similar similar;
  const SourceLines lines(module);
  for (const Computation* computation : module.computations()) {
    for (const Instruction* instruction : computation->instructions()) {
      if (instruction->name().find(text) != std::string_view::npos) {
        similar.by_name.push_back(instruction);
        if (similar.by_name.size() == kMaxSimilar) return similar;
      } else if (similar.by_source.size() < kMaxSimilar &&
                 (OpNameOf(*instruction).find(text) != std::string::npos ||
                  lines.TextOf(*instruction).find(text) != std::string::npos)) {
        similar.by_source.push_back(instruction);
      }
    }
  }
  return similar;
}

std::string Names(const std::vector<const Instruction*>& instructions) {
  std::string names;
  for (const Instruction* x : instructions) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", x->name());
  }
  return names;
}

}  // namespace

const Instruction* OnlyWithOpName(const Module& module, std::string_view op_name) {
  const Instruction* only = nullptr;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (OpNameOf(*x) != op_name) continue;
      if (only != nullptr) return nullptr;
      only = x;
    }
  }
  return only;
}

const Instruction* OnlySimilar(const Module& module, std::string_view text) {
  if (text.empty()) return nullptr;
  if (const Instruction* only = OnlyWithOpName(module, text)) return only;
  const Similar similar = SimilarTo(module, text);
  const auto& matches = similar.by_name.empty() ? similar.by_source : similar.by_name;
  return matches.size() == 1 ? matches[0] : nullptr;
}

std::string SimilarNames(const Module& module, std::string_view text) {
  const Similar similar = SimilarTo(module, text);
  if (!similar.by_name.empty()) return "names like it: " + Names(similar.by_name);
  if (!similar.by_source.empty()) {
    return "op_name or source line has it: " + Names(similar.by_source);
  }
  NearestWord nearest(text);
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) nearest.Offer(x->name());
  }
  if (!nearest.best().empty()) return nearest.Hint();
  return "gshard-opt print and gshard-opt partition show the names";
}

}  // namespace gshard
