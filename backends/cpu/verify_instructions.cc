// Both graphs run in turns; what one computes is compared with the other's shards as they are made.
#include "backends/cpu/verify_instructions.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/cpu/array_rows.h"
#include "backends/cpu/element_error.h"
#include "backends/cpu/error_scale.h"
#include "backends/cpu/taint.h"
#include "backends/cpu/value_exchange.h"
#include "core/analysis/trip_count.h"
#include "ir/computation.h"

namespace gshard::cpu {
namespace {

constexpr double kSmallest = 1e-30;  // allowed where all values are zero
constexpr size_t kMaxGrowth = 16;    // steps reported
// What is held at a time where memory is short, and what blocks of classes may want at once.
constexpr int64_t kLeastBudget = int64_t{16} << 20;
constexpr int64_t kMostTapped = int64_t{64} << 20;

// The same on every device whatever the sharding.
bool IsPlain(const Instruction& x) {
  return x.opcode() == Opcode::kConstant ||
         (x.opcode() == Opcode::kBroadcast && x.operand(0)->shape()->IsScalar());
}

bool KeepsElements(Opcode opcode) {
  return opcode == Opcode::kReshape || opcode == Opcode::kBitcast || opcode == Opcode::kCopy ||
         opcode == Opcode::kGetTupleElement || opcode == Opcode::kOptBarrier;
}

struct Candidate {
  const Instruction* x = nullptr;
  const LocalForm* form = nullptr;
  // Inside a loop: only every so many turns. In-place updates and what a loop carries cost nothing
  // in a turn, but as much as the whole array to compare.
  int64_t every = 1;
  // Turns without room for the value, with their place in the order; in the next pass these only.
  struct Missed {
    int64_t turn = 0;
    uint64_t order = 0;
  };
  std::vector<Missed> missed, retry;

  const Missed* FindRetry(int64_t turn) const {
    const auto found = std::lower_bound(retry.begin(), retry.end(), turn,
                                        [](const Missed& m, int64_t t) { return m.turn < t; });
    return found != retry.end() && found->turn == turn ? &*found : nullptr;
  }
  bool Wants(int64_t turn, bool first_pass) const {
    return first_pass ? (turn + 1) % every == 0 : FindRetry(turn) != nullptr;
  }
};

// The members of a longest non-decreasing subsequence (patience sorting).
std::vector<uint8_t> LongestRise(std::span<const uint32_t> numbers) {
  std::vector<size_t> ends,
      previous(numbers.size());  // ends[n]: where one of length n + 1 ends best
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto at = std::upper_bound(ends.begin(), ends.end(), numbers[i],
                                     [&](uint32_t n, size_t end) { return n < numbers[end]; });
    previous[i] = at == ends.begin() ? SIZE_MAX : *(at - 1);
    if (at == ends.end()) {
      ends.push_back(i);
    } else {
      *at = i;
    }
  }
  std::vector<uint8_t> members(numbers.size(), 0);
  for (size_t i = ends.empty() ? SIZE_MAX : ends.back(); i != SIZE_MAX; i = previous[i]) {
    members[i] = 1;
  }
  return members;
}

// The unpartitioned run: copies values and hands them over.
class Giver final : public TapObserver {
 public:
  Giver(std::span<Candidate> candidates, ValueExchange& exchange, ErrorScale& scale,
        bool first_pass)
      : candidates_(candidates),
        exchange_(exchange),
        scale_(scale),
        first_pass_(first_pass),
        turns_(candidates.size(), 0),
        open_(candidates.size()) {}

  bool Prepare(std::span<const uint32_t> taps) override {
    if (!exchange_.GoOn()) return false;
    for (uint32_t tap : taps) {
      Open& open = open_[tap];
      open.wanted = candidates_[tap].Wants(turns_[tap]++, first_pass_);
      if (!open.wanted) continue;
      open.magnitude = 0;
      open.data = exchange_.Room(tap, BufferBytes(candidates_[tap].x->shape()));
    }
    return true;
  }

