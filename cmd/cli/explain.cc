// See explain.h.

#include "cmd/cli/explain.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cmd/cli/program.h"
#include "core/analysis/meshes.h"
#include "core/explain/collective_causes.h"
#include "core/explain/sharding_history.h"

namespace gshard {
namespace {

const Instruction* FindInstruction(const Module& module, std::string_view name) {
  for (const Computation* computation : module.computations()) {
    for (const Instruction* instruction : computation->instructions()) {
      if (instruction->name() == name) return instruction;
    }
  }
  return nullptr;
}

// Names that hold the one asked for, to choose from.
std::string SimilarNames(const Module& module, std::string_view name) {
  std::vector<std::string_view> similar;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* instruction : computation->instructions()) {
      if (similar.size() < 8 && instruction->name().find(name) != std::string_view::npos) {
        similar.push_back(instruction->name());
      }
    }
  }
  return similar.empty() ? "" : fmt::format("names like it: {}", fmt::join(similar, ", "));
}

}  // namespace

int RunExplain(const ExplainOptions& options, PassContext& context) {
  auto module = ReadModule(options.input);
  if (!module) return ReportError(module.error());
  if (options.num_partitions > 0) (*module)->header().num_partitions = options.num_partitions;
  ExplainRecorder recorder;
  context.recorder = &recorder;
  const Pass* propagation[] = {FindPass("inline-calls"), FindPass("propagate")};
  if (auto done = RunPasses(**module, propagation, context, {}); !done) {
    return ReportError(done.error());
  }
  std::string_view name = options.name;
  if (name.starts_with('%')) name.remove_prefix(1);
  const Instruction* instruction = FindInstruction(**module, name);
  if (instruction == nullptr) {
    return ReportError(MakeError("E-EXPLAIN-001",
                                 fmt::format("no instruction is called '{}'", name),
                                 SimilarNames(**module, name)));
  }
  std::string text =
      options.json ? "" : ShardingHistoryText(recorder, **module, instruction, NamedMesh(**module));
  nlohmann::json document =
      options.json ? ShardingHistoryJson(recorder, **module, instruction) : nlohmann::json();

  const Pass* partition[] = {FindPass("partition")};
  if ((*module)->DeviceCount() > 1) {
    if (auto done = RunPasses(**module, partition, context, {}); !done) {
      return ReportError(done.error());
    }
    std::vector<CausedCollective> collectives = CollectivesBecauseOf(**module, name);
    nlohmann::json list = nlohmann::json::array();
    if (!collectives.empty()) text += "collectives it takes part in:\n";
    for (const CausedCollective& collective : collectives) {
      text += fmt::format("  {} {} {}: {}\n", OpcodeName(collective.instruction->opcode()),
                          collective.instruction->name(),
                          ToString(collective.instruction->shape(), false), collective.cause);
      list.push_back({{"kind", std::string(OpcodeName(collective.instruction->opcode()))},
                      {"name", std::string(collective.instruction->name())},
                      {"shape", ToString(collective.instruction->shape(), false)},
                      {"cause", collective.cause}});
    }
    document["collectives"] = list;
  }
  if (options.json) {
    nlohmann::ordered_json ordered = {{"schema", document["schema"]}};
    ordered.update(nlohmann::ordered_json(document));
    text = ordered.dump(2) + "\n";
  }
  auto written = WriteFile("-", text);
  return written ? kExitOk : ReportError(written.error());
}

}  // namespace gshard
