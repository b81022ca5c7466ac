// The mesh gives its values, put together; the unpartitioned graph compares its own and goes on
// with the mesh's.
#include "backends/cpu/verify/local_check.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "backends/cpu/arrays/array_rows.h"
#include "backends/cpu/arrays/buffer_bytes.h"
#include "backends/cpu/memory/memory.h"
#include "backends/cpu/verify/element_error.h"
#include "backends/cpu/verify/error_scale.h"
#include "backends/cpu/verify/graph_walk.h"
#include "backends/cpu/verify/taint.h"
#include "backends/cpu/verify/value_exchange.h"
#include "ir/computation.h"

namespace gshard::cpu {
namespace {

constexpr size_t kMostWalked = 4096;  // instructions behind one

// What lies between an array and the nearest compared ones that it is made of.
struct Chain {
  std::vector<const Instruction*> anchors;
  double tolerance = 0;   // the coarsest of what is computed on the way
  bool computes = false;  // floats, without being compared itself
};

Chain ChainBehind(const Instruction& x, const GraphWalk& walk,
                  const std::vector<uint8_t>& compared) {
  Chain chain;
  std::vector<const Instruction*> stack = walk.Behind(x), seen = {&x};
  while (!stack.empty() && seen.size() < kMostWalked) {
    const Instruction* at = stack.back();
    stack.pop_back();
    if (std::find(seen.begin(), seen.end(), at) != seen.end()) continue;
    seen.push_back(at);
    if (compared[at->id()] != 0) {
      chain.anchors.push_back(at);
      continue;
    }
    if (at->shape()->IsArray() && !OnlyMoves(*at) && ToleranceOf(at->shape()->dtype()) > 0) {
      chain.computes = true;
      chain.tolerance = std::max(chain.tolerance, ToleranceOf(at->shape()->dtype()));
    }
    const std::vector<const Instruction*> behind = walk.Behind(*at);
    stack.insert(stack.end(), behind.begin(), behind.end());
  }
  if (!stack.empty()) chain.computes = true;
  return chain;
}

// The mesh: puts together whole arrays and gives them.
class MeshGiver final : public TapObserver {
 public:
  MeshGiver(std::span<const Candidate> candidates, ValueExchange& exchange, const MeshRun& run,
            uint32_t preferred_device)
      : candidates_(candidates),
        exchange_(exchange),
        run_(run),
        preferred_(preferred_device),
        iterations_(candidates.size(), 0),
        open_(candidates.size()) {
    for (size_t t = 0; t < candidates.size(); ++t) {
      spreads_.push_back(run.SpreadOfTap(t, candidates[t].form->sharding));
    }
  }

  bool Prepare(std::span<const uint32_t> taps) override {
    if (!exchange_.WaitUntilNeeded()) return false;
    for (uint32_t tap : taps) {
      open_[tap] = {};
      if (!candidates_[tap].Wants(iterations_[tap]++, true)) continue;
      open_[tap] = exchange_.Room(tap, BufferBytes(candidates_[tap].x->shape()));
    }
    return true;
  }

  bool Wants(uint32_t tap) const override { return !open_[tap].empty(); }

  void Show(uint32_t tap, uint32_t c, std::byte* data, int64_t part, int64_t parts) override {
    if (open_[tap].empty()) return;
    const Shape* shape = candidates_[tap].x->shape();
    const int64_t bytes = StorageBytes(shape->dtype());
    for (uint32_t device : spreads_[tap]->devices(c)) {
      if (!spreads_[tap]->StandsForTile(device, preferred_)) continue;
      const MeshRun::Instance box = run_.BoxOf(*spreads_[tap], device);
      const BoxRows rows(box.start, box.sizes, shape->dims());
      ForEachRunOfPart(rows, part, parts, [&](int64_t global, int64_t local, int64_t count) {
        std::memcpy(open_[tap].data() + global * bytes, data + local * bytes,
                    static_cast<size_t>(count * bytes));
      });
    }
  }

  void Finish(std::span<const uint32_t> taps) override {
    for (uint32_t tap : taps) {
      if (!candidates_[tap].Wants(iterations_[tap] - 1, true)) continue;
      WholeValue value;
      value.data = std::exchange(open_[tap], {});
      exchange_.Give(tap, std::move(value));
    }
  }

 private:
  std::span<const Candidate> candidates_;
  ValueExchange& exchange_;
  const MeshRun& run_;
  const uint32_t preferred_;
  std::vector<int64_t> iterations_;
  std::vector<std::span<std::byte>> open_;  // by tap
  std::vector<std::optional<MeshRun::TapSpread>> spreads_;
};

// The unpartitioned graph: compares, and goes on with the mesh's values.
class Judge final : public TapObserver {
 public:
  Judge(const Module& whole, std::span<const Candidate> candidates, ValueExchange& exchange,
        LocalCheckResult& result)
      : candidates_(candidates),
        exchange_(exchange),
        result_(result),
        scale_(whole),
        loose_(whole.instruction_limit(), 0),
        iterations_(candidates.size(), 0),
        open_(candidates.size()) {
    const GraphWalk walk(whole);
    std::vector<uint8_t> compared(whole.instruction_limit(), 0);
    for (const Candidate& candidate : candidates) compared[candidate.x->id()] = 1;
    for (const Candidate& candidate : candidates) {
      chains_.push_back(ChainBehind(*candidate.x, walk, compared));
    }
  }

