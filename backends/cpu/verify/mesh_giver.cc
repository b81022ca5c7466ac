// Shards are copied to where they belong as they are made; the two graphs take turns.
#include "backends/cpu/verify/mesh_giver.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <thread>
#include <tuple>
#include <utility>

#include "backends/cpu/arrays/buffer_bytes.h"
#include "backends/cpu/memory/memory.h"

namespace gshard::cpu {

MeshGiver::MeshGiver(std::span<const Candidate> candidates, ValueExchange& exchange,
                     const MeshRun& run)
    : candidates_(candidates),
      exchange_(exchange),
      iterations_(candidates.size(), 0),
      open_(candidates.size()),
      places_(candidates.size()) {
  // Most arrays are spread like others.
  using Key = std::tuple<const Sharding*, const DeviceClasses*, const Shape*, std::vector<int64_t>>;
  std::map<Key, std::shared_ptr<const TilePlaces>> known;
  const Program& program = *run.plan().program;
  for (size_t t = 0; t < candidates.size(); ++t) {
    if (program.tapped[t] == kNoValue) continue;
    const Sharding* sharding = candidates[t].form->sharding;
    const Shape *shape = candidates[t].x->shape(), *tile = candidates[t].form->local->shape();
    auto& places = known[{sharding,
                          program.values[program.tapped[t]].classes,
                          shape,
                          {tile->dims().begin(), tile->dims().end()}}];
    if (places == nullptr) {
      places = std::make_shared<TilePlaces>(run, *run.SpreadOfTap(t, sharding), shape);
    }
    places_[t] = places;
  }
}

bool MeshGiver::Prepare(std::span<const uint32_t> taps) {
  const auto begin = std::chrono::steady_clock::now();
  const bool goes_on = exchange_.WaitUntilNeeded();
  waited_ += std::chrono::steady_clock::now() - begin;
  if (!goes_on) return false;
  for (uint32_t tap : taps) {
    open_[tap] = {};
    if (!candidates_[tap].Wants(iterations_[tap]++, true)) continue;
    const int64_t bytes = BufferBytes(candidates_[tap].x->shape());
    open_[tap].data = exchange_.Room(tap, bytes);
    const bool has_copies = places_[tap] != nullptr && places_[tap]->has_copies();
    if (has_copies && !open_[tap].data.empty()) {
      open_[tap].other.resize(static_cast<size_t>(bytes));
    }
  }
  return true;
}

void MeshGiver::Show(uint32_t tap, uint32_t c, std::byte* data, int64_t part, int64_t parts) {
  Open& open = open_[tap];
  if (open.data.empty()) return;
  places_[tap]->Put(c, data, part, parts, open.data, open.other);
}

void MeshGiver::Finish(std::span<const uint32_t> taps) {
  for (uint32_t tap : taps) {
    if (!candidates_[tap].Wants(iterations_[tap] - 1, true)) continue;
    Open& open = open_[tap];
    WholeValue value;
    value.data = std::exchange(open.data, {});
    value.other = std::exchange(open.other, {});
    if (!value.other.empty() &&
        std::memcmp(value.other.data(), value.data.data(), value.data.size()) == 0) {
      value.other = {};
    }
    exchange_.Give(tap, std::move(value));
  }
}

Expected<void> MeshAhead::Prepare(const Module& whole_module, std::span<const TapPoint> whole_taps,
                                  const Module& partitioned, std::span<const TapPoint> local_taps,
                                  const Inputs& inputs) {
  MeshRunOptions of_whole = options->mesh.ForWholeGraph(options->whole_grid);
  of_whole.taps = whole_taps;
  of_whole.tapped_bytes = 1;  // what follows an array is computed from the value put in its place
  auto prepared = MeshRun::Prepare(whole_module, inputs, of_whole);
  if (!prepared) return Fail(prepared.error());
  whole = std::move(*prepared);
  MeshRunOptions of_mesh = options->mesh;
  of_mesh.taps = local_taps;
  of_mesh.tapped_bytes = kMostTapped;
  prepared = options->runs.Prepare(partitioned, inputs, of_mesh);
  if (!prepared) return Fail(prepared.error());
  mesh = std::move(*prepared);
  arena_bytes = whole->plan().memory.arena_bytes() + mesh->plan().memory.arena_bytes();
  const int64_t limit =
      options->mesh.memory_limit > 0 ? options->mesh.memory_limit : AvailableMemory();
  if (arena_bytes + kLeastBudget > limit) {
    return Fail(MakeError("E-RUN-MEMORY", "no room for both graphs at once"));
  }
  // Nothing is judged a second time: half of what is free is better than a step left out.
  const int64_t budget = std::max(options->budget_bytes, (limit - arena_bytes) / 2);
  exchange.emplace(candidates.size(), std::min(budget, limit - arena_bytes), true);
  return {};
}

Expected<void> MeshAhead::Run(TapObserver& taker, const std::function<bool()>& is_done) {
  MeshGiver giver(candidates, *exchange, *mesh);
  if (Expected<void> done = whole->Start(options->run.stop); !done) return done;
  if (Expected<void> done = options->runs.Start(*mesh, options->run.stop); !done) return done;
  Expected<void> given, taken;
  std::exception_ptr thrown, thrown_by_giver;
  std::thread thread([&] {
    try {
      RunOptions run = options->run;
      run.observer = &giver;
      if (exchange->Begin()) {
        const auto begin = std::chrono::steady_clock::now();
        given = options->runs.Run(*mesh, run);
        const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
        mesh_time_s = (elapsed - giver.waited()).count();
      }
    } catch (...) {
      thrown_by_giver = std::current_exception();
    }
    exchange->End();
  });
  try {
    RunOptions run = options->run;
    run.observer = &taker;
    run.progress = options->progress;
    taken = whole->Run(run);
  } catch (...) {
    thrown = std::current_exception();
  }
  const bool stops = !thrown && is_done();
  if (stops || thrown || !taken) {
    exchange->Close();
  } else {
    exchange->Drain();  // to its outputs
  }
  thread.join();
  if (thrown) std::rethrow_exception(thrown);
  if (thrown_by_giver) std::rethrow_exception(thrown_by_giver);
  if (stops) return {};  // both were
  return taken ? given : taken;
}

std::vector<OutputArray> MeshAhead::Outputs() const {
  return whole->Outputs(options->output_count);
}

VerifyResult MeshAhead::CompareOutputs(const Module& whole_module,
                                       const OutputTolerance& tolerance) {
  options->runs.GatherResults(*mesh);
  return VerifyOutputs(*mesh, Outputs(), whole_module, tolerance);
}

}  // namespace gshard::cpu
