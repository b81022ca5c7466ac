// gshard-run: executes a module on the emulated mesh. Flags in, library calls, text out.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/emulate.h"
#include "cmd/cli/program.h"
#include "cmd/cli/propagation_flags.h"

namespace gshard {
namespace {

std::atomic<bool> stop_requested{false};

void RequestStop(int) {
  // A second interrupt ends the program at once.
  if (stop_requested.exchange(true)) _exit(130);
}

// A line on the terminal for work of more than a second; nothing elsewhere.
class ProgressLine {
 public:
  explicit ProgressLine(bool enabled) : enabled_(enabled) {}
  ~ProgressLine() { Clear(); }

  void Show(const std::string& phase, double share) {
    const auto now = std::chrono::steady_clock::now();
    if (phase != phase_) {
      phase_ = phase;
      phase_start_ = now;
    }
    const double elapsed = std::chrono::duration<double>(now - start_).count();
    if (!enabled_ || elapsed < 1 || now - shown_ < std::chrono::milliseconds(100)) return;
    shown_ = now;
    const double in_phase = std::chrono::duration<double>(now - phase_start_).count();
    const int filled = static_cast<int>(share * 30);
    std::string line = fmt::format("\r{:<12} [{:#<{}}{:.<{}}] {:3.0f}%", phase, "", filled, "",
                                   30 - filled, share * 100);
    if (share > 0.02) line += fmt::format(" {:.0f} s left", in_phase / share - in_phase);
    fmt::print(stderr, "{}\x1b[K", line);
    std::fflush(stderr);
    visible_ = true;
  }
  void Clear() {
    if (visible_) fmt::print(stderr, "\r\x1b[K");
    visible_ = false;
  }

