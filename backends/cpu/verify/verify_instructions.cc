// Both graphs run in turns; what one computes is compared with the other's shards as they are made.
#include "backends/cpu/verify/verify_instructions.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/cpu/memory/memory.h"
#include "backends/cpu/verify/analysis/compared_arrays.h"
#include "backends/cpu/verify/analysis/error_scale.h"
#include "backends/cpu/verify/near_ties.h"
#include "backends/cpu/verify/value_exchange.h"
#include "backends/cpu/verify/verify_observers.h"
#include "ir/computation.h"

namespace gshard::cpu {
namespace {

constexpr size_t kMaxStepsReported = 16;  // steps reported
// Near ties that another one hides show when the unpartitioned graph has made its pick: so many
// times, and with so much of the mesh's values at most.
constexpr int kMaxRounds = 8;
constexpr int64_t kMaxAdopted = int64_t{1} << 30;

class InstructionVerifier {
 public:
  InstructionVerifier(const Module& whole, const Module& partitioned,
                      std::span<const LocalForm> forms, const Inputs& inputs,
                      const InstructionsOptions& options)
      : whole_(whole),
        partitioned_(partitioned),
        inputs_(inputs),
        options_(options),
        scale_(std::make_unique<ErrorScale>(whole)),
        errors_(whole.instruction_limit()),
        listed_(whole.instruction_limit(), 0) {
    ComparedArrays arrays = CollectArrays(whole, options.whole_grid, options.whole_forms, forms);
    candidates_ = std::move(arrays.candidates);
    left_out_ = arrays.left_out;
    for (const Candidate& candidate : candidates_) listed_[candidate.x->id()] = 1;
    if (options.only_choices) KeepChoices();
  }

  Expected<InstructionsResult> Run() {
    const std::vector<Candidate> all = candidates_;
    if (Expected<void> done = CompareAll(); !done) return Fail(done.error());
    for (int round = 0; round < kMaxRounds && AdoptPicks(); ++round) {
      candidates_ = all;
      Expected<void> done = Capture();
      if (!done && done.error().code == "E-RUN-MEMORY") break;
      if (!done) return Fail(done.error());
      Forget();
      if (done = CompareAll(); !done) return Fail(done.error());
      ReportTies();
    }
    const Instruction* from = first_ != nullptr ? first_ : worst_;
    if (from != nullptr) FollowBack(from);
    return std::move(result_);
  }

 private:
  static constexpr uint64_t kNever = UINT64_MAX;

  struct Errors {
    bool compared = false;
    double relative = 0;
    double ulps = 0;
    double allowed = 0;        // in any iteration
    uint64_t beyond = kNever;  // first place in the order of execution
  };

  // A choice with other picks on the mesh.
  struct Flip {
    const Instruction* x = nullptr;
    uint64_t order = kNever;          // of the first iteration in which it flips
    std::vector<int64_t> iterations;  // the first one in front
    Mismatch pick;                    // in that iteration; elements of all of them
    int64_t at = 0;
    std::array<std::byte, 16> have{}, want{};
    // What it was picked from, once adopted.
    std::vector<Contender> contenders;
    std::vector<ContenderValue> values;
    std::vector<const Instruction*> adopted;
  };

  // Passes until every candidate was compared, or none has room any more.
  Expected<void> CompareAll() {
    const auto all = static_cast<double>(candidates_.size());
    settled_ = reported_ = 0;
    settles_ = 1;
    for (bool first = true; !candidates_.empty(); first = false) {
      const int64_t compared = comparisons_;
      Expected<void> done = RunPass(first);
      if (!done && done.error().code == "E-RUN-MEMORY") break;
      if (!done) return done;
      for (Candidate& candidate : candidates_) candidate.retry = std::move(candidate.missed);
      if (comparisons_ == compared) break;
      // Probes are numbered anew.
      std::erase_if(candidates_, [](const Candidate& c) { return c.retry.empty(); });
      const double now = 1 - static_cast<double>(candidates_.size()) / all;
      settles_ = std::min(now - settled_, 1 - now);
      settled_ = now;
      if (first) reported_ = now;
      if (!candidates_.empty()) ReportProgress(0);
    }
    result_.skipped = left_out_ + static_cast<int64_t>(candidates_.size());
    return {};
  }

