// The stages in their order: each takes what those before it have returned.
#include "backends/cpu/emulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/feed_items.h"
#include "backends/cpu/machine/machine.h"
#include "backends/cpu/named_values.h"
#include "backends/cpu/prepared_run.h"
#include "backends/cpu/rank_agreement.h"
#include "backends/cpu/result_files.h"
#include "backends/cpu/step_runs.h"
#include "backends/cpu/verify/result_spread.h"
#include "backends/cpu/whole_run.h"
#include "backends/cpu/widened_runs.h"
#include "ir/host_transfers.h"
#include "ir/output_file.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

void ReportPlan(const PreparedRun& prepared, RunReport& report) {
  report.threads = prepared.mesh.threads;
  report.propagated_as = prepared.programs.propagated_as;
  report.partition_time_s = prepared.programs.partition_time_s;
  report.devices = prepared.mesh.grid.device_count();
  report.plan_time_s = prepared.run->plan_seconds();
  report.device_peak_bytes = prepared.run->plan().memory.device_peak_bytes;
  report.model = prepared.programs.model;
  report.inputs = prepared.run->input_summary();
}

// Runs of neighbouring devices that did the same.
void ReportDevices(const std::vector<DeviceWork>& devices, RunReport& report) {
  if (devices.empty()) return;
  report.device_flops = report.device_peak_bytes = 0;
  for (size_t d = 0; d < devices.size(); ++d) {
    const DeviceWork& work = devices[d];
    report.device_flops = std::max(report.device_flops, work.flops);
    report.device_peak_bytes = std::max(report.device_peak_bytes, work.peak_bytes);
    if (d > 0 && work == devices[d - 1]) {
      ++report.device_groups.back().count;
    } else {
      report.device_groups.push_back({static_cast<int64_t>(d), 1, work.flops, work.peak_bytes});
    }
  }
}

void ReportSteps(const StepRuns& steps, RunReport& report) {
  report.step_times_s = steps.times_s;
  report.flops = steps.counts.flops;
  ReportDevices(steps.counts.devices, report);
  report.partial_sum_bytes = steps.counts.partial_sum_bytes;
  for (const auto& [kind, totals] : steps.counts.collectives) {
    report.collectives.push_back({kind, totals.count, totals.bytes_per_device});
  }
}

Diagnostic Stopped() { return MakeError("E-RUN-STOPPED", "interrupted"); }

// What the judged step tells of the whole graph's own way; nothing: it is to run by itself.
Expected<std::optional<OwnWay>> OwnWayOf(const PreparedRun& prepared,
                                         std::optional<JudgedStep>& judged,
                                         const EmulateOptions& options) {
  if (!judged) return std::nullopt;
  StepCheckRuns& runs = judged->runs;
  if (runs.outputs) return OwnWay{std::move(*runs.outputs), {}};
  // Picks are the mesh's where every step is right.
  const bool is_proven = judged->check.unsettled == 0 && judged->check.outputs_agree;
  if (runs.choices == nullptr || !is_proven) return std::nullopt;
  auto own = RunWithPicks(prepared, *runs.mesh, *runs.choices, options);
  runs.choices.reset();
  return own;
}

// Where the mesh runs a pipelined program that is another function in micro-batches: puts what
// those compute into `expected`, and returns what was there.
Expected<std::vector<OutputArray>> PutMicrobatched(const PreparedRun& prepared,
                                                   const EmulateOptions& options,
                                                   const RankAgreement& ranks,
                                                   std::vector<OutputArray>& expected) {
  std::vector<OutputArray> whole_batch;
  const MicrobatchedReference& reference = prepared.programs.microbatched;
  if (reference.module == nullptr) return whole_batch;
  auto microbatched = GSHARD_TRY(ranks.Agree(
      ranks.IsFirst() ? RunMicrobatched(prepared, options) : Expected<std::vector<OutputArray>>()));
  whole_batch = expected;
  TakeMicrobatched(reference.sums, microbatched, expected);
  return whole_batch;
}

// A step of the mesh in `prepared.run` and, with --verify, what the whole graph makes of the same
// inputs.
struct ComparedStep {
  StepRuns steps;
  std::vector<OutputArray> expected;  // results of the whole graph
  std::vector<NearTie> near_ties;     // where `expected` follows from the mesh's picks
  // The reference's own results, where `expected` has some of its micro-batches; else empty.
  std::vector<OutputArray> whole_batch;
  std::optional<StepCheckResult> check;  // of the step that was verified as it ran
};

