// See reduce.h.

#include "cmd/cli/reduce.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "cmd/cli/interrupt.h"
#include "cmd/cli/program.h"
#include "cmd/cli/progress_line.h"
#include "core/reduce/reducer.h"
#include "ir/output_file.h"
#include "ir/printer.h"

namespace gshard {
namespace {

std::atomic<bool> stop_requested{false};

// A folder of its own for candidates, removed at the end.
class CandidateFolder {
 public:
  CandidateFolder() {
    std::error_code error;
    std::string pattern =
        (std::filesystem::temp_directory_path(error) / "gshard-reduce-XXXXXX").string();
    if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~CandidateFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  CandidateFolder(const CandidateFolder&) = delete;
  CandidateFolder& operator=(const CandidateFolder&) = delete;

  bool IsThere() const { return !path_.empty(); }
  std::string NewFile() { return fmt::format("{}/{}.hlo", path_, ++count_); }

 private:
  std::string path_;
  std::atomic<int64_t> count_{0};
};

// How a command ended.
struct Ending {
  bool timed_out = false;
  int signal = 0;  // that ended it; 0: it exited
  int code = 0;    // if it exited
};

// Runs `command` by the shell, in a process group of its own, without its output.
Ending RunCommandLine(const std::string& command, int64_t timeout_s) {
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    signal(SIGINT, SIG_DFL);
    const int nothing = open("/dev/null", O_RDWR);
    for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      dup2(nothing, descriptor);
    }
    execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  Ending ending;
  if (child < 0) {
    ending.code = 127;
    return ending;
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(timeout_s);
  auto pause = std::chrono::microseconds(200);
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline || stop_requested) {
      kill(-child, SIGKILL);
      kill(child, SIGKILL);  // before it had its group
      waitpid(child, &status, 0);
      ending.timed_out = true;
      return ending;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(10000));
  }
  ending.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  ending.code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  return ending;
}

std::string ShellQuoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// The program beside this one; where it is not, the one on PATH.
std::string ProgramBeside(const std::string& name) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path beside = self.parent_path() / name;
  return !error && std::filesystem::exists(beside, error) ? ShellQuoted(beside.string()) : name;
}

// The command with the file in the place of {}, or behind it.
std::string CommandFor(std::string command, const std::string& file) {
  const std::string quoted = ShellQuoted(file);
  size_t at = command.find("{}");
  if (at == command.npos) return command + " " + quoted;
  for (; at != command.npos; at = command.find("{}", at + quoted.size())) {
    command.replace(at, 2, quoted);
  }
  return command;
}

// Whether a command that ended so says that its program is still interesting.
bool Holds(const ReduceFlags& flags, const Ending& ending) {
  constexpr int kShellSignal = 128;  // a shell's exit code for a signal of what it ran: 128 + n
  if (ending.timed_out) return false;
  if (flags.verify_fails) return ending.signal == 0 && ending.code == kExitCheckFailed;
  if (flags.crashes) {
    return ending.signal != 0 || ending.code > kShellSignal || ending.code == kExitInternalError;
  }
  return ending.signal == 0 && ending.code == 0;
}

}  // namespace

void AddReduceFlags(const Command& command, ReduceFlags& flags) {
  AddInputFlags(command, flags.input, flags.num_partitions);
  command.Add("-o,--output", flags.output, "Where the result goes (default: -, standard output)",
              {.type = "FILE", .is_output = true});
  command.Add(
      "--test", flags.test,
      "Command of the shell that exits with 0 if a program is still interesting; {} in it is "
      "the program's file, which else comes last (default: see the next two)",
      {.type = "COMMAND"});
  command.AddSwitch("--verify-fails", flags.verify_fails,
                    "Programs on which `gshard-run {} --verify` exits with 3 are interesting");
  command.AddSwitch("--crashes", flags.crashes,
                    "Programs are interesting on which the command of --test is ended by a signal, "
                    "or by an internal error of gshard (4); without --test it is `gshard-run {}`",
                    "--verify-fails");
  command.Add("--threads", flags.threads, "Programs tested at once (default: one a core)",
              {.type = "N", .between = {{1, 256}}});
  command.Add("--timeout", flags.timeout_s,
              "Seconds that the command may take; a program that takes longer is not interesting "
              "(default: 60)",
              {.type = "SECONDS", .between = {{1, 86400}}});
}

int RunReduce(const ReduceFlags& flags) {
  if (flags.test.empty() && !flags.verify_fails && !flags.crashes) {
    throw FlagError("--test", "it is missing, and so are --verify-fails and --crashes");
  }
  if (!flags.test.empty() && flags.verify_fails) {
    throw FlagError("--test", "--verify-fails has a command of its own");
  }
  const std::string command = flags.verify_fails   ? ProgramBeside("gshard-run") + " {} --verify"
                              : flags.test.empty() ? ProgramBeside("gshard-run") + " {}"
                                                   : flags.test;
  auto module = ReadModule(flags.input, flags.num_partitions);
  if (!module) return ReportError(module.error());
  CandidateFolder folder;
  if (!folder.IsThere()) {
    return ReportError(MakeError("E-IO-003", "there is no place for temporary files",
                                 "TMPDIR names their folder"));
  }
  ProgressLine line(isatty(STDERR_FILENO) != 0);
  ReduceOptions options;
  options.threads = flags.threads > 0
                        ? flags.threads
                        : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  options.is_interesting = [&](const std::string& text) {
    const std::string file = folder.NewFile();
    if (!WriteWholeFile(file, text)) return false;
    const bool holds = Holds(flags, RunCommandLine(CommandFor(command, file), flags.timeout_s));
    std::error_code ignored;
    std::filesystem::remove(file, ignored);
    return holds;
  };
  options.progress = [&](const std::string& step, int64_t instructions) {
    line.Show(fmt::format("{} instructions: {}", instructions, step), 0);
  };
  options.stop = &stop_requested;
  const auto start = std::chrono::steady_clock::now();
  Expected<Reduction> reduction = [&] {
    const InterruptibleWork interruptible(&stop_requested);
    return Reduce(PrintModule(**module, {.named = true}), options);
  }();
  line.End();
  if (!reduction) return ReportError(reduction.error());
  if (auto written = WriteFile(flags.output, reduction->text); !written) {
    return ReportError(written.error());
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  fmt::print(stderr, "gshard-opt: {} instructions of {}, by {} tests in {:.1f} s\n",
             reduction->instructions, reduction->instructions_before, reduction->tests,
             elapsed.count());
  return stop_requested ? kExitInterrupted : kExitOk;
}

}  // namespace gshard
