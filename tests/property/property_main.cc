// gshard_property: random programs, partitioned and whole, must agree.
//
//   gshard_property --budget-s 60            random programs for a minute
//   gshard_property --seeds 0:1000 --op dot  these seeds, half of the operations dots
//   gshard_property --print 17               the program of a seed
//   gshard_property --file case.hlo          one program from a file
// A failing program is shrunk and written to --out (default: failures of the current folder). The
// last line is "N passed, N failed".
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/property/check_apart.h"
#include "tests/property/random_program.h"
#include "tests/property/shrink.h"

namespace gshard::property {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kSecondsPerCase = 30;
constexpr unsigned kSecondsPerShrinkingStep = 2;
constexpr int kShrinkBudget = 600;

struct Options {
  std::string seeds, op, file, out = "failures";
  double budget_s = 0;
  std::string print;
  bool partitioned = false, no_shrink = false, has_nan = false;
  int64_t most_failures = 20;
  uint64_t input_seed = 0;
};

double Since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

CheckOptions OptionsOf(const Program& program, uint64_t seed, bool thorough) {
  CheckOptions options;
  options.seed = seed;
  options.thorough = thorough;
  options.has_nan = program.has_nan;
  if (auto magnitudes = MagnitudeOfBody(program, 0, {})) options.magnitudes = *magnitudes;
  return options;
}

class Session {
 public:
  explicit Session(const Options& options) : options_(options) {}

  int Run() {
    if (!options_.file.empty()) return RunFile();
    uint64_t first = 0, last = UINT64_MAX;
    if (!options_.seeds.empty()) {
      const size_t colon = options_.seeds.find(':');
      first = std::strtoull(options_.seeds.c_str(), nullptr, 10);
      last = colon == std::string::npos
                 ? first + 1
                 : std::strtoull(options_.seeds.c_str() + colon + 1, nullptr, 10);
    }
    const double budget = options_.budget_s > 0    ? options_.budget_s
                          : options_.seeds.empty() ? 60
                                                   : 1e18;
    const Clock::time_point start = Clock::now();
    for (uint64_t seed = first; seed < last && Since(start) < budget; ++seed) {
      if (failed_ >= options_.most_failures) {
        fmt::print("{} failures: stopped at seed {}\n", failed_, seed);
        break;
      }
      RunSeed(seed);
    }
    for (const auto& [what, count] : skipped_) fmt::print("skipped {}: {}\n", count, what);
    for (const auto& [what, count] : failures_) fmt::print("failed {}: {}\n", count, what);
    fmt::print("{:.1f} s\n{} passed, {} failed\n", Since(start), passed_, failed_);
    return failed_ == 0 ? 0 : 1;
  }

 private:
  static Verdict Check(const Program& program, uint64_t seed, bool thorough,
                       unsigned seconds = kSecondsPerCase) {
    return CheckApart(ToText(program), thorough ? ToText(program, false) : std::string(),
                      OptionsOf(program, seed, thorough), seconds);
  }

  void RunSeed(uint64_t seed) {
    const Program program = MakeRandomProgram(seed, options_.op);
    const bool thorough = seed % 4 == 0;
    const Verdict verdict = Check(program, seed, thorough);
    if (verdict.kind == Verdict::Kind::kPassed) {
      ++passed_;
      return;
    }
    if (verdict.kind == Verdict::Kind::kSkipped) {
      ++skipped_[verdict.failure];
      return;
    }
    ++failed_;
    ++failures_[verdict.failure];
    fmt::print("seed {}{}: {}\n{}\n", seed, options_.op.empty() ? "" : " --op " + options_.op,
               verdict.failure, verdict.detail);
    Program small = program;
    Verdict last = verdict;
    if (!options_.no_shrink) {
      const unsigned seconds =
          verdict.failure == "hang" ? kSecondsPerCase : kSecondsPerShrinkingStep;
      small = Shrink(program, kShrinkBudget, [&](const Program& candidate) {
        if (!MagnitudeOfBody(candidate, 0, {})) return false;
        const Verdict again = Check(candidate, seed, thorough, seconds);
        if (again.kind != Verdict::Kind::kFailed || again.failure != verdict.failure) return false;
        last = again;
        return true;
      });
    }
    const std::string text =
        fmt::format("// {}: {}\n// gshard_property --file THIS --input-seed {}{}\n{}", last.failure,
                    FirstLine(last.detail), seed, small.has_nan ? " --nan" : "", ToText(small));
    std::error_code ignored;
    std::filesystem::create_directories(options_.out, ignored);
    const std::string path = fmt::format("{}/seed_{}{}{}.hlo", options_.out, seed,
                                         options_.op.empty() ? "" : "_", options_.op);
    std::ofstream(path) << text;
    fmt::print("written to {}:\n{}\n", path, text);
    std::fflush(stdout);
  }

  static std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

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
    const Verdict verdict = CheckApart(text.str(), {}, check, kSecondsPerCase);
    const bool bad = verdict.kind == Verdict::Kind::kFailed;
    if (verdict.kind != Verdict::Kind::kPassed) {
      fmt::print("{}: {}\n{}\n", bad ? "failed" : "skipped", verdict.failure, verdict.detail);
    }
    fmt::print("{} passed, {} failed\n", verdict.kind == Verdict::Kind::kPassed ? 1 : 0,
               bad ? 1 : 0);
    return bad ? 1 : 0;
  }

  const Options& options_;
  int64_t passed_ = 0, failed_ = 0;
  std::map<std::string, int64_t> skipped_, failures_;
};

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Random programs on random meshes: partitioned and whole, they must agree.");
  app.add_option("--seeds", options.seeds, "A:B, or one seed");
  app.add_option("--budget-s", options.budget_s, "Seconds (60 without --seeds)");
  app.add_option("--op", options.op, "A family that half of the operations are of")
      ->check(CLI::IsMember(FamilyNames()));
  app.add_option("--print", options.print, "Print the program of this seed");
  app.add_flag("--partitioned", options.partitioned,
               "With --print or --file: propagated and partitioned, too");
  app.add_option("--file", options.file, "Check the program of this file");
  app.add_option("--input-seed", options.input_seed, "Of the inputs, with --file");
  app.add_flag("--nan", options.has_nan, "Some inputs are NaN, with --file");
  app.add_option("--out", options.out, "Folder for failing programs");
  app.add_option("--max-failures", options.most_failures, "Stop after so many");
  app.add_flag("--no-shrink", options.no_shrink, "Write failing programs as they are");
  CLI11_PARSE(app, argc, argv);
  if (!options.print.empty()) {
    const Program program =
        MakeRandomProgram(std::strtoull(options.print.c_str(), nullptr, 10), options.op);
    const std::string text = ToText(program);
    fmt::print("{}\n", text);
    if (options.partitioned) fmt::print("{}\n", PartitionedText(text));
    return 0;
  }
  return Session(options).Run();
}

}  // namespace
}  // namespace gshard::property

int main(int argc, char** argv) { return gshard::property::Main(argc, argv); }
