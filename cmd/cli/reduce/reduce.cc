// See reduce.h.

#include "cmd/cli/reduce/reduce.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <span>
#include <thread>

#include "cmd/cli/interrupt.h"
#include "cmd/cli/program.h"
#include "cmd/cli/progress_line.h"
#include "cmd/cli/reduce/compare_with_xla.h"
#include "cmd/cli/reduce/input_files.h"
#include "cmd/cli/reduce/shell_command.h"
#include "core/analysis/partitioned.h"
#include "core/reduce/reducer.h"
#include "ir/output_file.h"
#include "ir/printer.h"
#include "ir/try.h"

namespace gshard {
namespace {

std::atomic<bool> stop_requested{false};

constexpr const char* kProgramPlace = "{}";
constexpr const char* kInputsPlace = "{inputs}";
constexpr int64_t kImportSeconds = 600;  // that importing jax may take
// Seconds that a test may take without --timeout: the program's own kFirstLimit, others ten times
// what that one took, or what is at least, and at most, reasonable. A candidate is hardly ever
// slower than the program, unless it never ends.
constexpr int64_t kFirstLimit = 600, kLeastLimit = 5, kMostLimit = 60;
int64_t FirstLimitOf(const ReduceFlags& flags) {
  return flags.timeout_s > 0 ? flags.timeout_s : kFirstLimit;
}
int64_t LimitFor(double own_seconds) {
  const auto most = std::max(kMostLimit, static_cast<int64_t>(2 * own_seconds));
  return std::clamp(static_cast<int64_t>(10 * own_seconds), kLeastLimit, most);
}

// Whether a command that ended so says that its program is still interesting.
bool SaysYes(const ReduceFlags& flags, const Ending& ending) {
  constexpr int kShellSignal = 128;  // a shell's exit code for a signal of what it ran: 128 + n
  if (ending.timed_out) return false;
  if (flags.verify_fails) return ending.signal == 0 && ending.code == kExitCheckFailed;
  if (flags.crashes) {
    return ending.signal != 0 || ending.code > kShellSignal || ending.code == kExitInternalError;
  }
  return ending.signal == 0 && ending.code == 0;
}

// How programs are tested.
class ProgramTest {
 public:
  ProgramTest(const ReduceFlags& flags, WorkFolder& folder)
      : flags_(flags), folder_(folder), script_(folder, ".py"), limit_s_(FirstLimitOf(flags)) {
    const std::string run = ProgramBeside("gshard-run");
    if (flags.differs_from_xla) {
      command_ = Script() + " " + ProgramBeside("gshard-opt") + " " + run + " {}";
      if (!flags.rtol.empty()) command_ += " --rtol " + flags.rtol;
    } else if (flags.test.empty()) {
      command_ = run + " {}" + (flags.verify_fails ? " --verify" : "");
    } else {
      command_ = flags.test;
    }
    if (command_.find(kProgramPlace) == command_.npos) command_ += " {}";
  }

  // A command of the user's takes inputs if it says where.
  bool TakesInputs() const { return flags_.test.empty() || NamesInputs(); }
  bool NamesInputs() const { return command_.find(kInputsPlace) != command_.npos; }
  void UseInputs() {
    if (flags_.test.empty()) command_ += " --input {inputs}";
  }

  // The test must be able to ask XLA. Throws FlagError.
  void FindXla() {
    if (!flags_.differs_from_xla) return;
    std::string said;  // by the program: the shell's own words are on standard error
    const bool written = script_.Write(CompareWithXlaScript());
    if (written &&
        RunShellCommand(Script() + " --check", kImportSeconds, stop_requested, folder_, &said)
            .Succeeded()) {
      return;
    }
    if (stop_requested) return;
    throw FlagError("--python",
                    fmt::format("'{}' has no jaxlib to ask{}; name a Python that has one, or "
                                "install jax there",
                                Python(), said.empty() ? "" : " (" + FirstLine(said) + ")"));
  }

  bool Holds(const std::string& program, const ReduceInputs* inputs) const {
    const WorkFile file(folder_, ".hlo");
    if (!file.Write(program)) return false;
    const auto start = std::chrono::steady_clock::now();
    const Ending ending =
        RunShellCommand(CommandFor(file.path(), inputs), limit_s_, stop_requested);
    if (ending.timed_out && !stop_requested) ++timed_out_;
    const bool holds = SaysYes(flags_, ending);
    // The first test is the program's own, by one thread.
    if (!first_is_done_.exchange(true) && flags_.timeout_s == 0 && holds) {
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      limit_s_ = LimitFor(taken.count());
    }
    return holds;
  }

  // "", or that some tests were ended by --timeout: the result may be larger than it need be.
  std::string AboutTime() const {
    if (timed_out_ == 0) return "";
    return fmt::format("; {} of them took longer than {} s (--timeout)", timed_out_.load(),
                       limit_s_.load());
  }

