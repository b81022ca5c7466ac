// What gshard-run and gshard-run-mpi share: flags in, an emulation, text out.
#ifndef GSHARD_CMD_CLI_RUN_COMMAND_H_
#define GSHARD_CMD_CLI_RUN_COMMAND_H_

#include <atomic>
#include <memory>
#include <string>

#include "cmd/cli/flags.h"

namespace gshard::mpi {
class Ranks;
}  // namespace gshard::mpi

namespace gshard {

// Of several processes ("ranks"), each has one; only rank 0 may print. The module is read before
// the ranks find one another, and run by all.
class RunCommand {
 public:
  // Sets up the machine (backends/cpu/machine/machine.h): before there are threads that multiply.
  RunCommand();
  ~RunCommand();
  RunCommand(const RunCommand&) = delete;
  RunCommand& operator=(const RunCommand&) = delete;

  void AddFlags(CommandLine& command);
  // Returns the exit code. Throws FlagError.
  int Run();
  // The same on one of several ranks: `work` counts up while it gets on; errors that the others do
  // not have go to `own_errors`, a file descriptor.
  int RunOnRank(mpi::Ranks& ranks, std::atomic<uint64_t>& work, int own_errors);
  // What a program is asked to do must be the same on all ranks: a digest of the input's text.
  std::string InputDigest() const;
  int threads() const;

 private:
  struct Flags;
  void AddVerdictFlags(const Command& command);
  void ReadFlags();
  int RunModule(mpi::Ranks* ranks, std::atomic<uint64_t>* work, int own_errors);
  std::unique_ptr<Flags> flags_;
};

}  // namespace gshard

#endif  // GSHARD_CMD_CLI_RUN_COMMAND_H_
