// The mesh gives its values, put together; the unpartitioned graph compares its own and goes on
// with the mesh's.
#include "backends/cpu/verify/local_check.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "backends/cpu/arrays/array_rows.h"
#include "backends/cpu/arrays/buffer_bytes.h"
#include "backends/cpu/memory/memory.h"
#include "backends/cpu/verify/element_error.h"
#include "backends/cpu/verify/error_scale.h"
#include "backends/cpu/verify/step_rule.h"
#include "backends/cpu/verify/value_exchange.h"
#include "ir/computation.h"

namespace gshard::cpu {
namespace {

// The mesh: puts together whole arrays and gives them.
class MeshGiver final : public TapObserver {
 public:
  MeshGiver(std::span<const Candidate> candidates, ValueExchange& exchange, const MeshRun& run)
      : candidates_(candidates),
        exchange_(exchange),
        run_(run),
        iterations_(candidates.size(), 0),
        open_(candidates.size()),
        copies_(candidates.size()) {
    for (size_t t = 0; t < candidates.size(); ++t) {
      spreads_.push_back(run.SpreadOfTap(t, candidates[t].form->sharding));
      if (spreads_.back()) copies_[t] = CopiesOf(*spreads_.back());
    }
  }

  bool Prepare(std::span<const uint32_t> taps) override {
    if (!exchange_.WaitUntilNeeded()) return false;
    for (uint32_t tap : taps) {
      open_[tap] = {};
      if (!candidates_[tap].Wants(iterations_[tap]++, true)) continue;
      const int64_t bytes = BufferBytes(candidates_[tap].x->shape());
      open_[tap].data = exchange_.Room(tap, bytes);
      if (!copies_[tap].empty() && !open_[tap].data.empty()) {
        open_[tap].other.resize(static_cast<size_t>(bytes));
      }
    }
    return true;
  }

  bool Wants(uint32_t tap) const override { return !open_[tap].data.empty(); }

  void Show(uint32_t tap, uint32_t c, std::byte* data, int64_t part, int64_t parts) override {
    Open& open = open_[tap];
    if (open.data.empty()) return;
    for (uint32_t device : spreads_[tap]->devices(c)) {
      const auto copies = copies_[tap].find(device);
      const bool is_first = copies_[tap].empty() || copies->second.is_first;
      const bool is_last = !copies_[tap].empty() && copies->second.is_last;
      if (is_first) Put(tap, device, data, part, parts, open.data);
      if (is_last) Put(tap, device, data, part, parts, open.other);
    }
  }

  void Finish(std::span<const uint32_t> taps) override {
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

 private:
  struct Open {
    std::span<std::byte> data;
    std::vector<std::byte> other;
  };
  // Is the device the first, or the last, of those that have different instances of its tile?
  struct Copy {
    bool is_first = false, is_last = false;
  };

  // Empty where every tile is the same wherever it is.
  std::unordered_map<uint32_t, Copy> CopiesOf(const MeshRun::TapSpread& spread) const {
    std::map<std::vector<int64_t>, std::vector<uint32_t>> tiles;
    size_t count = 0;
    for (uint32_t c = 0; c < spread.class_count(); ++c) {
      for (uint32_t device : spread.devices(c)) {
        tiles[run_.BoxOf(spread, device).start].push_back(device);
        ++count;
      }
    }
    std::unordered_map<uint32_t, Copy> copies;
    if (count == tiles.size()) return copies;
    for (auto& [start, devices] : tiles) {
      std::sort(devices.begin(), devices.end());
      for (uint32_t device : devices) copies[device] = {};
      copies[devices.front()].is_first = true;
      copies[devices.back()].is_last = true;
    }
    return copies;
  }

  void Put(uint32_t tap, uint32_t device, const std::byte* data, int64_t part, int64_t parts,
           std::span<std::byte> whole) const {
    const Shape* shape = candidates_[tap].x->shape();
    const int64_t bytes = StorageBytes(shape->dtype());
    const MeshRun::Instance box = run_.BoxOf(*spreads_[tap], device);
    const BoxRows rows(box.start, box.sizes, shape->dims());
    ForEachRunOfPart(rows, part, parts, [&](int64_t global, int64_t local, int64_t count) {
      std::memcpy(whole.data() + global * bytes, data + local * bytes,
                  static_cast<size_t>(count * bytes));
    });
  }

  std::span<const Candidate> candidates_;
  ValueExchange& exchange_;
  const MeshRun& run_;
  std::vector<int64_t> iterations_;
  std::vector<Open> open_;  // by tap
  std::vector<std::optional<MeshRun::TapSpread>> spreads_;
  std::vector<std::unordered_map<uint32_t, Copy>> copies_;  // by tap and device
};

// The unpartitioned graph: compares, and goes on with the mesh's values.
class Judge final : public TapObserver {
 public:
  Judge(const Module& whole, const Module& partitioned, std::span<const Candidate> candidates,
        ValueExchange& exchange, LocalCheckResult& result)
      : candidates_(candidates),
        exchange_(exchange),
        result_(result),
        scale_(whole),
        rules_(StepRulesOf(whole, partitioned, candidates)),
        states_(whole.instruction_limit(), State::kKnown),
        was_judged_(candidates.size(), 0),
        iterations_(candidates.size(), 0),
        open_(candidates.size()) {}

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
      State& state = states_[candidates_[tap].x->id()];
      state = !known ? State::kUnknown : open.mesh->other.empty() ? State::kKnown : State::kVaries;
      if (known && !result_.fault) Compare(tap);
      if (open.mesh && !open.mesh->data.empty()) exchange_.Return(open.mesh->data);
      open.mesh.reset();
    }
  }