  // Why it does not hold for the program, which was the only one tested; empty where the command
  // tells, which is the user's.
  std::string WhyNot(const std::string& program, const ReduceInputs* inputs) const {
    if (timed_out_ > 0) {
      return fmt::format("it takes longer than {} s; --timeout gives it more", limit_s_.load());
    }
    const WorkFile file(folder_, ".hlo");
    if (!flags_.differs_from_xla || !file.Write(program)) return "";
    std::string said;
    const Ending ending =
        RunShellCommand(CommandFor(file.path(), inputs), limit_s_, stop_requested, folder_, &said);
    if (ending.timed_out) return "sometimes it takes longer than --timeout";
    return said.empty() ? "XLA crashes, or the Python that it runs in" : FirstLine(said);
  }

 private:
  static std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

  std::string Python() const { return flags_.python.empty() ? "python3" : flags_.python; }
  std::string Script() const { return ShellQuoted(Python()) + " " + ShellQuoted(script_.path()); }

  std::string CommandFor(const std::string& file, const ReduceInputs* inputs) const {
    const std::string with_inputs =
        inputs == nullptr ? command_ : WithFile(command_, kInputsPlace, inputs->file);
    return WithFile(with_inputs, kProgramPlace, file);
  }

  const ReduceFlags& flags_;
  WorkFolder& folder_;
  WorkFile script_;
  std::string command_;
  mutable std::atomic<int64_t> timed_out_{0};
  mutable std::atomic<bool> first_is_done_{false};
  mutable std::atomic<int64_t> limit_s_;  // of a test
};

}  // namespace

void AddReduceFlags(const Command& command, ReduceFlags& flags) {
  AddInputFlags(command, flags.input, flags.num_partitions);
  command.Add("-o,--output", flags.output, "Where the result goes (default: -, standard output)",
              {.type = "FILE", .is_output = true});
  command.Add("--test", flags.test,
              "Command of the shell that exits with 0 if a program is still interesting; {} in it "
              "is the program's file, which else comes last, {inputs} that of its inputs (default: "
              "see the next three)",
              {.type = "COMMAND"});
  command.AddSwitch("--verify-fails", flags.verify_fails,
                    "Programs on which `gshard-run {} --verify` exits with 3 are interesting");
  command.AddSwitch("--crashes", flags.crashes,
                    "Programs are interesting on which the command of --test is ended by a signal, "
                    "or by an internal error of gshard (4); without --test it is `gshard-run {}`",
                    {"--verify-fails"});
  command.AddSwitch(
      "--differs-from-xla", flags.differs_from_xla,
      "Programs are interesting for which gshard-run and XLA on CPU, of the jaxlib of "
      "--python, give different values",
      {"--verify-fails"});
  command.AddOnlyWith({"--differs-from-xla"}, [&] {
    command.Add("--python", flags.python,
                "With --differs-from-xla: the Python that has jax (default: python3)",
                {.type = "FILE"});
    command.Add("--rtol", flags.rtol,
                "With --differs-from-xla: what an output may be off by, as a share of its largest "
                "magnitude (default: 1e-4 for f32, 2e-2 for bf16 and f16, 1e-9 for f64, by the "
                "coarsest in the program)",
                {.type = "X"});
  });
  command.Add(
      "--input", flags.inputs,
      "Inputs, as gshard-run takes them: .npz with p0, p1, .. or parameters' names. They "
      "are cut, renamed and dropped with the parameters (default: those of a snapshot, else "
      "none)",
      {.type = "FILE"});
  command.Add("--output-inputs", flags.output_inputs,
              "Where the inputs go that the result needs (default: beside --output, as .npz)",
              {.type = "FILE", .is_output = true});
  command.Add("--threads", flags.threads, "Programs tested at once (default: one a core)",
              {.type = "N", .between = {{1, 256}}});
  command.Add(
      "--timeout", flags.timeout_s,
      "Seconds that the command may take; a program that takes longer is not interesting "
      "(default: ten times what it takes for the program itself, from 5 to 60, or twice that)",
      {.type = "SECONDS", .between = {{1, 86400}}});
}

namespace {

// What flags say together.
void CheckFlags(const ReduceFlags& flags) {
  if (flags.test.empty() && !flags.verify_fails && !flags.crashes && !flags.differs_from_xla) {
    throw FlagError("--test",
                    "it is missing, and so are --verify-fails, --crashes and --differs-from-xla");
  }
  if (!flags.test.empty() && (flags.verify_fails || flags.differs_from_xla)) {
    throw FlagError("--test",
                    fmt::format("{} has a command of its own",
                                flags.verify_fails ? "--verify-fails" : "--differs-from-xla"));
  }
  if (flags.differs_from_xla && flags.crashes) {
    throw FlagError("--differs-from-xla", "it cannot be given together with --crashes");
  }
  if (!flags.rtol.empty()) NumberOf("--rtol", flags.rtol);
}

// Where the inputs of the result go; empty: nowhere. Throws FlagError.
std::string PlaceOfInputs(const ReduceFlags& flags) {
  std::string place = flags.output_inputs;
  if (place.empty() && flags.output != "-") {
    place = std::filesystem::path(flags.output).replace_extension(".npz").string();
    ClaimOutput("--output", place);
  }
  if (place.empty() && !flags.inputs.empty()) {
    throw FlagError("--output-inputs", "it is missing, and the result goes to standard output");
  }
  if (!flags.inputs.empty() && IsSameOutput(place, flags.inputs)) {
    throw FlagError("--output-inputs", fmt::format("'{}' is the file of --input", place));
  }
  return place;
}

// The program's inputs; null where it is reduced without any.
Expected<std::shared_ptr<const ReduceInputs>> InputsOf(const ReduceFlags& flags,
                                                       const Module& module,
                                                       std::span<const Literal* const> arguments,
                                                       const InputFiles& files, ProgramTest& test) {
  if (!flags.inputs.empty() && !test.TakesInputs()) {
    throw FlagError("--input", "the command of --test has no {inputs}, where their file would be");
  }
  const bool has_some = !flags.inputs.empty() || !arguments.empty();
  if (test.NamesInputs() && !has_some) {
    throw FlagError("--test", "it says {inputs}, and there are none: --input gives them");
  }
  if (!test.TakesInputs() || !has_some) return std::shared_ptr<const ReduceInputs>();
  if (IsPartitioned(module)) {
    if (flags.inputs.empty()) return std::shared_ptr<const ReduceInputs>();
    return Fail(MakeError("E-REDUCE-003",
                          "the inputs of a program that is partitioned already cannot follow it",
                          "reduce the graph that it was made of"));
  }
  test.UseInputs();
  return flags.inputs.empty() ? files.FromArguments(module, arguments)
                              : files.Read(module, flags.inputs);
}

// Writes the inputs that are left; returns what to say of them.
Expected<std::string> WriteInputs(const ReduceInputs& left, const std::string& place) {
  const size_t count = left.leaves.size();
  if (count == 0) return std::string("; needs no inputs: it shows with random ones");
  const std::string needs = fmt::format("; needs {} input{}: ", count, count == 1 ? "" : "s");
  if (place.empty()) return needs + "--output-inputs FILE writes them";
  const auto bytes = GSHARD_TRY(SourceText::Open(left.file));
  GSHARD_TRY(WriteWholeFile(place, bytes->text()));
  return needs + place;
}

}  // namespace

int RunReduce(const ReduceFlags& flags) {
  CheckFlags(flags);
  InputReport read_report;
  auto module = ReadModule(flags.input, flags.num_partitions, &read_report);
  if (!module) return ReportError(module.error());
  const bool has_inputs = !flags.inputs.empty() || !read_report.arguments.empty();
  if (!has_inputs && !flags.output_inputs.empty()) {
    throw FlagError("--output-inputs", "there are no inputs: --input gives them");
  }
  const std::string place = has_inputs ? PlaceOfInputs(flags) : "";
  WorkFolder folder;
  if (!folder.IsThere()) {
    return ReportError(MakeError("E-IO-003", "there is no place for temporary files",
                                 "TMPDIR names their folder"));
  }
  ProgramTest test(flags, folder);
  const InputFiles files(folder, FirstLimitOf(flags), stop_requested);
  const auto inputs = [&] {
    const InterruptibleWork interruptible(&stop_requested);
    test.FindXla();
    return InputsOf(flags, **module, read_report.arguments, files, test);
  }();
  if (stop_requested) return kExitInterrupted;
  if (!inputs) return ReportError(inputs.error());
  ProgressLine line(isatty(STDERR_FILENO) != 0);
  ReduceOptions options;
  options.threads = flags.threads > 0
                        ? flags.threads
                        : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  options.inputs = *inputs;
  options.compute_inputs = [&](const InputProgram& program, const ReduceInputs& from) {
    return files.Compute(program, from);
  };
  options.is_interesting = [&](const std::string& text, const ReduceInputs* of_text) {
    return test.Holds(text, of_text);
  };
  options.progress = [&](const std::string& step, int64_t instructions) {
    line.Show(fmt::format("{} instructions: {}", instructions, step), 0);
  };
  options.stop = &stop_requested;
  const auto start = std::chrono::steady_clock::now();
  const std::string text = PrintModule(**module, {.named = true});
  Expected<Reduction> reduction = [&] {
    const InterruptibleWork interruptible(&stop_requested);
    return Reduce(text, options);
  }();
  line.End();
  if (!reduction) {
    const std::string why = test.WhyNot(text, inputs->get());
    if (!why.empty()) reduction.error().hint = why;
    return ReportError(reduction.error());
  }
  if (auto written = WriteFile(flags.output, reduction->text); !written) {
    return ReportError(written.error());
  }
  Expected<std::string> about_inputs;
  if (reduction->inputs != nullptr) about_inputs = WriteInputs(*reduction->inputs, place);
  if (!about_inputs) return ReportError(about_inputs.error());
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  fmt::print(stderr, "gshard-opt: {} instructions of {}, by {} tests in {:.1f} s{}{}\n",
             reduction->instructions, reduction->instructions_before, reduction->tests,
             elapsed.count(), *about_inputs, test.AboutTime());
  return stop_requested ? kExitInterrupted : kExitOk;
}

}  // namespace gshard