  // Choices and what decides them.
  void KeepChoices() {
    std::vector<uint8_t> wanted(errors_.size(), 0);
    for (const Candidate& candidate : candidates_) {
      const Instruction* choice = DecidingInstruction(*candidate.x);
      if (choice == nullptr) continue;
      wanted[candidate.x->id()] = 1;
      for (const Instruction* operand : DecidingOperands(*choice)) {
        if (const Instruction* held = HeldForm(operand)) wanted[held->id()] = 1;
      }
    }
    std::erase_if(candidates_, [&](const Candidate& c) { return wanted[c.x->id()] == 0; });
    listed_ = std::move(wanted);
  }

  const Instruction* HeldForm(const Instruction* x) const { return cpu::HeldForm(x, listed_); }

  // Lets the unpartitioned graph go on with the mesh's values where a choice flips though what
  // decides it agrees. False: there is no such choice, or no more.
  bool AdoptPicks() {
    if (options_.whole_grid.device_count() != 1) return false;
    std::vector<Flip*> flips;
    for (auto& [x, flip] : flips_) flips.push_back(&flip);
    std::sort(flips.begin(), flips.end(),
              [](const Flip* a, const Flip* b) { return a->order < b->order; });
    bool found = false;
    for (Flip* flip : flips) {
      if (!IsRoot(*flip) || adopted_.bytes() > kMaxAdopted) continue;
      found |= Adopt(std::move(*flip));
    }
    flips_.clear();
    return found;
  }

  bool IsRoot(const Flip& flip) const {
    const auto deciding = DecidingOperands(*DecidingInstruction(*flip.x));
    return !deciding.empty() &&
           std::all_of(deciding.begin(), deciding.end(), [&](const Instruction* operand) {
             const Instruction* held = HeldForm(operand);
             return held != nullptr && errors_[held->id()].beyond > flip.order;
           });
  }

  bool Adopt(Flip&& found) {
    bool fresh = false;
    Flip& flip = *ties_.emplace_back(std::make_unique<Flip>(std::move(found)));
    flip.contenders = ContendersOf(*flip.x, flip.at, flip.have.data(), flip.want.data());
    flip.values.resize(flip.contenders.size());
    for (size_t i = 0; i < flip.values.size(); ++i) {
      ReadGiven(*flip.contenders[i].operand, flip.values[i]);
    }
    for (const Instruction* operand : DecidingOperands(*DecidingInstruction(*flip.x))) {
      const Instruction* held = HeldForm(operand);
      flip.adopted.push_back(held);
      for (int64_t iteration : flip.iterations) {
        fresh |= adopted_.Find(*held, iteration) == nullptr;
        AdoptedArray& array = adopted_.Add(*held, iteration);
        const Errors& errors = errors_[held->id()];
        if (errors.compared) array.allowed = std::min(array.allowed, errors.allowed);
        if (iteration != flip.iterations.front()) continue;
        for (size_t i = 0; i < flip.contenders.size(); ++i) {
          if (flip.contenders[i].operand != held) continue;
          array.elements.push_back({flip.contenders[i].at, &flip.values[i]});
        }
      }
    }
    return fresh;
  }

  // Runs the mesh alone for the values that are to be adopted.
  Expected<void> Capture() {
    settled_ = reported_ = 0;
    settles_ = 1;
    const std::vector<ProbePoint> probes = LocalProbes(candidates_, partitioned_);
    auto mesh = options_.runs.Prepare(partitioned_, inputs_, MeshOptions(probes));
    if (!mesh) return Fail(mesh.error());
    if (Expected<void> done = options_.runs.Start(**mesh, options_.run.stop); !done) return done;
    Capturer capturer(candidates_, **mesh, adopted_);
    return RunMesh(**mesh, capturer);
  }

  void Forget() {
    result_ = {};
    flips_.clear();
    errors_.assign(errors_.size(), {});
    scale_ = std::make_unique<ErrorScale>(whole_);
    comparisons_ = 0;
    first_ = worst_ = nullptr;
    first_order_ = 0;
  }

