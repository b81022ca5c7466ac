// See input_files.h.

#include "cmd/cli/reduce/input_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "cmd/cli/program.h"
#include "core/json.h"
#include "ir/try.h"

namespace gshard {
namespace {

// A .zip file without members: the record of its end alone, of 22 bytes.
std::string EmptyArchive() { return "PK\x05\x06" + std::string(18, '\0'); }

// Inputs that own their file.
struct OwnedInputs : ReduceInputs {
  explicit OwnedInputs(WorkFolder& folder) : archive(folder, ".npz") { file = archive.path(); }
  WorkFile archive;
};

std::vector<int64_t> AllLeaves(const Module& module) {
  std::vector<int64_t> leaves;
  for (const Instruction* parameter : module.entry()->parameters()) {
    for (int64_t i = 0; i < parameter->shape()->leaf_count(); ++i) {
      leaves.push_back(static_cast<int64_t>(leaves.size()));
    }
  }
  return leaves;
}

// The program whose results are these leaves of the module's parameters.
InputProgram ProgramOf(const Module& module, std::span<const int64_t> leaves) {
  return reduce::MakeInputProgram(*module.Clone(), module, leaves, reduce::InputRule{});
}

Expected<std::shared_ptr<const ReduceInputs>> OrError(std::shared_ptr<const ReduceInputs> inputs) {
  if (inputs != nullptr) return inputs;
  return Fail(MakeError("E-REDUCE-002", "gshard-run does not copy the inputs",
                        "is there room for them? TMPDIR names the folder"));
}

}  // namespace

Expected<std::shared_ptr<const ReduceInputs>> InputFiles::Read(const Module& module,
                                                               const std::string& path) const {
  const InputProgram all = ProgramOf(module, AllLeaves(module));
  const std::vector<std::string> not_given = GSHARD_TRY(NotGiven(all.text, path));
  std::vector<int64_t> leaves;
  int64_t next = 0;
  for (const Instruction* parameter : module.entry()->parameters()) {
    const int64_t count = parameter->shape()->leaf_count();
    const int64_t first = std::exchange(next, next + count);
    const int64_t random = std::ranges::count(not_given, parameter->name());
    if (random >= count) continue;
    for (int64_t leaf = first; leaf < next; ++leaf) {
      if (random > 0 || !std::ranges::binary_search(all.leaves, leaf)) {
        const char* why = random > 0 ? "the file has some elements of the tuple only"
                                     : "its size is known at run time only";
        return Fail(module.ErrorAt(
            parameter, "E-REDUCE-003",
            fmt::format("the input of {} cannot follow it: {}", parameter->name(), why)));
      }
      leaves.push_back(leaf);
    }
  }
  return OrError(Run(ProgramOf(module, leaves), "--input " + ShellQuoted(path)));
}

Expected<std::vector<std::string>> InputFiles::NotGiven(const std::string& text,
                                                        const std::string& path) const {
  const WorkFile program(folder_, ".hlo");
  if (!program.Write(text)) return Fail(MakeError("E-IO-003", "a temporary file is not written"));
  std::string printed;
  const Ending ending = RunShellCommand(
      fmt::format("{} {} --unpartitioned --json --input {}", ProgramBeside("gshard-run"),
                  ShellQuoted(program.path()), ShellQuoted(path)),
      timeout_s_, stop_, folder_, &printed);
  try {
    const Json report = Json::Parse(printed);
    if (!ending.Succeeded()) {
      const Json error = report.At("error");
      return Fail(MakeError("E-REDUCE-002", error.StringAt("message"),
                            error.Has("hint") ? error.StringAt("hint") : ""));
    }
    std::vector<std::string> names;
    const Json random = report.At("inputs").At("random");
    for (size_t i = 0; i < random.size(); ++i) names.push_back(random.At(i).StringAt("name"));
    return names;
  } catch (const JsonError&) {
    return Fail(MakeError("E-REDUCE-002", fmt::format("gshard-run does not read {}", path)));
  }
}

Expected<std::shared_ptr<const ReduceInputs>> InputFiles::FromArguments(
    const Module& module, std::span<const Literal* const> arguments) const {
  return OrError(Run(reduce::MakeArgumentProgram(*module.Clone(), arguments), ""));
}

std::shared_ptr<const ReduceInputs> InputFiles::Compute(const InputProgram& program,
                                                        const ReduceInputs& inputs) const {
  return Run(program, inputs.leaves.empty() ? "" : "--input " + ShellQuoted(inputs.file));
}

std::shared_ptr<const ReduceInputs> InputFiles::Run(const InputProgram& program,
                                                    const std::string& from) const {
  auto inputs = std::make_shared<OwnedInputs>(folder_);
  inputs->leaves = program.leaves;
  if (program.leaves.empty()) {
    if (!inputs->archive.Write(EmptyArchive())) return nullptr;
  } else {
    const WorkFile text(folder_, ".hlo");
    if (!text.Write(program.text)) return nullptr;
    std::vector<std::string> names;
    for (const int64_t leaf : program.leaves) names.push_back(fmt::format("p{}", leaf));
    const std::string command = fmt::format(
        "{} {} --unpartitioned {} --output {} --output-names {}", ProgramBeside("gshard-run"),
        ShellQuoted(text.path()), from, ShellQuoted(inputs->file), fmt::join(names, ","));
    if (!RunShellCommand(command, timeout_s_, stop_).Succeeded()) return nullptr;
  }
  const auto bytes = ReadFile(inputs->file);
  if (!bytes) return nullptr;
  inputs->digest = std::hash<std::string>()(*bytes);
  return inputs;
}

}  // namespace gshard