  // Arrays that were judged at least once.
  int64_t arrays() const { return std::count(was_judged_.begin(), was_judged_.end(), 1); }

 private:
  struct Open {
    std::optional<WholeValue> mesh;
    std::vector<std::pair<uint32_t, std::byte*>> shown;  // by class of devices
  };

  // What the graph goes on with of a compared array.
  enum class State : uint8_t {
    kKnown,    // the mesh's value
    kVaries,   // one of those that the mesh's devices have
    kUnknown,  // its own
  };

  bool AnyAnchor(const StepRule& rule, State state) const {
    return std::any_of(rule.anchors.begin(), rule.anchors.end(),
                       [&](const Instruction* a) { return states_[a->id()] == state; });
  }

  void Compare(uint32_t tap) {
    const Open& open = open_[tap];
    const Instruction& x = *candidates_[tap].x;
    const StepRule& rule = rules_[tap];
    const DType dtype = x.shape()->dtype();
    const auto lowest = std::min_element(open.shown.begin(), open.shown.end());
    const std::span<const std::byte> want(lowest->second, open.mesh->data.size());
    const double magnitude = LargestMagnitude(dtype, want);
    const double allowed = rule.tolerance * scale_.Of(x, magnitude) + kSmallestAllowed;
    const bool exact = rule.is_one_operation && !AnyAnchor(rule, State::kVaries);
    const bool sure = !AnyAnchor(rule, State::kUnknown) && !rule.may_flip;
    bool agrees = true;
    for (std::span<const std::byte> mesh : {std::span<const std::byte>(open.mesh->data),
                                            std::span<const std::byte>(open.mesh->other)}) {
      if (mesh.empty() || !agrees) continue;
      RowError error;
      if (exact) {
        CompareRowInUlps(dtype, mesh.data(), want.data(), x.shape()->element_count(), kStepUlps,
                         error);
      } else {
        CompareRow(dtype, mesh.data(), want.data(), x.shape()->element_count(), allowed, 0, error);
      }
      NoteLargest(x, magnitude, error);
      agrees = error.beyond == 0;
      if (agrees || !sure) continue;
      // Where all is to be equal, what differs is told from what does not by less.
      NoteFault(tap, mesh, want, error, exact ? std::min(allowed, error.largest / 8) : allowed);
      return;
    }
    if (agrees) {
      was_judged_[tap] = 1;
      ++result_.judged;
    } else {
      ++result_.unsettled;
    }
    scale_.Observe(x, 0, 1);
    for (const auto& [c, data] : open.shown) {
      if (std::memcmp(data, open.mesh->data.data(), open.mesh->data.size()) == 0) continue;
      std::memcpy(data, open.mesh->data.data(), open.mesh->data.size());
    }
  }

  void NoteLargest(const Instruction& x, double magnitude, const RowError& error) {
    const double relative = magnitude > 0 ? error.largest / magnitude : error.largest;
    if (relative <= result_.max_rel_error) return;
    result_.max_rel_error = relative;
    result_.worst = x.name();
  }

  void NoteFault(uint32_t tap, std::span<const std::byte> mesh, std::span<const std::byte> want,
                 const RowError& error, double allowed) {
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
    fault.mismatch =
        MismatchAt(shape->dtype(), shape->dims(), want.data(), error.at, 0, mesh.data(), error.at);
    fault.mismatch.name = candidate.x->name();
    fault.mismatch.differences = error.beyond;
    fault.mismatch.elements = shape->element_count();
    fault.reference_varies =
        std::any_of(open_[tap].shown.begin(), open_[tap].shown.end(), [&](const auto& shown) {
          return std::memcmp(shown.second, want.data(), want.size()) != 0;
        });
  }

  std::span<const Candidate> candidates_;
  ValueExchange& exchange_;
  LocalCheckResult& result_;
  ErrorScale scale_;
  const std::vector<StepRule> rules_;  // by tap
  std::vector<State> states_;          // by instruction id
  std::vector<uint8_t> was_judged_;    // by tap
  std::vector<int64_t> iterations_;
  std::vector<Open> open_;
  std::mutex mutex_;
};

class LocalChecker {
 public:
  LocalChecker(const Module& whole, const Module& partitioned, const Inputs& inputs,
               const InstructionsOptions& options, std::vector<Candidate> candidates)
      : whole_module_(whole),
        options_(options),
        inputs_(inputs),
        partitioned_(partitioned),
        candidates_(std::move(candidates)) {}

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
    // Nothing is judged a second time: half of what is free is better than a step left out.
    const int64_t budget = std::max(options_.budget_bytes, (limit - arenas) / 2);
    ValueExchange exchange(candidates_.size(), std::min(budget, limit - arenas), true);
    MeshGiver giver(candidates_, exchange, mesh);
    Judge judge(whole_module_, partitioned_, candidates_, exchange, result_);
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
    result_.arrays = judge.arrays();
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
  LocalCheckResult result_;
};

}  // namespace

Expected<LocalCheckResult> CheckLocally(const Module& whole, const Module& partitioned,
                                        std::span<const LocalForm> forms, const Inputs& inputs,
                                        const InstructionsOptions& options) {
  ComparedArrays arrays = CollectArrays(whole, options.whole_grid, options.whole_forms, forms);
  // Both graphs have the same parameters, the unpartitioned one all of them at its beginning: it
  // would wait for those that the mesh shows late.
  std::erase_if(arrays.candidates, [&](const Candidate& candidate) {
    return candidate.x->opcode() == Opcode::kParameter;
  });
  auto result =
      LocalChecker(whole, partitioned, inputs, options, std::move(arrays.candidates)).Run();
  if (result) result->left_out = arrays.left_out;
  return result;
}

}  // namespace gshard::cpu