  // Those whose picks agree now.
  void ReportTies() {
    std::sort(ties_.begin(), ties_.end(),
              [](const auto& a, const auto& b) { return a->order < b->order; });
    for (const auto& flip : ties_) {
      const bool accepted =
          std::all_of(flip->adopted.begin(), flip->adopted.end(), [&](const Instruction* x) {
            return adopted_.Find(*x, flip->iterations.front())->accepted;
          });
      const bool told =
          std::any_of(result_.near_ties.begin(), result_.near_ties.end(),
                      [&](const NearTie& tie) { return tie.pick.name == flip->x->name(); });
      if (!accepted || told || errors_[flip->x->id()].beyond != kNever) continue;
      NearTie tie = DescribeNearTie(*flip->x, flip->pick, flip->contenders, flip->values);
      result_.near_ties.push_back(std::move(tie));
    }
    if (result_.near_ties.empty()) result_.outputs_agree.reset();
  }

  // Runs both graphs and compares the candidates.
  Expected<void> RunPass(bool first) {
    const std::vector<ProbePoint> whole_probes = WholeProbes(candidates_);
    const std::vector<ProbePoint> local_probes = LocalProbes(candidates_, partitioned_);
    auto whole = MeshRun::Prepare(whole_, inputs_, WholeOptions(whole_probes));
    if (!whole) return Fail(whole.error());
    auto mesh = options_.runs.Prepare(partitioned_, inputs_, MeshOptions(local_probes));
    if (!mesh) return Fail(mesh.error());
    const int64_t whole_bytes = (*whole)->plan().memory.arena_bytes();
    const int64_t mesh_bytes = (*mesh)->plan().memory.arena_bytes();
    const int64_t limit = MemoryToUse();
    const bool in_turns = whole_bytes + mesh_bytes + kMinBudget <= limit;
    int64_t budget = std::max(options_.budget_bytes, whole_bytes);
    const int64_t arenas = in_turns ? whole_bytes + mesh_bytes : std::max(whole_bytes, mesh_bytes);
    budget = std::min(budget, std::max<int64_t>(limit - arenas, 1));
    ValueExchange exchange(candidates_.size(), budget, in_turns);
    ReferenceProducer producer(candidates_, exchange, *scale_, adopted_, first);
    MeshComparer consumer(
        candidates_, exchange, *scale_, **mesh, first,
        [this](Candidate& candidate, const Comparison& c) { Note(candidate, c); });
    // The outputs of the unpartitioned graph with the mesh's picks.
    std::vector<OutputArray> outputs;
    std::vector<OutputArray>* wanted = first && !adopted_.empty() ? &outputs : nullptr;
    Expected<void> done =
        in_turns ? RunInTurns(**whole, **mesh, exchange, producer, consumer, wanted)
                 : RunAfterEachOther(*whole, **mesh, exchange, producer, consumer, wanted);
    result_.peak_memory_bytes =
        std::max(result_.peak_memory_bytes, arenas + exchange.peak_bytes() + adopted_.bytes());
    if (done && wanted != nullptr) {
      options_.runs.GatherResults(**mesh);
      const VerifyResult compared = VerifyOutputs(**mesh, outputs, whole_, options_.tolerance);
      result_.outputs_agree = compared.ok && compared.discrete_differences == 0;
    }
    return done;
  }

  // Never less than before, but once: the first pass hopes to be the last.
  void ReportProgress(double share_of_pass) {
    reported_ = std::max(reported_, settled_ + settles_ * share_of_pass);
    if (options_.progress) options_.progress(reported_);
  }

  // What is adopted counts.
  int64_t MemoryLimit() const {
    const int64_t limit = options_.mesh.memory_limit;
    return limit == 0 ? 0 : std::max<int64_t>(limit - adopted_.bytes(), 1);
  }
  // Without a limit, what the machine has: running after each other is slower than in turns, but
  // better than being killed.
  int64_t MemoryToUse() const {
    return options_.mesh.memory_limit > 0 ? MemoryLimit() : AvailableMemory();
  }
  MeshRunOptions WholeOptions(std::span<const ProbePoint> probes) const {
    MeshRunOptions options = options_.mesh.ForWholeGraph(options_.whole_grid);
    options.memory_limit = MemoryLimit();
    options.probes = probes;
    return options;
  }
  MeshRunOptions MeshOptions(std::span<const ProbePoint> probes) const {
    MeshRunOptions options = options_.mesh;
    options.memory_limit = MemoryLimit();
    options.probes = probes;
    options.probed_bytes = kMaxProbed;
    return options;
  }