  bool Prepare(std::span<const uint32_t> taps) override {
    if (result_.fault) return false;
    std::vector<uint32_t> wanted;
    for (uint32_t tap : taps) {
      open_[tap].shown.clear();
      if (candidates_[tap].Wants(iterations_[tap]++, true)) wanted.push_back(tap);
    }
    exchange_.Await(wanted);
    for (uint32_t tap : wanted) open_[tap].mesh = exchange_.Take(tap);
    return true;
  }

  void Show(uint32_t tap, uint32_t c, std::byte* data, int64_t part, int64_t) override {
    if (part != 0) return;
    const std::lock_guard lock(mutex_);
    open_[tap].shown.emplace_back(c, data);
  }

  void Finish(std::span<const uint32_t> taps) override {
    for (uint32_t tap : taps) {
      Open& open = open_[tap];
      const bool known = open.mesh && !open.mesh->data.empty() && !open.shown.empty();
      loose_[candidates_[tap].x->id()] = known ? 0 : 1;
      if (known && !result_.fault) Compare(tap);
      if (open.mesh && !open.mesh->data.empty()) exchange_.Return(open.mesh->data);
      open.mesh.reset();
    }
  }

 private:
  struct Open {
    std::optional<WholeValue> mesh;
    std::vector<std::pair<uint32_t, std::byte*>> shown;  // by class of devices
  };

  void Compare(uint32_t tap) {
    const Open& open = open_[tap];
    const Instruction& x = *candidates_[tap].x;
    const Chain& chain = chains_[tap];
    const DType dtype = x.shape()->dtype();
    const auto lowest = std::min_element(open.shown.begin(), open.shown.end());
    const std::span<const std::byte> want(lowest->second, open.mesh->data.size());
    const double magnitude = LargestMagnitude(dtype, want);
    const double scale = scale_.Of(x, magnitude);
    double tolerance = StepToleranceOf(dtype);
    if (tolerance > 0) tolerance = std::max(tolerance, chain.tolerance);
    const double allowed = tolerance * scale + kSmallestAllowed;
    RowError error;
    CompareRow(dtype, open.mesh->data.data(), want.data(), x.shape()->element_count(), allowed, 0,
               error);
    const bool is_pick = tolerance == 0 && chain.computes;
    const bool sure = std::none_of(chain.anchors.begin(), chain.anchors.end(),
                                   [&](const Instruction* a) { return loose_[a->id()] != 0; });
    if (error.beyond > 0 && sure && !is_pick) {
      NoteFault(tap, want, error, allowed);
      return;
    }
    if (error.beyond > 0) {
      ++result_.unsettled;
    } else {
      ++result_.judged;
    }
    scale_.Observe(x, 0, 1);
    for (const auto& [c, data] : open.shown) {
      std::memcpy(data, open.mesh->data.data(), open.mesh->data.size());
    }
  }

  void NoteFault(uint32_t tap, std::span<const std::byte> want, const RowError& error,
                 double allowed) {
    const Candidate& candidate = candidates_[tap];
    const Shape* shape = candidate.x->shape();
    LocalCheckResult::Fault& fault = result_.fault.emplace();
    fault.x = candidate.x;
    fault.form = candidate.form;
    fault.iteration = iterations_[tap] - 1;
    fault.allowed = allowed;
    fault.want.dtype = shape->dtype();
    fault.want.dims.assign(shape->dims().begin(), shape->dims().end());
    fault.want.data.assign(want.begin(), want.end());
    fault.mismatch = MismatchAt(shape->dtype(), shape->dims(), want.data(), error.at, 0,
                                open_[tap].mesh->data.data(), error.at);
    fault.mismatch.name = candidate.x->name();
    fault.mismatch.differences = error.beyond;
    fault.mismatch.elements = shape->element_count();
  }

  std::span<const Candidate> candidates_;
  ValueExchange& exchange_;
  LocalCheckResult& result_;
  ErrorScale scale_;
  std::vector<Chain> chains_;   // by tap
  std::vector<uint8_t> loose_;  // by instruction id: the graph went on with its own value
  std::vector<int64_t> iterations_;
  std::vector<Open> open_;
  std::mutex mutex_;
};

class LocalChecker {
 public:
  LocalChecker(const Module& whole, const Module& partitioned, const Inputs& inputs,
               const InstructionsOptions& options, std::vector<Candidate> candidates,
               uint32_t preferred_device)
      : whole_module_(whole),
        options_(options),
        inputs_(inputs),
        partitioned_(partitioned),
        candidates_(std::move(candidates)),
        preferred_(preferred_device) {}