  void Show(uint32_t tap, uint32_t c, const std::byte* data, int64_t part, int64_t parts) override {
    Open& open = open_[tap];
    // Where several devices run the whole graph, the first one's value stands for all.
    if (!open.wanted || c != 0) return;
    const Shape* shape = candidates_[tap].x->shape();
    const int64_t bytes = StorageBytes(shape->dtype());
    const int64_t begin = shape->element_count() * part / parts * bytes;
    const int64_t end = shape->element_count() * (part + 1) / parts * bytes;
    const std::span<const std::byte> piece(data + begin, static_cast<size_t>(end - begin));
    const double magnitude = LargestMagnitude(shape->dtype(), piece);
    double largest = open.magnitude.load();
    while (magnitude > largest && !open.magnitude.compare_exchange_weak(largest, magnitude)) {
    }
    if (open.data.data() != nullptr)
      std::memcpy(open.data.data() + begin, piece.data(), piece.size());
  }

  void Finish(std::span<const uint32_t> taps) override {
    for (uint32_t tap : taps) {
      Open& open = open_[tap];
      Candidate& candidate = candidates_[tap];
      if (!open.wanted) continue;
      const int64_t turn = turns_[tap] - 1;
      WholeValue value;
      value.bytes = BufferBytes(candidate.x->shape());
      value.order = first_pass_ ? next_order_++ : candidate.FindRetry(turn)->order;
      value.magnitude = open.magnitude;
      value.allowed =
          ToleranceOf(candidate.x->shape()->dtype()) * scale_.Of(*candidate.x, value.magnitude) +
          kSmallest;
      value.data = std::move(open.data);
      if (value.data.data() == nullptr) candidate.missed.push_back({turn, value.order});
      exchange_.Give(tap, std::move(value));
    }
  }

 private:
  struct Open {
    bool wanted = false;
    std::atomic<double> magnitude = 0;
    MappedRegion data;
  };
  std::span<Candidate> candidates_;
  ValueExchange& exchange_;
  ErrorScale& scale_;
  const bool first_pass_;
  uint64_t next_order_ = 0;
  std::vector<int64_t> turns_;
  std::vector<Open> open_;
};

// What all instances of a value are compared to at the moment, and what came out.
struct Comparison {
  std::optional<WholeValue> want;
  std::mutex mutex;
  int64_t elements = 0, beyond = 0;
  double largest = 0;
  uint32_t device = 0;  // that has it
  int64_t at = -1;
  std::array<std::byte, 16> have;
};

// The mesh: compares every instance as it is made. The results are handed to `done`, in the order
// of the mesh.
class Taker final : public TapObserver {
 public:
  using Done = std::function<void(Candidate&, const Comparison&)>;

  Taker(std::span<Candidate> candidates, ValueExchange& exchange, const MeshRun& run,
        bool first_pass, Done done)
      : candidates_(candidates),
        exchange_(exchange),
        run_(run),
        first_pass_(first_pass),
        done_(std::move(done)),
        turns_(candidates.size(), 0),
        comparisons_(candidates.size()) {
    for (size_t t = 0; t < candidates.size(); ++t) {
      spreads_.push_back(run.SpreadOfTap(t, candidates[t].form->sharding));
    }
  }

  bool Prepare(std::span<const uint32_t> taps) override {
    std::vector<uint32_t> wanted;
    for (uint32_t tap : taps) {
      if (candidates_[tap].Wants(turns_[tap]++, first_pass_)) wanted.push_back(tap);
    }
    exchange_.Await(wanted);
    for (uint32_t tap : wanted) {
      Comparison& comparison = comparisons_[tap];
      comparison.want = exchange_.Take(tap);
      if (comparison.want && comparison.want->data.data() == nullptr) comparison.want.reset();
      comparison.elements = comparison.beyond = 0;
      comparison.largest = 0;
      comparison.at = -1;
    }
    return true;
  }

  void Show(uint32_t tap, uint32_t c, const std::byte* data, int64_t part, int64_t parts) override {
    Comparison& comparison = comparisons_[tap];
    if (!comparison.want) return;
    for (uint32_t device : spreads_[tap]->devices(c)) {
      Compare(tap, comparison, device, data, part, parts);
    }
  }

  void Finish(std::span<const uint32_t> taps) override {
    for (uint32_t tap : taps) {
      Comparison& comparison = comparisons_[tap];
      if (!comparison.want) continue;
      done_(candidates_[tap], comparison);
      exchange_.Return(std::move(comparison.want->data));
      comparison.want.reset();
    }
  }