  // `outputs`: of the whole graph, where they are wanted.
  Expected<void> RunInTurns(MeshRun& whole, MeshRun& mesh, ValueExchange& exchange,
                            ReferenceProducer& producer, MeshComparer& consumer,
                            std::vector<OutputArray>* outputs) {
    if (Expected<void> done = whole.Start(options_.run.stop); !done) return done;
    if (Expected<void> done = options_.runs.Start(mesh, options_.run.stop); !done) return done;
    const auto [given, taken] = exchange.Run(
        [&] { return RunWhole(whole, producer); }, [&] { return RunMesh(mesh, consumer); },
        [&](const Expected<void>& done) { return outputs != nullptr && done; });
    if (outputs != nullptr && given) *outputs = whole.Outputs(options_.output_count);
    // The producer is stopped when the mesh has all it wants.
    if (!given && given.error().code != "E-RUN-STOPPED") return given;
    return taken;
  }

  Expected<void> RunAfterEachOther(std::unique_ptr<MeshRun>& whole, MeshRun& mesh,
                                   ValueExchange& exchange, ReferenceProducer& producer,
                                   MeshComparer& consumer, std::vector<OutputArray>* outputs) {
    if (Expected<void> done = whole->Start(options_.run.stop); !done) return done;
    const double whole_share = 0.5;
    if (Expected<void> done = RunWhole(*whole, producer, whole_share); !done) return done;
    exchange.End();
    if (outputs != nullptr) *outputs = whole->Outputs(options_.output_count);
    whole.reset();
    if (Expected<void> done = options_.runs.Start(mesh, options_.run.stop); !done) return done;
    return RunMesh(mesh, consumer, whole_share);
  }

  // `share`: of the pass, which is told; 0: the mesh tells it.
  Expected<void> RunWhole(MeshRun& whole, ReferenceProducer& producer, double share = 0) {
    RunOptions options = options_.run;
    options.observer = &producer;
    options.progress = [this, share](double done) {
      options_.runs.ReportProgress();
      if (share > 0) ReportProgress(share * done);
    };
    return whole.Run(options);
  }
  // `before`: the share of the pass that is done.
  Expected<void> RunMesh(MeshRun& mesh, ProbeObserver& observer, double before = 0) {
    RunOptions options = options_.run;
    options.observer = &observer;
    if (options_.progress) {
      options.progress = [this, before](double share) {
        ReportProgress(before + (1 - before) * share);
      };
    }
    return options_.runs.Run(mesh, options);
  }

  void Note(Candidate& candidate, const Comparison& comparison) {
    const Instruction& x = *candidate.x;
    Errors& errors = errors_[x.id()];
    if (!errors.compared) ++result_.compared;
    errors.compared = true;
    errors.allowed = std::max(errors.allowed, comparison.want->allowed);
    ++comparisons_;
    if (comparison.at < 0) return;
    const WholeValue& want = *comparison.want;
    const double relative =
        want.magnitude > 0 ? comparison.largest / want.magnitude : comparison.largest;
    Mismatch mismatch = MismatchAt(x.shape()->dtype(), x.shape()->dims(), want.data.data(),
                                   comparison.at, comparison.device, comparison.have.data(), 0);
    mismatch.differences = comparison.beyond;
    mismatch.elements = comparison.elements;
    if (relative > errors.relative) {
      errors.relative = relative;
      errors.ulps = mismatch.ulps;
    }
    if (comparison.beyond > 0) {
      errors.beyond = std::min(errors.beyond, want.order);
      if (DecidingInstruction(x) != nullptr) NoteFlip(x, comparison, mismatch);
    }
    if (relative > result_.max_rel_error) {
      result_.max_rel_error = relative;
      result_.worst = x.name();
      worst_ = &x;
    }
    if (comparison.beyond == 0 || (first_ != nullptr && want.order >= first_order_)) return;
    first_ = &x;
    first_order_ = want.order;
    result_.first = std::move(mismatch);
    result_.first->name = x.name();
  }