  Expected<LocalCheckResult> Run() {
    const std::vector<TapPoint> whole_taps = WholeTaps(candidates_);
    const std::vector<TapPoint> local_taps = LocalTaps(candidates_, partitioned_);
    MeshRunOptions of_whole = options_.mesh.ForWholeGraph(options_.whole_grid);
    of_whole.taps = whole_taps;
    of_whole.tapped_bytes = 1;  // what follows an array is computed from the value put in its place
    auto whole = MeshRun::Prepare(whole_module_, inputs_, of_whole);
    if (!whole) return Fail(whole.error());
    MeshRunOptions of_mesh = options_.mesh;
    of_mesh.taps = local_taps;
    of_mesh.tapped_bytes = kMostTapped;
    auto mesh = options_.runs.Prepare(partitioned_, inputs_, of_mesh);
    if (!mesh) return Fail(mesh.error());
    if (Expected<void> done = RunBoth(**whole, **mesh); !done) return Fail(done.error());
    return std::move(result_);
  }

 private:
  Expected<void> RunBoth(MeshRun& whole, MeshRun& mesh) {
    const int64_t arenas = whole.plan().memory.arena_bytes() + mesh.plan().memory.arena_bytes();
    const int64_t limit =
        options_.mesh.memory_limit > 0 ? options_.mesh.memory_limit : AvailableMemory();
    if (arenas + kLeastBudget > limit) {
      return Fail(MakeError("E-RUN-MEMORY", "no room for both graphs at once"));
    }
    ValueExchange exchange(candidates_.size(), std::min(options_.budget_bytes, limit - arenas),
                           true);
    MeshGiver giver(candidates_, exchange, mesh, preferred_);
    Judge judge(whole_module_, candidates_, exchange, result_);
    if (Expected<void> done = whole.Start(options_.run.stop); !done) return done;
    if (Expected<void> done = options_.runs.Start(mesh, options_.run.stop); !done) return done;
    Expected<void> given, judged;
    std::exception_ptr thrown, thrown_by_giver;
    std::thread thread([&] {
      try {
        if (exchange.Begin()) given = RunMesh(mesh, giver);
      } catch (...) {
        thrown_by_giver = std::current_exception();
      }
      exchange.End();
    });
    try {
      RunOptions run = options_.run;
      run.observer = &judge;
      run.progress = options_.progress;
      judged = whole.Run(run);
    } catch (...) {
      thrown = std::current_exception();
    }
    if (result_.fault || thrown || !judged) {
      exchange.Close();
    } else {
      exchange.Drain();  // to its outputs
    }
    thread.join();
    if (thrown) std::rethrow_exception(thrown);
    if (thrown_by_giver) std::rethrow_exception(thrown_by_giver);
    result_.peak_memory_bytes = arenas + exchange.peak_bytes();
    if (result_.fault) return {};  // both were stopped there
    if (!judged) return judged;
    if (!given) return given;
    CompareOutputs(whole, mesh);
    return {};
  }

  Expected<void> RunMesh(MeshRun& mesh, MeshGiver& giver) {
    RunOptions run = options_.run;
    run.observer = &giver;
    return options_.runs.Run(mesh, run);
  }

  void CompareOutputs(const MeshRun& whole, MeshRun& mesh) {
    options_.runs.GatherResults(mesh);
    std::vector<OutputArray> outputs;
    for (size_t k = 0; k < std::min(whole.result_count(), options_.output_count); ++k) {
      outputs.push_back(whole.Output(k));
    }
    const VerifyResult compared = VerifyOutputs(mesh, outputs, whole_module_);
    result_.outputs_agree = compared.ok && compared.discrete_differences == 0;
    result_.output_mismatch = compared.mismatch;
  }

  const Module& whole_module_;
  const InstructionsOptions& options_;
  const Inputs& inputs_;
  const Module& partitioned_;
  std::vector<Candidate> candidates_;
  const uint32_t preferred_;
  LocalCheckResult result_;
};

}  // namespace

double StepToleranceOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kC128:
      return 1e-12;
    case DType::kF32:
    case DType::kC64:
      return 1e-5;
    case DType::kF16:
      return 5e-3;
    default:
      return ToleranceOf(dtype);
  }
}

Expected<LocalCheckResult> CheckLocally(const Module& whole, const Module& partitioned,
                                        std::span<const LocalForm> forms, const Inputs& inputs,
                                        const InstructionsOptions& options,
                                        uint32_t preferred_device) {
  ComparedArrays arrays = CollectArrays(whole, options.whole_grid, options.whole_forms, forms);
  return LocalChecker(whole, partitioned, inputs, options, std::move(arrays.candidates),
                      preferred_device)
      .Run();
}

}  // namespace gshard::cpu