 private:
  void Compare(uint32_t tap, Comparison& comparison, uint32_t device, const std::byte* data,
               int64_t part, int64_t parts) {
    const Shape* shape = candidates_[tap].x->shape();
    const int64_t bytes = StorageBytes(shape->dtype());
    const MeshRun::Instance box = run_.BoxOf(*spreads_[tap], device);
    const BoxRows rows(box.start, box.sizes, shape->dims());
    const int64_t all = rows.count() * rows.row();
    if (all == 0) return;
    const int64_t begin = all * part / parts, end = all * (part + 1) / parts;
    RowError error;
    int64_t elements = 0, local_at = 0;
    rows.ForEach(begin / rows.row(), (end + rows.row() - 1) / rows.row(),
                 [&](int64_t global, int64_t local, int64_t length) {
                   const int64_t first = std::max(local, begin);
                   const int64_t count = std::min(local + length, end) - first;
                   if (count <= 0) return;
                   elements += count;
                   const int64_t place = global + first - local;
                   const double before = error.largest;
                   CompareRow(shape->dtype(), data + first * bytes,
                              comparison.want->data.data() + place * bytes, count,
                              comparison.want->allowed, place, error);
                   if (error.largest > before) local_at = first + error.at - place;
                 });
    const std::lock_guard lock(comparison.mutex);
    comparison.elements += elements;
    comparison.beyond += error.beyond;
    // The same worst element whatever the order of the threads.
    if (error.largest < comparison.largest || error.at < 0) return;
    if (error.largest == comparison.largest &&
        std::pair(device, error.at) > std::pair(comparison.device, comparison.at)) {
      return;
    }
    comparison.largest = error.largest;
    comparison.device = device;
    comparison.at = error.at;
    std::memcpy(comparison.have.data(), data + local_at * bytes, static_cast<size_t>(bytes));
  }

  std::span<Candidate> candidates_;
  ValueExchange& exchange_;
  const MeshRun& run_;
  const bool first_pass_;
  const Done done_;
  std::vector<int64_t> turns_;
  std::vector<Comparison> comparisons_;
  std::vector<std::optional<MeshRun::TapSpread>> spreads_;
};

class InstructionVerifier {
 public:
  InstructionVerifier(const Module& whole, const Module& partitioned,
                      std::span<const LocalForm> forms, const Inputs& inputs,
                      const InstructionsOptions& options)
      : whole_(whole),
        partitioned_(partitioned),
        inputs_(inputs),
        options_(options),
        random_(whole, IsRandomSource),
        discrete_(whole, IsDiscreteChoice),
        scale_(whole),
        errors_(whole.instruction_limit()) {
    for (const LocalForm& form : forms) forms_.emplace(form.name, &form);
    for (const Computation* computation : whole.computations()) {
      for (const Instruction* x : computation->instructions()) {
        for (const Computation* called : x->called()) ++calls_[called];
      }
    }
    for (const LocalForm& form : options.whole_forms) {
      if (form.sharding->IsReplicated()) whole_names_.emplace(form.local, form.name);
    }
    Collect(*whole.entry(), 0);
  }

  Expected<InstructionsResult> Run() {
    for (bool first = true; !candidates_.empty(); first = false) {
      const int64_t compared = comparisons_;
      Expected<void> done = RunPass(first);
      if (!done && done.error().code == "E-RUN-MEMORY") break;
      if (!done) return Fail(done.error());
      for (Candidate& candidate : candidates_) candidate.retry = std::move(candidate.missed);
      if (comparisons_ == compared) break;
      std::erase_if(candidates_, [](const Candidate& c) { return c.retry.empty(); });
    }
    result_.skipped += static_cast<int64_t>(candidates_.size());
    const Instruction* from = first_ != nullptr ? first_ : worst_;
    if (from != nullptr) FollowBack(from);
    return std::move(result_);
  }

 private:
  struct Errors {
    bool compared = false;
    double relative = 0;
    double ulps = 0;
  };

  // `turns`: of the loop around, 0: none or not known.
  void Collect(const Computation& computation, int64_t turns) {
    for (const Instruction* x : computation.instructions()) {
      for (const Computation* called : x->called()) {
        if (calls_[called] != 1 || !RunsAsProgram(*x)) continue;
        Collect(*called, x->opcode() == Opcode::kWhile ? TripCount(*x).value_or(0) : turns);
      }
      if (!x->shape()->IsArray() || x->shape()->element_count() == 0) continue;
      if (IsPlain(*x) || IsPassedIn(*x)) continue;
      const std::string_view name = NameOf(*x);
      if (name.empty()) continue;
      const auto form = forms_.find(name);
      if (form == forms_.end() || x->shape()->dtype() != form->second->local->shape()->dtype() ||
          x->shape()->rank() != form->second->local->shape()->rank()) {
        continue;
      }
      if (random_.Of(*x)) {
        ++result_.skipped;
        continue;
      }
      Candidate candidate;
      candidate.x = x;
      candidate.form = form->second;
      if (turns > 1 && (IsUpdate(x->opcode()) || RenamesPassedIn(*x))) candidate.every = turns;
      candidates_.push_back(std::move(candidate));
    }
  }

