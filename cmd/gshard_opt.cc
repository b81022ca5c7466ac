// gshard-opt: reads HLO text and prints, annotates, propagates, partitions, optimizes, explains it.
#include <CLI/CLI.hpp>

#include "cmd/cli/program.h"
#include "ir/printer.h"

namespace {

struct PrintCommand {
  std::string input;
  std::string output = "-";
  bool no_metadata = false, no_layouts = false, no_ids = false, named = false;

  void Declare(CLI::App& app) {
    CLI::App* command = app.add_subcommand("print", "Parse, verify and print");
    command->add_option("IN", input, "HLO text, - for standard input")->required();
    command->add_option("-o,--output", output, "Where to write (default: standard output)");
    command->add_flag("--no-metadata", no_metadata, "Leave out metadata and debug tables");
    command->add_flag("--no-layouts", no_layouts, "Leave out layouts");
    command->add_flag("--no-ids", no_ids, "Leave out numbers in names, and channel ids: for diffs");
    command->add_flag("--named", named, "Name shardings by the axes of declared meshes");
  }

  int Run() const {
    const auto module = gshard::ReadModule(input);
    if (!module.has_value()) return gshard::ReportError(module.error());
    gshard::PrintOptions options;
    options.metadata = !no_metadata;
    options.layouts = !no_layouts;
    options.ids = !no_ids;
    options.named = named;
    const auto written = gshard::WriteFile(output, gshard::PrintModule(**module, options));
    return written.has_value() ? gshard::kExitOk : gshard::ReportError(written.error());
  }
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Shards, partitions and explains HLO programs", "gshard-opt");
  app.require_subcommand(1);
  PrintCommand print;
  print.Declare(app);
  return gshard::RunProgram(app, argc, argv, [&] { return print.Run(); });
}
