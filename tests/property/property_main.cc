// gshard_property: random programs, partitioned and whole, must agree.
//
//   gshard_property --budget-s 60            random programs for a minute
//   gshard_property --seeds 0:1000 --op dot  these seeds, half of the operations dots
//   gshard_property --print 17               the program of a seed
//   gshard_property --file case.hlo          one program from a file
//   gshard_property --seeds 0:10000 --one-way  gshard-run's program against gshard-opt partition's
//   gshard_property --seeds 0:10000 --ranks 3  on three ranks and on one: the same bits
//   gshard_property --seeds 0:20000 --grad   gradients against finite differences, in f64
//   gshard_property --seeds 0:20000 --shardy  Shardy's annotations, propagated by its rules and by
//                                            GSPMD's
//   gshard_property --decisions FILE         shardings and bytes moved are those that are kept
//   there gshard_property --write DIR --devices 8  programs as files, for other programs to run
// Failing programs are shrunk and written to --out (default: failures of the current folder). The
// last line is "N passed, N failed".
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "backends/cpu/machine/machine.h"
#include "tests/gradient/finite_differences.h"
#include "tests/property/check_apart.h"
#include "tests/property/decisions.h"
#include "tests/property/random_program.h"
#include "tests/property/shrink.h"

namespace gshard::property {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kSecondsPerCase = 30;
constexpr unsigned kSecondsPerShrinkingStep = 2;
constexpr int kShrinkBudget = 600;
constexpr size_t kMaxShrunk = 8;
// So many programs have each opcode in them many times over. To make them all takes seconds.
constexpr int64_t kCasesForCoverage = 20000;

struct Options {
  std::string seeds, op, file, write, decisions, out = "failures";
  double budget_s = 0;
  std::string print;
  bool partitioned = false, no_shrink = false, has_nan = false, coverage = false;
  bool propagate_twice = false, optimize = false, as_xla = false, one_way = false, grad = false,
       shardy = false;
  size_t max_failures = 20;
  uint64_t input_seed = 0;
  int64_t devices = 0;
  int jobs = 0, ranks = 0;
  unsigned seconds = kSecondsPerCase;
  uint64_t memory_gib = kMemoryGib;
};

double Since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

CheckOptions OptionsOf(const Program& program, uint64_t seed, bool thorough) {
  CheckOptions options;
  options.seed = seed;
  options.thorough = thorough;
  options.has_nan = program.has_nan;
  if (auto magnitudes = MagnitudeOfBody(program, 0, {})) options.magnitudes = *magnitudes;
  return options;
}

// `text` is of one device; its floating types are made f64.
Verdict CheckGradientText(const std::string& text, uint64_t seed = 0) {
  const GradientVerdict gradient =
      CheckGradient(InDoublePrecision(text), {.seed = seed, .rematerialize = seed % 4 == 3});
  if (gradient.kind == GradientVerdict::Kind::kAgrees) return {};
  if (gradient.kind == GradientVerdict::Kind::kSkipped) {
    return {Verdict::Kind::kSkipped, gradient.why};
  }
  return {Verdict::Kind::kFailed, "gradient", gradient.why};
}

// Text with Shardy's annotations also by GSPMD's rules; the failure says which ones.
Verdict CheckInModes(const std::string& text, const std::string& plain, CheckOptions options,
                     bool both) {
  const Verdict by_text = CheckProgram(text, plain, options);
  if (!both || by_text.kind != Verdict::Kind::kPassed) return by_text;
  options.mode = PropagationMode::kGspmd;
  Verdict other = CheckProgram(text, plain, options);
  if (other.kind == Verdict::Kind::kFailed) other.failure += " (GSPMD's rules)";
  return other;
}

Verdict Check(const Program& program, uint64_t seed, const Options& session) {
  if (session.grad) return CheckGradientText(ToText(program, false), seed);
  if (session.one_way) return CheckOneWay(ToText(program));
  if (session.ranks > 0) {
    return CheckRanks(ToText(program), session.ranks, OptionsOf(program, seed, false));
  }
  const bool thorough = seed % 4 == 0;
  CheckOptions options = OptionsOf(program, seed, thorough);
  options.propagate_twice = session.propagate_twice;
  options.optimize = session.optimize;
  options.as_xla = session.as_xla;
  return CheckInModes(ToText(program), ToText(program, false), options, session.shardy);
}

// One check in a process of its own.
Verdict CheckOneApart(unsigned seconds, uint64_t memory_gib,
                      const std::function<Verdict()>& check) {
  Verdict result;
  bool taken = false;
  CheckApart(
      {.jobs = 1, .seconds = seconds, .batch = 1, .memory_gib = memory_gib},
      [&]() -> std::optional<uint64_t> {
        return std::exchange(taken, true) ? std::nullopt : std::optional<uint64_t>(0);
      },
      [&](uint64_t) { return check(); },
      [&](uint64_t, const Verdict& verdict) {
        result = verdict;
        return true;
      });
  return result;
}

class Session {
 public:
  explicit Session(const Options& options) : options_(options) {
    if (!options.seeds.empty()) {
      const size_t colon = options.seeds.find(':');
      next_ = std::strtoull(options.seeds.c_str(), nullptr, 10);
      if (colon == std::string::npos) {
        end_ = next_ + 1;
      } else if (colon + 1 < options.seeds.size()) {
        end_ = std::strtoull(options.seeds.c_str() + colon + 1, nullptr, 10);
      }
    }
    budget_ = options.budget_s > 0 ? options.budget_s : end_ == UINT64_MAX ? 60 : 1e18;
  }

