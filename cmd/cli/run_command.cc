// Flags, progress, errors and the report of a run.
#include "cmd/cli/run_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/cpu/emulate.h"
#include "backends/cpu/machine/machine.h"
#include "backends/cpu/run/workers.h"
#include "backends/mpi/ranks.h"
#include "cmd/cli/ci_output.h"
#include "cmd/cli/interrupt.h"
#include "cmd/cli/program.h"
#include "cmd/cli/progress_line.h"
#include "cmd/cli/propagation_flags.h"

namespace gshard {
namespace {

std::atomic<bool> stop_requested{false};

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

int ExitCodeOf(const Diagnostic& error) {
  return error.code == "E-RUN-MEMORY" || error.code == "E-RUN-NAN" ? kExitCheckFailed
                                                                   : kExitBadInput;
}

// The checks that failed, the first wrong step with its line, and each output that was compared.
CiReport CiReportOf(const std::string& input, const cpu::RunReport& run,
                    std::span<const FailedCheck> failed) {
  CiReport report{"gshard-run", "", input, {}, ""};
  CiPlace first_wrong;
  if (run.verify && run.verify->finding) {
    first_wrong = {run.verify->finding->file, run.verify->finding->line, 0};
  }
  for (const FailedCheck& check : failed) {
    const CiPlace place = check.check == "verify" ? first_wrong : CiPlace();
    report.checks.push_back(
        {check.check, CiOutcome::kFailed, check.check, check.message, "", place});
  }
  if (!run.verify) return report;
  for (const cpu::OutputError& output : run.verify->outputs) {
    const bool is_wrong = output.differs && !run.verify->ok;
    report.checks.push_back(
        {fmt::format("output o{}", output.output),
         is_wrong         ? CiOutcome::kFailed
         : output.differs ? CiOutcome::kWarning
                          : CiOutcome::kPassed,
         "verify",
         fmt::format("off by {:.3g} where values are up to {:.3g}; {:.3g} of these is allowed",
                     output.error, output.magnitude, output.tolerance),
         output.differs && !is_wrong ? "docs/verification.md tells why this may be" : "",
         is_wrong ? first_wrong : CiPlace()});
  }
  return report;
}

// Reports why there is no result; returns the exit code.
int Refuse(const Diagnostic& error, bool json) {
  ReportError(error);
  const int exit_code = ExitCodeOf(error);
  if (json && exit_code == kExitCheckFailed) {
    const FailedCheck check{
        error.code == "E-RUN-NAN" ? "nan" : "memory-limit", error.message, "", {}, {}};
    const std::string document = cpu::ToJson({}, {&check, 1}, /*measured=*/false);
    if (auto written = WriteFile("-", document); !written) return ReportError(written.error());
  } else if (json) {
    PrintErrorJson(error, "gshard.run/1");
  }
  return exit_code;
}

}  // namespace

struct RunCommand::Flags {
  std::string input, partitioned, memory_limit, verify, reference, rtol, atol;
  std::string output_names;
  std::vector<std::string> dumps;
  bool json = false, fail_on_near_ties = false, allow_microbatch_sums = false;
  PropagationFlags propagation;
  CiFlags ci;
  cpu::EmulateOptions options;
  Expected<std::vector<Diagnostic>> machine = cpu::SetUpMachine();
};

RunCommand::RunCommand() : flags_(std::make_unique<Flags>()) {}

RunCommand::~RunCommand() = default;

void RunCommand::AddFlags(CommandLine& command) {
  command.AddVersionText(cpu::ToText(cpu::ThisMachine()));
  Flags& flags = *flags_;
  cpu::EmulateOptions& options = flags.options;
  AddInputFlags(command, flags.input, options.num_partitions);
  command.Add("--partitioned", flags.partitioned,
              "Is IN the program of one device already? (default: found out)",
              {.type = "yes|no", .one_of = {"yes", "no"}});
  command.AddSwitch("--unpartitioned", options.unpartitioned, "Run the whole graph on one device");
  AddPropagationFlags(command, flags.propagation);
  command.Add(
      "--input", options.input,
      "Inputs: .npz with p0, p1, .. or parameters' names (default: those of a snapshot, else "
      "random)",
      {.type = "FILE"});
  command.Add("--output", options.output,
              "Write the results to this .npz as o0, o1, .. (default: nowhere)",
              {.type = "FILE", .is_output = true});
  command.AddOnlyWith({"--output"}, [&] {
    command.Add(
        "--output-names", flags.output_names,
        "Names of the first results in --output, by commas: p0,p1 makes them inputs of a next "
        "run (default: o0, o1, ..)",
        {.type = "NAMES"});
  });
  command.Add("--seed", options.seed, "Seed of random inputs (default: 0)", {.type = "N"});
  command.Add(
      "--repeat", options.repeat,
      "Repeat the step N times, report the median; with --verify: steps that run for their time "
      "only (default: one, which --verify looks into)",
      {.type = "N", .between = {{1, 1000000}}});
  command.Add("--threads", options.threads, "Threads, at most eight a core (default: one a core)",
              {.type = "N", .between = {{1, 4096}}});
  command.Add("--memory-limit", flags.memory_limit,
              "Memory of the run, such as 8GiB: exit 3 if more is needed (default: what is free)",
              {.type = "SIZE"});
  command.AddChoice("--verify", "instructions", flags.verify,
                    "Compare with the unpartitioned graph, instruction by instruction; exit 3 if "
                    "the outputs differ. --verify=outputs: only those (default: no comparison)",
                    {"instructions", "outputs"});
  command.Add("--reference", flags.reference,
              "Verify IN, a partitioned or compiled program, against this graph that it was made "
              "of (default: none)",
              {.type = "FILE"});
  command.Add(
      "--output-shardings", options.output_shardings,
      "How the results of IN, a partitioned program, are spread, where its text does not say: "
      "'{{replicated}, {devices=[4,2]<=[8]}}' (default: what fits the reference)",
      {.type = "SHARDING"});
  AddVerdictFlags(command);
  command.Add("--dump", flags.dumps,
              "NAME=FILE.npy or NAME@DEVICE=FILE.npy: write an instruction's value, put together "
              "or of one device (may be repeated; default: none)",
              {.type = "NAME=FILE"});
  command.AddSwitch("--check-nan", options.check_nan, "Stop at the first NaN or infinity; exit 3");
  command.Add("--trace", options.trace,
              "Write a trace of the last step for Perfetto: step.pftrace in its own format, "
              "step.json as a Chrome trace (default: none)",
              {.type = "FILE", .is_output = true});
  command.Add("--print-after", options.passes.print_after,
              "Print the module after this pass, to standard error: partition, for one, shows the "
              "program of one device (default: none)",
              {.type = "PASS"});
  command.AddSwitch(
      "--print-after-all", options.passes.print_after_all,
      "Print the module after every pass, headed by `// after PASS`; the last is what runs");
  command.AddSwitch("--json", flags.json, "JSON (gshard.run/1) instead of text");
  AddCiFlags(command, flags.ci);
}

// What --verify, and --reference, take for a difference.
void RunCommand::AddVerdictFlags(const Command& command) {
  Flags& flags = *flags_;
  command.AddOnlyWith({"--verify", "--reference"}, [&] {
    command.Add(
        "--rtol", flags.rtol,
        "With --verify: an output may be off by this share of its largest magnitude (default: "
        "1e-4 for f32, 2e-2 for bf16 and f16, 1e-9 for f64, by the coarsest on its way)",
        {.type = "X"});
    command.Add("--atol", flags.atol,
                "With --verify: an output may be off by this and what --rtol allows (default: 0)",
                {.type = "X"});
    command.AddSwitch("--fail-on-near-ties", flags.fail_on_near_ties,
                      "With --verify: exit 3 also where picks among floats (arg-max, top-k, sort, "
                      "comparisons) within rounding of each other are all that differs");
    command.AddSwitch(
        "--allow-microbatch-sums", flags.allow_microbatch_sums,
        "With --verify of a pipelined program: exit 0, not 3, where sums over a "
        "micro-batch are all that differs from the reference, as W-PIPELINE-001 says");
  });
}

std::vector<std::string> ReadOutputNames(const std::string& text) {
  std::vector<std::string> names;
  if (text.empty()) return names;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    names.push_back(text.substr(begin, end - begin));
    if (names.back().empty()) throw FlagError("--output-names", "a name is missing between commas");
    if (std::ranges::count(names, names.back()) > 1) {
      throw FlagError("--output-names", fmt::format("'{}' is there twice", names.back()));
    }
    begin = end + 1;
  }
  return names;
}