 private:
  bool enabled_;
  bool visible_ = false;
  std::string phase_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point phase_start_ = start_, shown_ = start_;
};

// NAME=FILE or NAME@DEVICE=FILE.
cpu::EmulateOptions::Dump ParseDump(const std::string& text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    throw FlagError("--dump", "write NAME=FILE.npy or NAME@DEVICE=FILE.npy");
  }
  cpu::EmulateOptions::Dump dump;
  dump.name = text.substr(0, equals);
  dump.file = text.substr(equals + 1);
  const size_t at = dump.name.rfind('@');
  if (at != std::string::npos) {
    const std::string device = dump.name.substr(at + 1);
    if (device.empty() || device.size() > 7 ||
        device.find_first_not_of("0123456789") != std::string::npos) {
      throw FlagError("--dump", fmt::format("'{}' is no device number", device));
    }
    dump.device = static_cast<uint32_t>(std::stoul(device));
    dump.name.resize(at);
  }
  return dump;
}

// Reports why there is no result; returns the exit code.
int Refuse(const Diagnostic& error, bool json) {
  ReportError(error);
  if (json) PrintErrorJson(error, "gshard.run/1");
  return error.code == "E-RUN-MEMORY" || error.code == "E-RUN-NAN" ? kExitCheckFailed
                                                                   : kExitBadInput;
}

struct Flags {
  std::string input, partitioned, memory_limit, verify, reference;
  std::vector<std::string> dumps;
  bool json = false, fail_on_near_ties = false;
  PropagationFlags propagation;
  cpu::EmulateOptions options;
};

void AddFlags(const Command& command, Flags& flags) {
  cpu::EmulateOptions& options = flags.options;
  AddInputFlags(command, flags.input, options.num_partitions);
  command.Add("--partitioned", flags.partitioned,
              "Is IN the program of one device already? (default: found out)",
              {.type = "yes|no", .one_of = {"yes", "no"}});
  command.AddSwitch("--unpartitioned", options.unpartitioned, "Run the whole graph on one device");
  AddPropagationFlags(command, flags.propagation);
  command.Add("--input", options.input,
              "Inputs: .npz with p0, p1, .. or parameters' names (default: random)",
              {.type = "FILE"});
  command.Add("--output", options.output,
              "Write the results to this .npz as o0, o1, .. (default: nowhere)", {.type = "FILE"});
  command.Add("--seed", options.seed, "Seed of random inputs (default: 0)", {.type = "N"});
  command.Add("--repeat", options.repeat, "Repeat the step N times, report the median (default: 1)",
              {.type = "N", .between = {{1, 1000000}}});
  command.Add("--threads", options.threads, "Threads (default: all cores)",
              {.type = "N", .between = {{1, 4096}}});
  command.Add("--memory-limit", flags.memory_limit,
              "Memory of the run, such as 8GiB: exit 3 if more is needed (default: what is free)",
              {.type = "SIZE"});
  command.AddChoice("--verify", "instructions", flags.verify,
                    "Compare with the unpartitioned graph, instruction by instruction; exit 3 if "
                    "the outputs differ. --verify=outputs: only those (default: no comparison)",
                    {"instructions", "outputs"});
  command.Add(
      "--reference", flags.reference,
      "Verify IN, a partitioned program, against this graph that it was made of (default: none)",
      {.type = "FILE"});
  command.AddSwitch("--fail-on-near-ties", flags.fail_on_near_ties,
                    "With --verify: exit 3 also where picks among floats (arg-max, top-k, sort, "
                    "comparisons) within rounding of each other are all that differs");
  command.Add("--dump", flags.dumps,
              "NAME=FILE.npy or NAME@DEVICE=FILE.npy: write an instruction's value, put together "
              "or of one device (may be repeated; default: none)",
              {.type = "NAME=FILE"});
  command.AddSwitch("--check-nan", options.check_nan, "Stop at the first NaN or infinity; exit 3");
  command.Add("--trace", options.trace,
              "Write a Chrome trace (Perfetto) of the last step (default: none)", {.type = "FILE"});
  command.Add("--print-after", options.passes.print_after,
              "Print the module after this pass, to standard error: partition, for one, shows the "
              "program that runs (default: none)",
              {.type = "PASS"});
  command.AddSwitch("--json", flags.json, "JSON (gshard.run/1) instead of text");
}

// What flags say together or in a syntax of their own.
void ReadFlags(Flags& flags) {
  cpu::EmulateOptions& options = flags.options;
  if (!flags.partitioned.empty()) options.partitioned = flags.partitioned == "yes";
  ReadPropagationFlags(flags.propagation, options.propagation);
  options.verify = !flags.verify.empty() || !flags.reference.empty();
  options.verify_instructions = flags.verify != "outputs";
  if (flags.fail_on_near_ties && !options.verify) {
    throw FlagError("--fail-on-near-ties", "it goes with --verify");
  }
  if (options.verify && options.unpartitioned) {
    throw FlagError("--verify", "there is nothing to compare --unpartitioned with");
  }
  if (!flags.memory_limit.empty()) {
    options.memory_limit = ByteSizeOf("--memory-limit", flags.memory_limit);
  }
  if (const std::string& pass = options.passes.print_after;
      !pass.empty() && FindPass(pass) == nullptr) {
    throw FlagError(
        "--print-after",
        fmt::format("no pass is called '{}'; gshard-opt list-passes prints their names", pass));
  }
  for (const std::string& dump : flags.dumps) options.dumps.push_back(ParseDump(dump));
}

int Run(Flags& flags) {
  ReadFlags(flags);
  auto module = ReadModule(flags.input, flags.options.num_partitions);
  if (!module) return Refuse(module.error(), flags.json);
  std::unique_ptr<Module> reference;
  if (!flags.reference.empty()) {
    auto read = ReadModule(flags.reference, flags.options.num_partitions);
    if (!read) return Refuse(read.error(), flags.json);
    reference = std::move(*read);
  }
  ProgressLine line(isatty(STDERR_FILENO) != 0);
  cpu::EmulateOptions& options = flags.options;
  options.progress = [&](const std::string& phase, double share) { line.Show(phase, share); };
  options.warn = [&](const Diagnostic& warning) {
    line.Clear();
    ReportError(warning);
  };
  options.passes.sink = [&](std::string_view text) {
    line.Clear();
    if (auto written = WriteFile("-", text, true); !written) ReportError(written.error());
  };
  options.stop = &stop_requested;
  std::signal(SIGINT, RequestStop);
  auto emulation = cpu::Emulate(std::move(*module), options, std::move(reference));
  line.Clear();
  if (!emulation) return Refuse(emulation.error(), flags.json);
  const cpu::RunReport& report = emulation->report;
  const std::string text = flags.json ? cpu::ToJson(report) : cpu::ToText(report);
  if (auto written = WriteFile("-", text); !written) return ReportError(written.error());
  if (emulation->interrupted) {
    fmt::print(stderr, "gshard-run: interrupted\n");
    return 130;
  }
  if (!report.verify) return kExitOk;
  const cpu::VerifyStatus status = report.verify->Status();
  const bool fails = status == cpu::VerifyStatus::kMismatch ||
                     (status == cpu::VerifyStatus::kNearTie && flags.fail_on_near_ties);
  return fails ? kExitCheckFailed : kExitOk;
}

}  // namespace
}  // namespace gshard

int main(int argc, char** argv) {
  using namespace gshard;
  Flags flags;
  CommandLine line(
      "gshard-run",
      "Runs HLO text on an emulated mesh of up to 2048 devices and, if asked, compares "
      "the result with the unpartitioned graph.\n\n"
      "Example: gshard-run model.hlo --num-partitions 8 --verify");
  AddFlags(line, flags);
  return line.Run(argc, argv, [&] { return Run(flags); });
}