  int Run() {
    const Clock::time_point start = Clock::now();
    const uint64_t first = next_;
    const int jobs =
        options_.jobs > 0 ? options_.jobs : static_cast<int>(std::thread::hardware_concurrency());
    CheckApart(
        {.jobs = std::max(1, jobs), .seconds = kSecondsPerCase},
        [&]() -> std::optional<uint64_t> {
          if (next_ >= end_ || Since(start) >= budget_) return std::nullopt;
          return next_++;
        },
        [&](uint64_t seed) { return Check(Make(seed), seed, options_); },
        [&](uint64_t seed, const Verdict& verdict) { return Take(seed, verdict); });
    const double seconds = Since(start);
    for (size_t i = 0; i < failures_.size(); ++i) ReportFailure(i);
    bool covered = true;
    if (options_.coverage) covered = ReportCoverage();
    for (const auto& [what, count] : skipped_) fmt::print("skipped {}: {}\n", count, what);
    for (const auto& [what, count] : failed_) fmt::print("failed {}: {}\n", count, what);
    fmt::print("seeds {}:{} in {:.1f} s\n", first, next_, seconds);
    if (next_ < end_ && end_ != UINT64_MAX) {
      fmt::print("stopped before the end: {} of {} programs were run\n", next_ - first,
                 end_ - first);
    }
    if (failures_.size() >= options_.max_failures) fmt::print("stopped: too many failures\n");
    const size_t failed = failures_.size() + (covered ? 0 : 1);
    fmt::print("{} passed, {} failed\n", passed_, failed);
    return failed == 0 ? 0 : 1;
  }

  int Decisions() const {
    return CheckDecisions(options_.decisions, next_, end_,
                          [&](uint64_t seed) { return ToText(Make(seed)); });
  }

  int Write() {
    std::filesystem::create_directories(options_.write);
    for (uint64_t seed = next_; seed < end_; ++seed) {
      const Program program = Make(seed);
      const CheckOptions check = OptionsOf(program, seed, false);
      std::vector<double> noise;
      for (const Magnitude& magnitude : check.magnitudes) noise.push_back(magnitude.noise);
      std::ofstream(fmt::format("{}/seed_{}.hlo", options_.write, seed))
          << fmt::format("// noise of the outputs: {}\n{}", fmt::join(noise, " "), ToText(program));
    }
    return 0;
  }

  int RunFile() {
    std::ifstream in(options_.file);
    std::stringstream text;
    text << in.rdbuf();
    if (!in) {
      fmt::print(stderr, "{}: cannot be read\n", options_.file);
      return 1;
    }
    if (options_.partitioned) {
      fmt::print("{}\n", PartitionedText(text.str()));
      return 0;
    }
    CheckOptions check;
    check.seed = options_.input_seed;
    check.has_nan = options_.has_nan;
    check.optimize = options_.optimize;
    check.as_xla = options_.as_xla;
    const Verdict verdict = CheckOneApart(options_.seconds, options_.memory_gib, [&] {
      if (options_.grad) return CheckGradientText(text.str());
      if (options_.ranks > 0) return CheckRanks(text.str(), options_.ranks, check);
      if (options_.one_way) return CheckOneWay(text.str());
      return CheckInModes(text.str(), {}, check, options_.shardy);
    });
    const bool bad = verdict.kind == Verdict::Kind::kFailed;
    if (verdict.kind != Verdict::Kind::kPassed) {
      fmt::print("{}: {}\n{}\n", bad ? "failed" : "skipped", verdict.failure, verdict.detail);
    }
    if (options_.ranks > 0 && !bad) fmt::print("{} ranks: {}\n", options_.ranks, verdict.detail);
    fmt::print("{} passed, {} failed\n", verdict.kind == Verdict::Kind::kPassed ? 1 : 0,
               bad ? 1 : 0);
    return bad ? 1 : 0;
  }