  // By which the partitioned module's form is found; empty: x is not the whole array.
  std::string_view NameOf(const Instruction& x) const {
    if (options_.whole_grid.device_count() == 1) return x.name();
    const auto name = whole_names_.find(&x);
    return name == whole_names_.end() ? std::string_view() : name->second;
  }

  static bool RunsAsProgram(const Instruction& x) {
    switch (x.opcode()) {
      case Opcode::kWhile:
      case Opcode::kConditional:
      case Opcode::kCall:
      case Opcode::kFusion:
      case Opcode::kAsyncStart:
        return true;
      default:
        return false;
    }
  }
  static bool IsUpdate(Opcode opcode) {
    return opcode == Opcode::kDynamicUpdateSlice || opcode == Opcode::kScatter;
  }
  // Compared where it was made: a parameter of a called computation or a part of it.
  bool IsPassedIn(const Instruction& x) const {
    const Instruction* from = &x;
    while (from->opcode() == Opcode::kGetTupleElement) from = from->operand(0);
    return from->opcode() == Opcode::kParameter && from->parent() != whole_.entry();
  }
  bool RenamesPassedIn(const Instruction& x) const {
    const Instruction* from = &x;
    while (KeepsElements(from->opcode())) from = from->operand(0);
    return from->opcode() == Opcode::kParameter && from->parent() != whole_.entry();
  }

  // Runs both graphs and compares the candidates.
  Expected<void> RunPass(bool first) {
    std::vector<TapPoint> whole_taps;
    for (const Candidate& candidate : candidates_) whole_taps.push_back({candidate.x, candidate.x});
    const std::vector<TapPoint> local_taps = LocalTaps();
    MeshRunOptions whole_options = options_.mesh.ForWholeGraph(options_.whole_grid);
    whole_options.taps = whole_taps;
    MeshRunOptions mesh_options = options_.mesh;
    mesh_options.taps = local_taps;
    mesh_options.tapped_bytes = kMostTapped;
    auto whole = MeshRun::Prepare(whole_, inputs_, whole_options);
    if (!whole) return Fail(whole.error());
    auto mesh = MeshRun::Prepare(partitioned_, inputs_, mesh_options);
    if (!mesh) return Fail(mesh.error());
    const int64_t whole_bytes = (*whole)->plan().memory.arena_bytes();
    const int64_t mesh_bytes = (*mesh)->plan().memory.arena_bytes();
    const int64_t limit =
        options_.mesh.memory_limit > 0 ? options_.mesh.memory_limit : AvailableMemory();
    const bool in_turns = whole_bytes + mesh_bytes + kLeastBudget <= limit;
    int64_t budget = std::max(options_.budget_bytes, whole_bytes);
    const int64_t arenas = in_turns ? whole_bytes + mesh_bytes : std::max(whole_bytes, mesh_bytes);
    budget = std::min(budget, std::max<int64_t>(limit - arenas, 1));
    ValueExchange exchange(candidates_.size(), budget, in_turns);
    Giver giver(candidates_, exchange, scale_, first);
    Taker taker(candidates_, exchange, **mesh, first,
                [this](Candidate& candidate, const Comparison& c) { Note(candidate, c); });
    return in_turns ? RunInTurns(**whole, **mesh, exchange, giver, taker)
                    : RunAfterEachOther(*whole, **mesh, exchange, giver, taker);
  }