  void NoteFlip(const Instruction& x, const Comparison& comparison, const Mismatch& pick) {
    Flip& flip = flips_[&x];
    flip.x = &x;
    flip.iterations.push_back(comparison.iteration);
    const int64_t differences = flip.pick.differences + comparison.beyond;
    const int64_t elements = flip.pick.elements + comparison.elements;
    const bool is_first = comparison.want->order <= flip.order;
    if (is_first) flip.pick = pick;
    flip.pick.differences = differences;
    flip.pick.elements = elements;
    if (!is_first) return;
    std::swap(flip.iterations.front(), flip.iterations.back());
    flip.order = comparison.want->order;
    flip.at = comparison.at;
    flip.have = comparison.have;
    const auto bytes = static_cast<size_t>(StorageBytes(x.shape()->dtype()));
    std::memcpy(flip.want.data(),
                comparison.want->data.data() + static_cast<size_t>(comparison.at) * bytes, bytes);
  }

  // From `end` to the operand with the largest error, and on.
  void FollowBack(const Instruction* end) {
    std::vector<ErrorStep> steps;
    std::vector<uint8_t> seen(errors_.size(), 0);
    for (const Instruction* x = end; x != nullptr; x = LargestBehind(*x, seen)) {
      const Errors& errors = errors_[x->id()];
      // Only where the error grows.
      if (!steps.empty() && errors.relative > steps.back().rel_error / 1.5) {
        if (steps.size() > 1) steps.back() = {std::string(x->name()), errors.relative, errors.ulps};
        continue;
      }
      steps.push_back({std::string(x->name()), errors.relative, errors.ulps});
      if (steps.size() == kMaxStepsReported) break;
    }
    result_.growth.assign(steps.rbegin(), steps.rend());
  }

  // The compared instruction with the largest error among the nearest that x follows from.
  const Instruction* LargestBehind(const Instruction& x, std::vector<uint8_t>& seen) {
    const Instruction* best = nullptr;
    std::vector<const Instruction*> stack = {&x};
    while (!stack.empty()) {
      const Instruction* at = stack.back();
      stack.pop_back();
      auto visit = [&](const Instruction* behind) {
        if (seen[behind->id()] != 0) return;
        seen[behind->id()] = 1;
        const Errors& errors = errors_[behind->id()];
        if (!errors.compared) {
          stack.push_back(behind);
        } else if (errors.relative > 0 &&
                   (best == nullptr || errors.relative > errors_[best->id()].relative)) {
          best = behind;
        }
      };
      for (const Instruction* operand : at->operands()) visit(operand);
      if (at->opcode() == Opcode::kWhile) visit(at->called(1)->root());
      if (at->opcode() == Opcode::kCall) visit(at->called(0)->root());
    }
    return best;
  }

  const Module& whole_;
  const Module& partitioned_;
  const Inputs& inputs_;
  const InstructionsOptions& options_;
  std::unique_ptr<ErrorScale> scale_;
  std::vector<Candidate> candidates_;
  std::vector<Errors> errors_;   // by instruction id of the whole graph
  std::vector<uint8_t> listed_;  // by instruction id: is it compared?
  int64_t left_out_ = 0;         // of random streams
  AdoptedValues adopted_;
  std::unordered_map<const Instruction*, Flip> flips_;  // of the comparison that was last
  std::vector<std::unique_ptr<Flip>> ties_;             // that were adopted
  int64_t comparisons_ = 0;
  // Of the candidates, by passes that are over, and by the present one if it does as much as the
  // one before it.
  double settled_ = 0, settles_ = 1;
  double reported_ = 0;
  const Instruction* first_ = nullptr;
  const Instruction* worst_ = nullptr;
  uint64_t first_order_ = 0;
  InstructionsResult result_;
};

}  // namespace

Expected<InstructionsResult> VerifyInstructions(const Module& whole, const Module& partitioned,
                                                std::span<const LocalForm> forms,
                                                const Inputs& inputs,
                                                const InstructionsOptions& options) {
  return InstructionVerifier(whole, partitioned, forms, inputs, options).Run();
}

}  // namespace gshard::cpu
