// See explain.h.

#include "cmd/cli/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "cmd/cli/explain_source.h"
#include "cmd/cli/instruction_names.h"
#include "cmd/cli/program.h"
#include "core/analysis/axis_text.h"
#include "core/analysis/meshes.h"
#include "core/analysis/partitioned.h"
#include "core/autoshard/value_options.h"
#include "core/json.h"
#include "core/report/collective_causes.h"
#include "core/report/pipeline_place.h"
#include "core/report/sharding_history.h"
#include "core/spmd/per_device_module.h"
#include "ir/device_subsets.h"
#include "ir/metadata.h"
#include "ir/source_lines.h"

namespace gshard {
namespace {

std::string ConflictText(const PropagationFindings& findings, const Instruction* x, Module& module,
                         const Mesh* mesh) {
  std::string text;
  for (const PropagationFindings::Conflict& conflict : findings.conflicts) {
    if (conflict.annotated != x) continue;
    text += fmt::format("  its {} '{}' wants {}: data moves there\n",
                        conflict.neighbour_is_user ? "user" : "operand", conflict.neighbour->name(),
                        AxisText(module.context(), conflict.wanted, mesh));
  }
  return text;
}

// Where the partitioner makes a value, if that is not where its sharding says; `says`: that
// sharding.
void TellPlacement(std::span<const LocalForm> forms, std::string_view name, const Sharding* says,
                   Module& module, Json& document, std::string& text) {
  const auto form = std::ranges::find(forms, name, &LocalForm::name);
  if (form == forms.end() || says == nullptr || form->sharding == says) return;
  const Mesh* mesh = NamedMesh(module);
  const std::string made = AxisText(module.context(), form->sharding, mesh);
  const std::string said = AxisText(module.context(), says, mesh);
  if (made == said) return;
  text += fmt::format(
      "the partitioner makes {} as {}, which is not its sharding: that costs less, and nobody "
      "needs it as {}; XLA's would (--as-xla)\n",
      name, made, said);
  document.Set("made_as", made);
}

Json HistoriesOf(std::span<const Instruction* const> values, const ExplainRecorder& recorder,
                 const Module& module) {
  Json histories = Json::Array();
  for (const Instruction* value : values) {
    Json history;
    AddShardingHistory(history, recorder, module, value);
    histories.Append(std::move(history));
  }
  return histories;
}

Diagnostic NoSuchName(std::string_view name, std::string similar) {
  return MakeError("E-EXPLAIN-001", fmt::format("no instruction is called '{}'", name),
                   std::move(similar));
}

Json ToJson(const CausedCollective& collective) {
  Json json = {{"kind", OpcodeName(collective.instruction->opcode())},
               {"name", collective.instruction->name()},
               {"shape", ToString(collective.instruction->shape(), false)},
               {"cause", collective.cause}};
  if (collective.value != nullptr) json.Set("value", collective.value->name());
  if (collective.user != nullptr) json.Set("user", collective.user->name());
  return json;
}

Json ToJson(const std::vector<CausedCollective>& collectives) {
  Json list = Json::Array();
  for (const CausedCollective& collective : collectives) list.Append(ToJson(collective));
  return list;
}

std::string ToText(const CausedCollective& collective) {
  return fmt::format("{} {} {}: {}\n", OpcodeName(collective.instruction->opcode()),
                     collective.instruction->name(),
                     ToString(collective.instruction->shape(), false),
                     collective.cause.empty() ? "no cause is recorded" : collective.cause);
}

// Of the instruction called `name`, if there is one, and the collectives about it.
std::string ToText(const std::vector<CausedCollective>& collectives, std::string_view name) {
  if (collectives.size() == 1 && collectives[0].instruction->name() == name)
    return ToText(collectives[0]);
  std::string text = collectives.empty() ? "" : "collectives it takes part in:\n";
  for (const CausedCollective& collective : collectives) text += "  " + ToText(collective);
  return text;
}

int Print(const std::string& text) {
  auto written = WriteFile("-", text);
  return written ? kExitOk : ReportError(written.error());
}

// The program of one device has causes of collectives, in words, but no shardings any more.
int ExplainDeviceProgram(const ExplainOptions& options, const Module& module,
                         std::string_view name) {
  const Instruction* instruction = FindInstruction(module, name);
  std::vector<CausedCollective> collectives = CollectivesBecauseOf(module, nullptr, name);
  if (instruction == nullptr && collectives.empty()) {
    return RefuseToExplain(options, NoSuchName(name, SimilarNames(module, name)));
  }
  if (options.json) {
    const Json document = {{"schema", kExplainSchema},
                           {"instruction", name},
                           {"leaves", Json::Array()},
                           {"collectives", ToJson(collectives)}};
    return Print(document.Text());
  }
  std::string text;
  if (instruction != nullptr && !IsCollective(instruction->opcode())) {
    text = fmt::format("{} = {} {}, of the program of one device\n", name,
                       ToString(instruction->shape(), false), OpcodeName(instruction->opcode()));
  }
  text += ToText(collectives, name);
  text += "where shardings come from: explain the text that was partitioned\n";
  return Print(text);
}

// The value a collective moves and the instruction that needs it, each once.
std::vector<const Instruction*> EndsOf(const CausedCollective& collective) {
  std::vector<const Instruction*> ends;
  if (collective.value != nullptr) ends.push_back(collective.value);
  if (collective.user != nullptr && collective.user != collective.value) {
    ends.push_back(collective.user);
  }
  return ends;
}

// Of an instruction of the program that was pipelined, which this one computes in passes: where its
// copies belong.
int ExplainCopies(const ExplainOptions& options, const Module& module, std::string_view name,
                  const std::vector<const Instruction*>& copies) {
  std::string text = fmt::format("{} is computed in passes, as {} cop{}:\n", name, copies.size(),
                                 copies.size() == 1 ? "y" : "ies");
  Json places = Json::Array();
  for (const Instruction* copy : copies) {
    const auto place = PlaceInPipeline(module, copy);
    if (!place) continue;
    text += ToText(*place, copy);
    Json one = ToJson(*place);
    one.Set("name", copy->name());
    places.Append(std::move(one));
  }
  const Json document = {{"schema", kExplainSchema},
                         {"instruction", name},
                         {"leaves", Json::Array()},
                         {"copies", std::move(places)},
                         {"collectives", Json::Array()}};
  return Print(options.json ? document.Text() : text);
}

// The instruction of the text that one made by passes (inlining gives copies new names) stands for.
const Instruction* WrittenAt(const Module& module, const SourceRange& source) {
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      const SourceRange& own = x->source();
      if (!own.empty() && own.begin == source.begin && own.end == source.end) return x;
    }
  }
  return nullptr;
}