// A number of at least 0; nothing if the flag was not given.
std::optional<double> ReadTolerance(const char* flag, const std::string& text) {
  if (text.empty()) return std::nullopt;
  return NumberOf(flag, text);
}

// What flags say together or in a syntax of their own.
void RunCommand::ReadFlags() {
  Flags& flags = *flags_;
  if (!flags.machine) throw FlagError("GSHARD_CPU", flags.machine.error());
  ReportWarnings(*flags.machine);
  cpu::EmulateOptions& options = flags.options;
  if (!flags.partitioned.empty()) options.partitioned = flags.partitioned == "yes";
  ReadPropagationFlags(flags.propagation, options.propagation);
  options.verify = !flags.verify.empty() || !flags.reference.empty();
  options.verify_instructions = flags.verify != "outputs";
  options.output_names = ReadOutputNames(flags.output_names);
  options.tolerance.relative = ReadTolerance("--rtol", flags.rtol);
  options.tolerance.absolute = ReadTolerance("--atol", flags.atol);
  if (options.verify && options.unpartitioned) {
    throw FlagError("--verify", "there is nothing to compare --unpartitioned with");
  }
  if (!flags.memory_limit.empty()) {
    options.memory_limit = MemoryLimitOf("--memory-limit", flags.memory_limit);
  }
  if (!options.passes.print_after.empty()) PassOf("--print-after", options.passes.print_after);
  for (const std::string& dump : flags.dumps) {
    options.dumps.push_back(ParseDump(dump));
    ClaimOutput("--dump", options.dumps.back().file);
  }
}