  int Print() {
    const std::string text = ToText(Make(std::strtoull(options_.print.c_str(), nullptr, 10)));
    fmt::print("{}\n", text);
    if (options_.partitioned) fmt::print("{}\n", PartitionedText(text));
    return 0;
  }

 private:
  struct Failure {
    uint64_t seed = 0;
    Verdict verdict;
  };

  Program Make(uint64_t seed) const {
    return MakeRandomProgram(seed, {.focus = options_.op,
                                    .devices = options_.devices,
                                    .for_xla = !options_.write.empty(),
                                    .shardy = options_.shardy});
  }

  // What repeats the case, apart from the seed.
  std::string Flags() const {
    return (options_.op.empty() ? "" : " --op " + options_.op) +
           (options_.devices == 0 ? "" : fmt::format(" --devices {}", options_.devices)) +
           (options_.shardy ? " --shardy" : "");
  }

  bool Take(uint64_t seed, const Verdict& verdict) {
    if (verdict.kind == Verdict::Kind::kSkipped) {
      ++skipped_[verdict.failure];
      return true;
    }
    for (size_t i = 0; i < verdict.tiled.size(); ++i) tiled_[i] += verdict.tiled[i] ? 1 : 0;
    if (verdict.kind == Verdict::Kind::kPassed) {
      ++passed_;
      return true;
    }
    ++failed_[verdict.failure];
    failures_.push_back({seed, verdict});
    return failures_.size() < options_.max_failures;
  }

  void ReportFailure(size_t i) {
    const auto& [seed, verdict] = failures_[i];
    fmt::print("gshard_property --seeds {}{}: {}\n{}\n", seed, Flags(), verdict.failure,
               verdict.detail);
    Program small = Make(seed);
    Verdict last = verdict;
    if (!options_.no_shrink && i < kMaxShrunk) {
      const unsigned seconds =
          verdict.failure == "hang" ? kSecondsPerCase : kSecondsPerShrinkingStep;
      small = Shrink(std::move(small), kShrinkBudget, [&](const Program& candidate) {
        if (!MagnitudeOfBody(candidate, 0, {})) return false;
        const Verdict again = CheckOneApart(seconds, options_.memory_gib,
                                            [&] { return Check(candidate, seed, options_); });
        if (again.kind != Verdict::Kind::kFailed || again.failure != verdict.failure) return false;
        last = again;
        return true;
      });
    }
    const std::string text =
        fmt::format("// {}: {}\n// gshard_property --file THIS --input-seed {}{}{}\n{}",
                    last.failure, FirstLine(last.detail), seed, small.has_nan ? " --nan" : "",
                    options_.optimize    ? " --optimize"
                    : options_.as_xla    ? " --as-xla"
                    : options_.ranks > 0 ? fmt::format(" --ranks {}", options_.ranks)
                    : options_.one_way   ? " --one-way"
                    : options_.shardy    ? " --shardy"
                                         : (options_.grad ? " --grad" : ""),
                    ToText(small));
    std::error_code ignored;
    std::filesystem::create_directories(options_.out, ignored);
    const std::string path = fmt::format("{}/seed_{}{}{}.hlo", options_.out, seed,
                                         options_.op.empty() ? "" : "_", options_.op);
    std::ofstream(path) << text;
    fmt::print("written to {}:\n{}\n", path, text);
    std::fflush(stdout);
  }

  // How often each opcode was met tiled. False: one of those that are generated never was, or,
  // however few programs were run, is in none that could have been.
  bool ReportCoverage() const {
    fmt::print("programs with tiled operands or results, by opcode:\n");
    std::vector<std::string> row, missing;
    for (Opcode opcode : GeneratedOpcodes()) {
      const int64_t count = tiled_[static_cast<size_t>(opcode)];
      row.push_back(fmt::format("{} {}", OpcodeName(opcode), count));
      if (count == 0) missing.emplace_back(OpcodeName(opcode));
    }
    fmt::print("  {}\n", fmt::join(row, ", "));
    const std::vector<std::string> never_made = missing.empty() ? missing : NeverMade();
    if (!never_made.empty()) {
      fmt::print("in no program, for want of tests/property/make_*.cc or magnitude.cc: {}\n",
                 fmt::join(never_made, ", "));
      return false;
    }
    if (missing.empty() || passed_ < kCasesForCoverage) return true;
    fmt::print("never met: {}\n", fmt::join(missing, ", "));
    return false;
  }