// The instruction of that name, else the only one with that op_name: then `name` becomes its name,
// which `text` tells. Null: neither.
const Instruction* NamedOrWithOpName(const Module& module, std::string_view& name,
                                     std::string& text) {
  if (const Instruction* named = FindInstruction(module, name)) return named;
  const Instruction* only = OnlyWithOpName(module, name);
  if (only == nullptr) return nullptr;
  text += fmt::format("'{}' is the op_name of {}\n", name, only->name());
  name = only->name();
  return only;
}

// Where a copy that inlining has made of a pipelined program's instruction belongs.
std::string PlaceOfInlined(const ExplainOptions& options, const Instruction* copy, Json& document) {
  auto module = ReadModule(options.input, options.num_partitions);
  if (!module) return "";
  const Instruction* written = WrittenAt(**module, copy->source());
  const auto place = written == nullptr ? std::nullopt : PlaceInPipeline(**module, written);
  if (!place) return "";
  document.Set("pipeline", ToJson(*place));
  return fmt::format("{} is '{}' of the text, inlined\n", copy->name(), written->name()) +
         ToText(*place, written);
}

// Whose rules inferred the shardings.
void TellPropagation(PropagationMode mode, Json& document, std::string& text) {
  document.Set("propagation", ModeName(mode));
  if (mode != PropagationMode::kShardy) return;
  text += "propagated by Shardy's rules (docs/propagation.md, section 11)\n";
}

// What automatic sharding could do with a value.
int ExplainPlan(const ExplainOptions& options, std::unique_ptr<Module> module,
                std::string_view name) {
  const AutoFlags& flags = options.automatic;
  Expected<Chip> chip = ReadChip(flags.estimate.chip);
  if (!chip) return RefuseToExplain(options, chip.error());
  autoshard::AutoOptions search = AutoOptionsOf(flags, *std::move(chip));
  if (search.mesh.empty()) {
    const Mesh* mesh = NamedMesh(*module);
    if (mesh == nullptr) throw FlagError("--mesh", "the text names no mesh");
    search.mesh = mesh->axes;
  }
  std::string text;
  const Instruction* asked = NamedOrWithOpName(*module, name, text);
  if (asked == nullptr) {
    return RefuseToExplain(options, NoSuchName(name, SimilarNames(*module, name)));
  }
  const std::string value(ValueAfterInlining(*module, asked)->name());
  auto choices = autoshard::OptionsOfValue(std::move(module), options.input, value, search);
  if (!choices) return RefuseToExplain(options, choices.error());
  if (choices->value != value) {
    text += fmt::format("no plan annotates {}, it follows {}\n", value, choices->value);
  }
  const Json document = {{"schema", kExplainSchema},
                         {"instruction", value},
                         {"leaves", Json::Array()},
                         {"collectives", Json::Array()},
                         {"plan", autoshard::OptionsAsJson(*choices)}};
  return Print(options.json ? document.Text() : text + autoshard::OptionsAsText(*choices));
}

}  // namespace

