#include "cmd/cli/propagation_flags.h"

#include <fmt/format.h>

#include <vector>

#include "cmd/cli/program.h"

namespace gshard {
namespace {

constexpr const char* kMode = "--propagation";
constexpr const char* kToParameters = "--allow-spmd-sharding-propagation-to-parameters";
constexpr const char* kToOutput = "--allow-spmd-sharding-propagation-to-output";

void Read(const char* flag, const std::string& text, std::vector<bool>& values) {
  if (text.empty()) return;
  Expected<std::vector<bool>> parsed = ParseBools(text);
  if (!parsed) throw FlagError(flag, parsed.error().message);
  values = std::move(*parsed);
}

}  // namespace

void AddPropagationFlags(const Command& command, PropagationFlags& flags) {
  command.Add(kMode, flags.mode,
              "Whose rules infer shardings: gspmd, or shardy, JAX's default since 0.7 (default: "
              "shardy where the text has Shardy's annotations, else gspmd)",
              {.type = "MODE"});
  command.Add(kToParameters, flags.to_parameters,
              "May parameters take shardings that propagation finds: true or false for all, or "
              "true,false,.. (bare: true; default: as the module's header says, else those without "
              "an annotation may)",
              {.type = "BOOLS", .bare = "true"});
  command.Add(kToOutput, flags.to_output, "The same for results",
              {.type = "BOOLS", .bare = "true"});
}

void ReadPropagationFlags(const PropagationFlags& flags, PropagationOptions& options) {
  if (flags.mode) {
    if (*flags.mode != "gspmd" && *flags.mode != "shardy") {
      throw FlagError(kMode, fmt::format("'{}' is neither gspmd nor shardy", *flags.mode));
    }
    options.mode = *flags.mode == "gspmd" ? PropagationMode::kGspmd : PropagationMode::kShardy;
  }
  Read(kToParameters, flags.to_parameters, options.allow_to_parameters);
  Read(kToOutput, flags.to_output, options.allow_to_output);
}

}  // namespace gshard