  // Opcodes to be generated that none of the first programs has, run or not.
  std::vector<std::string> NeverMade() const {
    OpcodeSet made;
    for (uint64_t seed = 0; seed < kCasesForCoverage; ++seed) {
      for (const Body& body : MakeRandomProgram(seed, {}).bodies) {
        for (const Node& node : body.nodes) made.set(static_cast<size_t>(node.opcode));
      }
    }
    std::vector<std::string> missing;
    for (Opcode opcode : GeneratedOpcodes()) {
      if (!made.test(static_cast<size_t>(opcode))) missing.emplace_back(OpcodeName(opcode));
    }
    return missing;
  }

  const Options& options_;
  uint64_t next_ = 0, end_ = UINT64_MAX;
  double budget_ = 0;
  int64_t passed_ = 0;
  std::vector<Failure> failures_;
  std::map<std::string, int64_t> skipped_, failed_;
  std::array<int64_t, static_cast<size_t>(kOpcodeCount)> tiled_{};
};

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Random programs on random meshes: partitioned and whole, they must agree.");
  app.add_option("--seeds", options.seeds, "A:B, A: or one seed");
  app.add_option("--budget-s", options.budget_s, "Seconds (60 where seeds have no end)");
  app.add_option("--jobs", options.jobs, "Processes (default: cores)");
  app.add_option("--op", options.op, "A family that half of the operations are of")
      ->check(CLI::IsMember(FamilyNames()));
  app.add_option("--devices", options.devices, "Meshes of so many devices only")
      ->check(CLI::IsMember({2, 3, 4, 5, 6, 7, 8, 12, 16}));
  app.add_flag("--propagate-twice", options.propagate_twice,
               "Check that propagating again changes nothing");
  app.add_flag("--coverage", options.coverage,
               "Print how often each opcode was met; fail where one never was");
  app.add_option("--print", options.print, "Print the program of this seed");
  app.add_option("--write", options.write, "Write the programs of --seeds to this folder");
  app.add_flag("--partitioned", options.partitioned,
               "With --print or --file: propagated and partitioned, too");
  app.add_option("--file", options.file, "Check the program of this file");
  app.add_option("--seconds", options.seconds, "A program may take, with --file");
  app.add_option("--memory-gib", options.memory_gib,
                 "Addresses that a program may take, with --file (4)");
  app.add_option("--input-seed", options.input_seed, "Of the inputs, with --file");
  app.add_flag("--optimize", options.optimize, "Optimize after partitioning");
  app.add_flag("--as-xla", options.as_xla, "Partition as XLA decides");
  app.add_flag("--grad", options.grad, "Check the gradients of the program of one device, instead");
  app.add_flag("--shardy", options.shardy,
               "Annotations as Shardy's attributes; programs are propagated in both modes");
  app.add_flag("--one-way", options.one_way,
               "Check that gshard-run runs what gshard-opt partition prints, instead");
  app.add_option("--ranks", options.ranks,
                 "Check that so many ranks give the bits of one, instead (in one process)");
  app.add_option("--decisions", options.decisions,
                 "Compare what is decided for --seeds with the lines of this file");
  app.add_flag("--nan", options.has_nan, "Some inputs are NaN, with --file");
  app.add_option("--out", options.out, "Folder for failing programs");
  app.add_option("--max-failures", options.max_failures, "Stop after so many");
  app.add_flag("--no-shrink", options.no_shrink, "Write failing programs as they are");
  CLI11_PARSE(app, argc, argv);
  Session session(options);
  if (!options.decisions.empty()) return session.Decisions();
  if (!options.print.empty()) return session.Print();
  if (!options.file.empty()) return session.RunFile();
  if (!options.write.empty()) return session.Write();
  return session.Run();
}

}  // namespace
}  // namespace gshard::property

int main(int argc, char** argv) {
  if (const auto machine = gshard::cpu::SetUpMachine(); !machine) {
    fmt::print(stderr, "{}", gshard::Render(machine.error()));
    return 2;
  }
  return gshard::property::Main(argc, argv);
}