int RefuseToExplain(const ExplainOptions& options, const Diagnostic& error) {
  if (options.json) PrintErrorJson(error, kExplainSchema);
  return ReportError(error);
}

int RunExplain(const ExplainOptions& options, PassContext& context) {
  auto module = ReadModule(options.input, options.num_partitions);
  if (!module) return RefuseToExplain(options, module.error());
  std::string_view name = options.name;
  if (name.starts_with('%')) name.remove_prefix(1);
  if (options.plan) return ExplainPlan(options, std::move(*module), name);
  if (const SourceLine line = ParseSourceLine(name); line.line > 0) {
    return ExplainSourceLine(options, line, **module, context);
  }
  if (IsPartitioned(**module)) return ExplainDeviceProgram(options, **module, name);
  std::string text;
  Json document = {{"schema", kExplainSchema}};
  if (const Instruction* written = FindInstruction(**module, name)) {
    if (const auto place = PlaceInPipeline(**module, written)) {
      text += ToText(*place, written);
      document.Set("pipeline", ToJson(*place));
    }
    const Instruction* value = ValueAfterInlining(**module, written);
    if (value != written) {
      text += fmt::format("{} is inlined, its value is {}\n", name, value->name());
      name = value->name();
    }
  } else if (const auto copies = CopiesInPasses(**module, name); !copies.empty()) {
    return ExplainCopies(options, **module, name, copies);
  }
  const bool is_named = !text.empty();
  ExplainRecorder recorder;
  PropagationFindings findings;
  context.recorder = &recorder;
  context.propagation.findings = &findings;
  auto devices = ReadDevices(**module, options.num_partitions);
  if (!devices) return RefuseToExplain(options, devices.error());
  const Instruction* instruction = nullptr;
  const Mesh* mesh = nullptr;
  const Sharding* says = nullptr;
  std::vector<LocalForm> forms;
  context.partition.local_forms = &forms;
  std::string similar;
  PerDeviceOptions way;
  way.num_partitions = options.num_partitions;
  way.after_propagation = [&](Module& propagated) {
    instruction = NamedOrWithOpName(propagated, name, text);
    if (instruction == nullptr) similar = SimilarNames(propagated, name);
    mesh = NamedMesh(propagated);
    if (instruction != nullptr) {
      says = instruction->sharding();
      if (!is_named && IsPipelined(propagated)) {
        text += PlaceOfInlined(options, instruction, document);
      }
      text += ShardingHistoryText(recorder, propagated, std::array{instruction}, mesh);
      text += ConflictText(findings, instruction, propagated, mesh);
      AddShardingHistory(document, recorder, propagated, instruction);
    }
    return Expected<void>();
  };
  // Over some of the devices there is no program of one device, and no collective.
  const bool partitions = devices->partitions > 1 && !HasDeviceSubsets(**module);
  auto made = partitions ? MakePerDeviceModule(**module, context, way)
                         : CompleteShardings(**module, context, way);
  if (!made) return RefuseToExplain(options, made.error());
  std::vector<CausedCollective> collectives;
  if (partitions) collectives = CollectivesBecauseOf(**module, &recorder, name);
  if (partitions) TellPlacement(forms, name, says, **module, document, text);
  TellPropagation(context.propagated_as, document, text);
  document.Set("collectives", ToJson(collectives));
  text += ToText(collectives, name);
  if (instruction == nullptr) {
    if (collectives.size() != 1 || collectives[0].instruction->name() != name) {
      return RefuseToExplain(options, NoSuchName(name, std::move(similar)));
    }
    // A collective of the partitioned program: why its value and its user are sharded as they are.
    std::vector<const Instruction*> ends = EndsOf(collectives[0]);
    text += ShardingHistoryText(recorder, **module, ends, mesh);
    document.Set("instruction", name);
    document.Set("because_of", HistoriesOf(ends, recorder, **module));
  }
  return Print(options.json ? document.Text() : text);
}

}  // namespace gshard
