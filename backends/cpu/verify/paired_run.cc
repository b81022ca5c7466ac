// Shards are copied to where they belong as they are made; the two graphs take turns.
#include "backends/cpu/verify/paired_run.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>
#include <utility>

#include "backends/cpu/arrays/buffer_bytes.h"
#include "backends/cpu/memory/memory.h"
#include "backends/cpu/verify/result_spread.h"
#include "ir/try.h"

namespace gshard::cpu {

MeshProducer::MeshProducer(std::span<const Candidate> candidates, bool first_pass,
                           ValueExchange& exchange, const MeshRun& run)
    : candidates_(candidates),
      first_pass_(first_pass),
      exchange_(exchange),
      iterations_(candidates.size(), 0),
      open_(candidates.size()),
      places_(candidates.size()) {
  // Most arrays are spread like others.
  using Key = std::tuple<const Sharding*, const DeviceClasses*, const Shape*, std::vector<int64_t>>;
  std::map<Key, std::shared_ptr<const TilePlaces>> known;
  const Program& program = *run.plan().program;
  for (size_t t = 0; t < candidates.size(); ++t) {
    if (program.probed[t] == kNoValue) continue;
    const Sharding* sharding = candidates[t].form->sharding;
    const Shape *shape = candidates[t].x->shape(), *tile = candidates[t].form->local->shape();
    auto& places = known[{sharding,
                          program.values[program.probed[t]].classes,
                          shape,
                          {tile->dims().begin(), tile->dims().end()}}];
    if (places == nullptr) {
      places = std::make_shared<TilePlaces>(run, *run.SpreadOfProbe(t, sharding), shape);
    }
    places_[t] = places;
  }
}

bool MeshProducer::Prepare(std::span<const uint32_t> probes) {
  const auto begin = std::chrono::steady_clock::now();
  const bool goes_on = exchange_.WaitUntilNeeded();
  waited_ += std::chrono::steady_clock::now() - begin;
  if (!goes_on) return false;
  for (uint32_t probe : probes) {
    open_[probe] = {};
    if (!candidates_[probe].Wants(iterations_[probe]++, first_pass_)) continue;
    const int64_t bytes = BufferBytes(candidates_[probe].x->shape());
    open_[probe].data = exchange_.Room(probe, bytes, candidates_[probe].in_each_pass);
    const bool has_copies = places_[probe] != nullptr && places_[probe]->has_copies();
    if (has_copies && !open_[probe].data.empty()) {
      open_[probe].other.resize(static_cast<size_t>(bytes));
    }
  }
  return true;
}

void MeshProducer::Show(uint32_t probe, uint32_t c, std::byte* data, int64_t part, int64_t parts) {
  Open& open = open_[probe];
  if (open.data.empty()) return;
  places_[probe]->Put(c, data, part, parts, open.data, open.other);
}

void MeshProducer::Finish(std::span<const uint32_t> probes) {
  for (uint32_t probe : probes) {
    if (!candidates_[probe].Wants(iterations_[probe] - 1, first_pass_)) continue;
    Open& open = open_[probe];
    WholeValue value;
    value.data = std::exchange(open.data, {});
    value.other = std::exchange(open.other, {});
    if (!value.other.empty() &&
        std::memcmp(value.other.data(), value.data.data(), value.data.size()) == 0) {
      value.other = {};
    }
    exchange_.Give(probe, std::move(value));
  }
}

Expected<void> PairedRun::Prepare(const Module& whole_module,
                                  std::span<const ProbePoint> whole_probes,
                                  const Module& partitioned,
                                  std::span<const ProbePoint> local_probes, const Inputs& inputs,
                                  bool at_once) {
  MeshRunOptions of_whole = options->mesh.ForWholeGraph(options->whole_grid);
  of_whole.probes = whole_probes;
  of_whole.probed_bytes = 1;  // what follows an array is computed from the value put in its place
  auto prepared = MeshRuns().PrepareIfRoom(whole_module, inputs, of_whole, no_room);
  if (!prepared) return Fail(prepared.error());
  whole = std::move(*prepared);
  if (whole == nullptr) return {};
  MeshRunOptions of_mesh = options->mesh;
  of_mesh.probes = local_probes;
  of_mesh.probed_bytes = kMaxProbed;
  prepared = options->runs.PrepareIfRoom(partitioned, inputs, of_mesh, no_room);
  if (!prepared) return Fail(prepared.error());
  mesh = std::move(*prepared);
  if (mesh == nullptr) return {};
  const int64_t whole_bytes = whole->plan().memory.arena_bytes();
  const int64_t mesh_bytes = mesh->plan().memory.arena_bytes();
  // Running after each other is slower than in turns, but better than being killed.
  const int64_t limit =
      options->mesh.memory_limit > 0 ? options->mesh.memory_limit : AvailableMemory();
  in_turns = whole_bytes + mesh_bytes + kMinBudget <= limit;
  arena_bytes = in_turns ? whole_bytes + mesh_bytes : std::max(whole_bytes, mesh_bytes);
  const int64_t free = limit - arena_bytes - (in_turns ? 0 : held_bytes);
  if (free < 0 || (!in_turns && at_once)) no_room = "no room for both graphs at once";
  if (!no_room.empty()) return {};
  const int64_t budget = budget_bytes > 0 ? budget_bytes : free / 2;
  exchange.emplace(candidates.size(), std::clamp<int64_t>(budget, 1, std::max<int64_t>(free, 1)),
                   in_turns);
  if (!in_turns) return {};
  GSHARD_TRY(whole->Start(options->run.stop));
  return options->runs.Start(*mesh, options->run.stop);
}

Expected<void> PairedRun::Run(ProbeObserver& consumer, const std::function<bool()>& is_done) {
  MeshProducer producer(candidates, first_pass, *exchange, *mesh);
  const double share = in_turns ? 0 : 0.5;  // of the mesh
  const auto told = [&](double done) {
    if (progress) progress(done);
  };
  auto produce = [&]() -> Expected<void> {
    if (!in_turns) {
      GSHARD_TRY(options->runs.Start(*mesh, options->run.stop));
    }
    RunOptions run = options->run;
    run.observer = &producer;
    if (!in_turns) run.progress = [&](double done) { told(share * done); };
    const auto begin = std::chrono::steady_clock::now();
    Expected<void> done = options->runs.Run(*mesh, run);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    mesh_time_s = (elapsed - producer.waited()).count();
    if (!in_turns) mesh->FreeMemory();
    return done;
  };
  auto consume = [&]() -> Expected<void> {
    if (!in_turns) {
      GSHARD_TRY(whole->Start(options->run.stop));
    }
    RunOptions run = options->run;
    run.observer = &consumer;
    run.progress = [&](double done) {
      options->runs.ReportProgress();
      told(share + (1 - share) * done);
    };
    return whole->Run(run);
  };
  bool stops = false;
  const auto [given, taken] = exchange->Run(produce, consume, [&](const Expected<void>& done) {
    stops = is_done();
    return !stops && done;  // to its outputs
  });
  if (stops) return {};  // both were
  return taken ? given : taken;
}

std::vector<OutputArray> PairedRun::Outputs() const {
  return whole->Outputs(options->output_count);
}

Expected<VerifyResult> PairedRun::CompareOutputs(const Module& whole_module,
                                                 const Module& partitioned, const Inputs& inputs,
                                                 const OutputTolerance& tolerance) {
  const std::vector<OutputArray> outputs = Outputs();
  if (!in_turns) {
    whole->FreeMemory();
    MeshRunOptions of_mesh = options->mesh;
    of_mesh.probes = {};
    mesh = GSHARD_TRY(options->runs.Prepare(partitioned, inputs, of_mesh));
    GSHARD_TRY(options->runs.Start(*mesh, options->run.stop));
    GSHARD_TRY(options->runs.Run(*mesh, options->run));
  }
  options->runs.GatherResults(*mesh);
  if (options->has_reference) {
    FindResultSpreads(*mesh, partitioned, outputs, options->reference_results,
                      [](const Diagnostic&) {});
  }
  return VerifyOutputs(*mesh, outputs, whole_module, tolerance);
}

std::vector<std::optional<MeshRun::ProbeSpread>> PairedRun::Spreads() const {
  std::vector<std::optional<MeshRun::ProbeSpread>> spreads;
  for (size_t t = 0; t < candidates.size(); ++t) {
    spreads.push_back(mesh->SpreadOfProbe(t, candidates[t].form->sharding));
  }
  return spreads;
}

}  // namespace gshard::cpu
