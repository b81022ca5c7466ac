// gshard-run-mpi: gshard-run over the processes that mpirun or srun starts, each with a block of
// the devices (docs/mpi.md).
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>

#include "backends/mpi/mpi_transport.h"
#include "backends/mpi/ranks.h"
#include "cmd/cli/program.h"
#include "cmd/cli/run_command.h"

namespace gshard {
namespace {

std::string ProgramDigest() {
  auto program = ReadFile("/proc/self/exe");
  return program ? Digest(*program) : "";
}

// What kernels are chosen by.
std::string ProcessorDigest() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("flags", 0) != 0) continue;
    return Digest(line);
  }
  return "";
}

// Do all ranks have what rank 0 has? Returns the first that has not, or -1.
int FindOther(mpi::Ranks& ranks, const std::string& mine) {
  const std::vector<std::string> all = ranks.AllGatherText(mine, "the start");
  for (size_t r = 1; r < all.size(); ++r) {
    if (all[r] != all[0]) return static_cast<int>(r);
  }
  return -1;
}

int RunRanks(mpi::Transport& transport, RunCommand& command, double timeout, int own_errors) {
  std::atomic<uint64_t> work{0};
  mpi::RanksOptions options;
  options.timeout_seconds = timeout;
  options.work = &work;
  options.report = [&](const std::string& message) {
    const std::string text =
        fmt::format("[rank {}] error: {} [E-RUN-RANK]\n", transport.rank(), message);
    if (write(own_errors, text.data(), text.size()) < 0) transport.Abort(kExitInternalError);
  };
  mpi::Ranks ranks(transport, options);
  try {
    if (const int other = FindOther(ranks, ProgramDigest()); other >= 0) {
      ReportError(MakeError(
          "E-RUN-RANK",
          fmt::format("rank {} runs another build of gshard-run-mpi than rank 0", other)));
      return kExitBadInput;
    }
    if (const int other = FindOther(ranks, command.InputDigest()); other >= 0) {
      ReportError(MakeError("E-RUN-RANK",
                            fmt::format("the program that rank {} reads is not rank 0's", other),
                            "every rank reads IN itself: give all of them the same file"));
      return kExitBadInput;
    }
    if (const int other = FindOther(ranks, ProcessorDigest()); other >= 0) {
      fmt::print(stderr,
                 "warning: rank {} has another processor than rank 0: sums may differ in their "
                 "last bits [W-RUN-RANK]\n",
                 other);
    }
    return command.RunOnRank(ranks, work, own_errors);
  } catch (const FlagError&) {
    throw;  // all ranks alike
  } catch (const std::exception& error) {
    const std::string text =
        fmt::format("[rank {}] internal error: {}\n", transport.rank(), error.what());
    if (write(own_errors, text.data(), text.size()) < 0) ranks.Abort(kExitInternalError);
    ranks.Abort(kExitInternalError);
  }
}

}  // namespace
}  // namespace gshard

int main(int argc, char** argv) {
  using namespace gshard;
  RunCommand command;  // before MPI's threads
  mpi::MpiSession session(&argc, &argv);
  mpi::Transport& transport = session.transport();
  // What all ranks have to say alike, rank 0 says.
  const int own_errors = dup(STDERR_FILENO);
  if (transport.rank() != 0) {
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    close(nowhere);
  }
  int64_t timeout = 300;
  CommandLine line("gshard-run-mpi",
                   "gshard-run over several processes: each runs a block of the devices, and the "
                   "results have the same bits.\n\n"
                   "Example: mpirun -n 4 gshard-run-mpi model.hlo --verify");
  command.AddFlags(line);
  line.Add("--comm-timeout", timeout,
           "Seconds without progress of a rank that others wait for, until all end; exit 4 "
           "(default: 300)",
           {.type = "SECONDS", .between = {{1, 1000000}}});
  std::string shared_memory = "1GiB";
  line.Add(
      "--shared-memory", shared_memory,
      "What a rank may share with others on its host, for large messages, which are read where "
      "they are packed; only what is used is taken; 0B: nothing (default: 1GiB)",
      {.type = "SIZE"});
  return line.Run(argc, argv, [&] {
    session.ShareMemory(static_cast<size_t>(ByteSizeOf("--shared-memory", shared_memory)));
    return RunRanks(transport, command, static_cast<double>(timeout), own_errors);
  });
}
