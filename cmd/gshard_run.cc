// gshard-run: executes a module on the emulated mesh. Flags in, library calls, text out.
#include "cmd/cli/run_command.h"

int main(int argc, char** argv) {
  using namespace gshard;
  RunCommand command;
  CommandLine line(
      "gshard-run",
      "Runs HLO text on an emulated mesh of up to 2048 devices and, if asked, compares "
      "the result with the unpartitioned graph.\n\n"
      "Example: gshard-run model.hlo --num-partitions 8 --verify");
  command.AddFlags(line);
  return line.Run(argc, argv, [&] { return command.Run(); });
}