// Errors: of planning and running; those of this rank alone do not return.
Expected<ComparedStep> RunComparedStep(PreparedRun& prepared, const EmulateOptions& options,
                                       const RankAgreement& ranks) {
  ComparedStep step;
  const bool verifies = options.verify && ranks.IsFirst();
  auto judged = GSHARD_TRY(CheckFirstStep(prepared, options));
  auto own = GSHARD_TRY(OwnWayOf(prepared, judged, options));
  if (own.has_value()) {
    step.expected = std::move(own->outputs);
    step.near_ties = std::move(own->near_ties);
  } else if (options.verify) {
    step.expected = GSHARD_TRY(ranks.Agree(verifies ? RunWholeGraph(prepared, options)
                                                    : Expected<std::vector<OutputArray>>()));
  }
  step.whole_batch = GSHARD_TRY(PutMicrobatched(prepared, options, ranks, step.expected));
  if (judged.has_value()) {
    prepared.run = std::move(judged->runs.mesh);
    step.steps = std::move(judged->steps);
    step.check = std::move(judged->check);
    return step;
  }
  GSHARD_TRY(ranks.Agree(prepared.run->Start(options.stop)));
  auto steps = RunSteps(*prepared.run, options);
  if (!steps) {
    ranks.FailAlone(steps.error());
    return Fail(steps.error());
  }
  step.steps = std::move(*steps);
  return step;
}

// The verdict: outputs, then every array that is known by name, then, where that does not explain
// what differs, outputs in double precision; to `verify` on the first rank. `prepared.run` has run
// `step`, and is given up.
Expected<void> Verify(PreparedRun& prepared, const EmulateOptions& options,
                      const RankAgreement& ranks, ComparedStep step,
                      std::optional<VerifyResult>& verify) {
  const bool verifies = ranks.IsFirst();
  const MeshRun& run = *prepared.run;
  std::vector<OutputArray>& expected = step.expected;
  if (verifies) {
    options.Progress("compare", 0);
    verify = VerifyOutputs(run, expected, prepared.programs.Reference(), options.tolerance);
    verify->near_ties = std::move(step.near_ties);
    if (prepared.programs.microbatched.module != nullptr) {
      verify->microbatch_sums = prepared.programs.microbatched.sums;
      CompareWithWholeBatch(run, step.whole_batch, *verify->microbatch_sums);
      step.whole_batch.clear();
    }
  }
  GSHARD_TRY(ranks.Agree(verifies ? CheckDetermined(*verify, run) : Expected<void>()));
  if (verifies && !verify->OutputsDiffer()) expected.clear();
  prepared.run.reset();
  Expected<void> named;
  if (verifies) {
    named = VerifyNamedValues(prepared, options, *verify, std::move(step.check));
  } else {
    ReplayNamedValues(prepared, options);
  }
  named = ranks.Agree(std::move(named));
  if (!named) return Fail(named.error());
  if (!ranks.AsFirstSays(verifies && NeedsWidenedRuns(*verify))) return {};
  Expected<void> widened;
  if (verifies) {
    widened = VerifyWidened(prepared, options, expected, *verify);
  } else {
    ReplayWidened(prepared, options);
  }
  widened = ranks.Agree(std::move(widened));
  if (!widened) return Fail(widened.error());
  return {};
}

// How many draws of random integers that index something are run, of those that it takes to reach
// all of it: as many as take about a second, by figures that are the same on every machine.
int64_t AffordedDraws(const PreparedRun& prepared, int64_t wanted) {
  constexpr double kBudget = 4e9;  // bytes, or what takes as long
  constexpr double kFlopsPerByte = 8;
  constexpr double kBytesPerInstruction = 2000;
  const MeshPrograms& programs = prepared.programs;
  if (wanted <= 1 || !programs.feeds.feeds.empty() || !programs.model) return 1;
  double instructions = 0;
  for (const Computation* computation : programs.program->computations()) {
    instructions += static_cast<double>(computation->instructions().size());
  }
  const double work =
      static_cast<double>(programs.grid.device_count()) *
      (programs.model->flops / kFlopsPerByte + static_cast<double>(programs.model->peak_bytes) +
       kBytesPerInstruction * instructions);
  return std::clamp(static_cast<int64_t>(kBudget / work), int64_t{1}, wanted);
}

// The draws after the first: the same once more, but for files and times. The worst verdict stays.
Expected<void> VerifyMoreDraws(PreparedRun& prepared, EmulateOptions options,
                               const RankAgreement& ranks, RunReport& report) {
  report.draws.wanted = report.inputs.WantedDraws();
  const int64_t draws = AffordedDraws(prepared, report.draws.wanted);
  options.repeat = 0;
  options.trace.clear();
  options.dumps.clear();
  options.check_nan = false;
  prepared.mesh.keep.clear();
  prepared.mesh.keep_forms.clear();
  for (int64_t draw = 1; draw < draws; ++draw) {
    const bool is_first = ranks.IsFirst();
    if (ranks.AsFirstSays(is_first && !report.verify->ok)) return {};
    prepared.inputs->set_draw(draw);
    prepared.run = GSHARD_TRY(
        ranks.Agree(MeshRun::Prepare(*prepared.programs.program, *prepared.inputs, prepared.mesh)));
    auto step = GSHARD_TRY(RunComparedStep(prepared, options, ranks));
    if (step.steps.stopped) ranks.FailAlone(Stopped());
    if (step.steps.stopped) return Fail(Stopped());
    ranks.GatherResults(*prepared.run, /*reads=*/true, 0);
    if (is_first && prepared.programs.given != nullptr) {
      FindResultSpreads(*prepared.run, *prepared.programs.program, step.expected,
                        prepared.programs.reference_results, [](const Diagnostic&) {});
    }
    InputSummary inputs = prepared.run->input_summary();
    std::optional<VerifyResult> verify;
    GSHARD_TRY(Verify(prepared, options, ranks, std::move(step), verify));
    ++report.draws.done;
    if (!is_first || verify->Status() <= report.verify->Status()) continue;
    report.verify = std::move(verify);
    report.inputs = std::move(inputs);
    report.draws.told = draw;
  }
  return {};
}