int RunCommand::RunModule(mpi::Ranks* ranks, std::atomic<uint64_t>* work, int own_errors) {
  Flags& flags = *flags_;
  ReadFlags();
  InputReport read_report;
  auto module = ReadModule(flags.input, flags.options.num_partitions, &read_report);
  flags.options.arguments = std::move(read_report.arguments);
  if (ranks != nullptr) {
    // What one rank cannot read is told by rank 0.
    const std::string problem = module ? "" : Render(module.error());
    const std::vector<std::string> all = ranks->AllGatherText(problem, "reading");
    for (size_t r = 0; module && r < all.size(); ++r) {
      if (all[r].empty()) continue;
      fmt::print(stderr, "[rank {}] {}", r, all[r]);
      return kExitBadInput;
    }
    if (!module && ranks->rank() == 0) return Refuse(module.error(), flags.json);
    if (!module) return kExitBadInput;
  }
  if (!module) return Refuse(module.error(), flags.json);
  std::unique_ptr<Module> reference;
  if (!flags.reference.empty()) {
    auto read = ReadModule(flags.reference, flags.options.num_partitions);
    if (!read) return Refuse(read.error(), flags.json);
    reference = std::move(*read);
  }
  ProgressLine line(isatty(STDERR_FILENO) != 0);
  cpu::EmulateOptions& options = flags.options;
  options.progress = [&](const std::string& phase, double share) {
    if (work != nullptr) work->fetch_add(1, std::memory_order_relaxed);
    line.Show(phase, share);
  };
  if (ranks != nullptr) {
    options.ranks = ranks;
    options.fail_alone = [&](const Diagnostic& error) {
      line.Clear();
      const bool stopped = error.code == "E-RUN-STOPPED";
      if (!stopped || ranks->rank() == 0) {
        const std::string text = stopped
                                     ? "gshard-run-mpi: interrupted\n"
                                     : fmt::format("[rank {}] {}", ranks->rank(), Render(error));
        if (write(own_errors, text.data(), text.size()) < 0) ranks->Abort(kExitInternalError);
      }
      ranks->Abort(stopped ? kExitInterrupted : ExitCodeOf(error));
    };
  }
  options.warn = [&](const Diagnostic& warning) {
    line.Clear();
    ReportError(warning);
  };
  options.passes.sink = [&](std::string_view text) {
    line.Clear();
    if (auto written = WriteFile("-", text, true); !written) ReportError(written.error());
  };
  options.stop = &stop_requested;
  auto emulation = [&] {
    const InterruptibleWork interruptible(&stop_requested);
    return cpu::Emulate(std::move(*module), options, std::move(reference));
  }();
  line.End();
  if (!emulation) return Refuse(emulation.error(), flags.json);
  const cpu::RunReport& report = emulation->report;
  const std::vector<FailedCheck> failed =
      report.FailedChecks(flags.fail_on_near_ties, flags.allow_microbatch_sums);
  const std::string text = flags.json ? cpu::ToJson(report, failed) : cpu::ToText(report);
  if (auto written = WriteFile("-", text); !written) return ReportError(written.error());
  const bool tells = ranks == nullptr || ranks->rank() == 0;
  if (auto told = tells ? WriteCiReport(flags.ci, CiReportOf(flags.input, report, failed))
                        : Expected<void>();
      !told) {
    return ReportError(told.error());
  }
  if (emulation->interrupted) {
    fmt::print(stderr, "gshard-run: interrupted\n");
    return kExitInterrupted;
  }
  return failed.empty() ? kExitOk : kExitCheckFailed;
}

int RunCommand::Run() { return RunModule(nullptr, nullptr, STDERR_FILENO); }

int RunCommand::RunOnRank(mpi::Ranks& ranks, std::atomic<uint64_t>& work, int own_errors) {
  return RunModule(&ranks, &work, own_errors);
}

std::string RunCommand::InputDigest() const {
  auto text = ReadFile(flags_->input);
  if (!text) return "";
  return Digest(*text);
}

int RunCommand::threads() const { return cpu::ThreadsFor(flags_->options.threads); }

}  // namespace gshard