  // The mesh shows values in about the order in which the whole graph computes them, which then
  // need not wait. Most are in that order; what is made long before (a value that serves several
  // instructions) is shown behind the one before it.
  std::vector<TapPoint> LocalTaps() const {
    std::unordered_map<const Computation*, std::vector<size_t>> by_computation;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      by_computation[candidates_[i].x->parent()].push_back(i);
    }
    // Parameters have their values before anything else runs, wherever they stand in the text.
    std::vector<uint32_t> position(partitioned_.instruction_limit(), 0);
    for (const Computation* computation : partitioned_.computations()) {
      uint32_t next = 0;
      for (const Instruction* x : computation->parameters()) position[x->id()] = next++;
      for (const Instruction* x : computation->instructions()) {
        if (x->opcode() != Opcode::kParameter) position[x->id()] = next++;
      }
    }
    std::vector<TapPoint> taps;
    for (const Candidate& candidate : candidates_) {
      taps.push_back({candidate.form->local, candidate.form->local});
    }
    for (const auto& [computation, members] : by_computation) {
      std::vector<uint32_t> positions;
      for (size_t i : members) positions.push_back(position[taps[i].shown->id()]);
      const std::vector<uint8_t> in_order = LongestRise(positions);
      const TapPoint* before = nullptr;
      for (size_t k = 0; k < members.size(); ++k) {
        TapPoint& tap = taps[members[k]];
        if (in_order[k] != 0) {
          before = &tap;
        } else if (before != nullptr && before->shown->parent() == tap.shown->parent() &&
                   positions[k] < position[before->shown->id()]) {
          tap.behind = before->shown;
        }
      }
    }
    return taps;
  }

  Expected<void> RunInTurns(MeshRun& whole, MeshRun& mesh, ValueExchange& exchange, Giver& giver,
                            Taker& taker) {
    if (Expected<void> done = whole.Start(options_.run.stop); !done) return done;
    if (Expected<void> done = mesh.Start(options_.run.stop); !done) return done;
    Expected<void> given;
    std::exception_ptr thrown, thrown_by_giver;
    std::thread thread([&] {
      try {
        if (exchange.Begin()) given = RunWhole(whole, giver);
      } catch (...) {
        thrown_by_giver = std::current_exception();
      }
      exchange.End();
    });
    Expected<void> taken;
    try {
      taken = RunMesh(mesh, taker);
    } catch (...) {
      thrown = std::current_exception();
    }
    exchange.Close();
    thread.join();
    if (thrown) std::rethrow_exception(thrown);
    if (thrown_by_giver) std::rethrow_exception(thrown_by_giver);
    // The giver is stopped when the mesh has all it wants.
    if (!given && given.error().code != "E-RUN-STOPPED") return given;
    return taken;
  }

  Expected<void> RunAfterEachOther(std::unique_ptr<MeshRun>& whole, MeshRun& mesh,
                                   ValueExchange& exchange, Giver& giver, Taker& taker) {
    if (Expected<void> done = whole->Start(options_.run.stop); !done) return done;
    if (Expected<void> done = RunWhole(*whole, giver); !done) return done;
    exchange.End();
    whole.reset();
    if (Expected<void> done = mesh.Start(options_.run.stop); !done) return done;
    return RunMesh(mesh, taker);
  }

  Expected<void> RunWhole(MeshRun& whole, Giver& giver) {
    RunOptions options = options_.run;
    options.observer = &giver;
    return whole.Run(options);
  }
  Expected<void> RunMesh(MeshRun& mesh, Taker& taker) {
    RunOptions options = options_.run;
    options.observer = &taker;
    options.progress = options_.progress;
    return mesh.Run(options);
  }

  void Note(Candidate& candidate, const Comparison& comparison) {
    const Instruction& x = *candidate.x;
    Errors& errors = errors_[x.id()];
    if (!errors.compared) ++result_.compared;
    errors.compared = true;
    ++comparisons_;
    // Near ties that flip change few elements, and how much says nothing.
    if (discrete_.Of(x) && static_cast<double>(comparison.beyond) <=
                               kDiscreteShare * static_cast<double>(comparison.elements)) {
      return;
    }
    if (comparison.at < 0) return;
    const WholeValue& want = *comparison.want;
    const double relative =
        want.magnitude > 0 ? comparison.largest / want.magnitude : comparison.largest;
    Mismatch mismatch = MismatchAt(x.shape()->dtype(), x.shape()->dims(), want.data.data(),
                                   comparison.at, comparison.device, comparison.have.data(), 0);
    if (relative > errors.relative) {
      errors.relative = relative;
      errors.ulps = mismatch.ulps;
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
      if (steps.size() == kMaxGrowth) break;
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
  const Taint random_, discrete_;
  ErrorScale scale_;
  std::unordered_map<std::string_view, const LocalForm*> forms_;
  std::unordered_map<const Instruction*, std::string_view> whole_names_;
  std::unordered_map<const Computation*, int64_t> calls_;
  std::vector<Candidate> candidates_;
  std::vector<Errors> errors_;  // by instruction id of the whole graph
  int64_t comparisons_ = 0;
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
