// Time of one evaluation of a plan (core/estimate/plan.h), on one core: copy, annotate, propagate,
// partition, clean, price; and of its parts.
//
//   evaluation_bench FILE.hlo...              medians, ms of the processor
//   evaluation_bench --profile 10 FILE.hlo    evaluates for so many seconds, for a profiler
//
// The program's own annotations are the plan: of one that has none (samples/moe_train.hlo), what
// `gshard-opt annotate` makes of it. Reading is not counted, nor, where a search does it
// once for all plans (core/spmd/ready_module.h), what comes before propagation.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "core/analysis/attention/known_masked_shares.h"
#include "core/estimate/plan.h"
#include "core/partition/plan/known_reshard_plans.h"
#include "core/partition/scope/partition_tables.h"
#include "core/propagation/derived_shardings.h"
#include "core/spmd/per_device_module.h"
#include "core/spmd/ready_module.h"
#include "core/transforms/inline_calls.h"
#include "ir/parser.h"

namespace gshard {
namespace {

constexpr int kRepetitions = 25;

template <typename T>
T Must(Expected<T> value) {
  if (value.has_value()) return std::move(*value);
  std::fputs(Render(value.error()).c_str(), stderr);
  std::exit(1);
}

// Processor time of this thread: those of OpenBLAS, which is linked, poll when they start.
double ThreadMs() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

template <typename F>
double MedianMs(F&& f) {
  std::vector<double> times;
  for (int i = 0; i < kRepetitions; ++i) {
    const double begin = ThreadMs();
    f();
    times.push_back(ThreadMs() - begin);
  }
  std::nth_element(times.begin(), times.begin() + kRepetitions / 2, times.end());
  return times[kRepetitions / 2];
}

struct Bench {
  std::unique_ptr<Module> whole;
  Chip chip = Must(BuiltInChip("tpu-v5p"));
  DeviceProgramOptions program;
  CostOptions cost;
  KnownReshardPlans reshard_plans;
  KeptPartitionTables partition_tables;
  DerivedShardings derived;
  KnownMaskedShares masked_shares;
  std::optional<ReadyModule> ready;

  explicit Bench(const char* path)
      : whole(Must(ParseModule(Must(SourceText::Open(path))))), derived(whole->context()) {
    Must(InlineCalls(*whole));
    program.counts_useful_flops = false;
    program.tells_causes = false;
    program.reshard_plans = &reshard_plans;
    program.partition_tables = &partition_tables;
    program.propagation.derived = &derived;
    cost.masked_shares = &masked_shares;
    ready = ReadyModule::Make(*whole, program.propagation.mode);
    if (ready) program.ready = &*ready;
  }
  const Module& plan() const { return ready ? ready->module() : *whole; }
  PlanFigures Evaluate() const { return Must(PricePlan(plan(), {}, chip, program, cost)); }
};

void Report(const char* path) {
  const Bench bench(path);
  const PlanFigures figures = bench.Evaluate();
  const double all = MedianMs([&] { bench.Evaluate(); });
  const double clone = MedianMs([&] { bench.plan().Clone(); });
  const double propagate = MedianMs([&] {
    PassContext context;
    auto module = bench.plan().Clone();
    PerDeviceOptions way;
    way.ready = bench.program.ready;
    Must(CompleteShardings(*module, context, way));
  });
  const double partition =
      MedianMs([&] { Must(MakeDeviceProgram(bench.plan().Clone(), bench.program)); });
  fmt::print(
      "{}: {:.2f} ms; clone {:.2f}, propagate {:.2f}, partition {:.2f}, price {:.2f}; step "
      "{:.6g} s, peak {} bytes\n",
      path, all, clone, propagate - clone, partition - propagate, all - partition,
      figures.step.step_time_s, figures.step.peak_bytes);
}

}  // namespace
}  // namespace gshard

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "--profile") {
    const gshard::Bench bench(argv[3]);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(argv[2]));
    int count = 0;
    for (; std::chrono::steady_clock::now() < end; ++count) bench.Evaluate();
    fmt::print("{} evaluations\n", count);
    return 0;
  }
  for (int i = 1; i < argc; ++i) gshard::Report(argv[i]);
}