// The last step of all ranks in one file.
Expected<void> WriteTrace(const Trace& trace, const EmulateOptions& options,
                          const RankAgreement& ranks) {
  const int rank = ranks.several() ? options.ranks->rank() : 0;
  const Trace::Format format = Trace::FormatOf(options.trace);
  const std::vector<std::string> events = ranks.Gather(
      trace.Events(rank, ranks.several() ? fmt::format("rank {}", rank) : "gshard-run", format),
      "the trace");
  return ranks.Agree(ranks.IsFirst()
                         ? WriteWholeFile(options.trace, Trace::Document(events, format))
                         : Expected<void>());
}

// All stages; each adds to `report` what it has measured, which stays where a later one ends with
// E-RUN-STOPPED. Returns the feeds that had no room for their items: with them known, all is to be
// done again.
Expected<std::vector<FeedCapacity>> RunStages(std::unique_ptr<Module> module,
                                              std::unique_ptr<Module> given,
                                              const EmulateOptions& options,
                                              const std::vector<FeedCapacity>& capacities,
                                              RunReport& report) {
  const RankAgreement ranks(options.ranks, options.fail_alone);
  auto prepared = GSHARD_TRY(ranks.Agree(
      PrepareRun(std::move(module), std::move(given), options, capacities, ranks.IsFirst())));
  ReportPlan(prepared, report);
  const bool verifies = options.verify && ranks.IsFirst();
  auto step = GSHARD_TRY(RunComparedStep(prepared, options, ranks));
  StepRuns* const steps = &step.steps;
  report.step_was_verified = step.check.has_value();
  MeshRun& run = *prepared.run;
  ReportSteps(*steps, report);
  if (steps->stopped) ranks.FailAlone(Stopped());
  report.peak_memory_bytes = run.executor().memory_bytes();
  if (steps->stopped) return Fail(Stopped());
  if (steps->trace != nullptr) {
    GSHARD_TRY(WriteTrace(*steps->trace, options, ranks));
  }

  const MeshPrograms& programs = prepared.programs;
  auto items = GSHARD_TRY(CountItems(run, *programs.program, programs.feeds));
  if (!items.overflown.empty()) return std::move(items.overflown);
  const bool in_pieces = WritesInPieces(prepared, options);
  ranks.GatherResults(run, options.verify || (!options.output.empty() && !in_pieces),
                      options.dumps.size());
  if (verifies && programs.given != nullptr) {
    FindResultSpreads(run, *programs.program, step.expected, programs.reference_results,
                      [&](const Diagnostic& note) { options.Warn(note); });
  }
  if (in_pieces && !ranks.IsFirst()) GivePieces(prepared);
  if (ranks.IsFirst()) NoteUnknownSizes(prepared, options);
  GSHARD_TRY(ranks.Agree(ranks.IsFirst() ? WriteResults(prepared, items, options, in_pieces)
                                         : Expected<void>()));
  report.ranks = ranks.RankReports(run);
  if (!options.verify) return {};
  auto verified = Verify(prepared, options, ranks, std::move(step), report.verify);
  if (!verified) return Fail(verified.error());
  verified = VerifyMoreDraws(prepared, options, ranks, report);
  report.not_exercised = prepared.coverage->Missing();
  if (!verified) return Fail(verified.error());
  return {};
}

}  // namespace

Expected<Emulation> Emulate(std::unique_ptr<Module> module, const EmulateOptions& options,
                            std::unique_ptr<Module> reference) {
  if (const auto warning = WarningOfOldKernel()) options.Warn(*warning);
  // Feeds of unknown size show in a first run how many items they have.
  const bool may_repeat = HasHostTransfers(*module);
  const auto copy = [&](std::unique_ptr<Module>& of) {
    return may_repeat && of != nullptr ? of->Clone() : std::move(of);
  };
  std::vector<FeedCapacity> capacities;
  for (;;) {
    Emulation emulation;
    auto overflown =
        RunStages(copy(module), copy(reference), options, capacities, emulation.report);
    // To be stopped is no error, but an end with what there is.
    if (!overflown && overflown.error().code == "E-RUN-STOPPED") {
      emulation.interrupted = emulation.report.interrupted = true;
    } else if (!overflown) {
      return Fail(overflown.error());
    } else if (!overflown->empty()) {
      capacities = std::move(*overflown);
      continue;
    }
    return emulation;
  }
}

}  // namespace gshard::cpu
