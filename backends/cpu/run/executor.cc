// The control thread of a run: steps in order, loops, branches, divergence.
#include "backends/cpu/run/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "backends/cpu/plan/collective_plan.h"
#include "backends/cpu/plan/index_observer.h"
#include "backends/cpu/run/collectives.h"
#include "core/analysis/trip_count.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

constexpr uint64_t kRngInitialState = 0x7012395;

int64_t ReadSelector(const std::byte* at, bool is_predicate) {
  if (is_predicate) return *at != std::byte{0} ? 0 : 1;  // the first branch is the true one
  int32_t index = 0;
  std::memcpy(&index, at, sizeof index);
  return index;
}

tl::unexpected<Diagnostic> Stopped() { return Fail(MakeError("E-RUN-STOPPED", "interrupted")); }

}  // namespace

Executor::Executor(const Plan& plan, mpi::Ranks* ranks)
    : plan_(plan),
      arena_(static_cast<size_t>(std::max<int64_t>(plan.memory.arena_bytes(), 1))),
      workers_(plan.threads),
      chains_(arena_.data(), workers_, plan.chain_count),
      tally_(plan.program->grid.device_count()) {
  if (plan.cut.size > 1) {
    ranks_ = std::make_unique<RankRunner>(plan, arena_.data(), workers_, *ranks);
    chains_.set_ranks(ranks_.get());
  }
  std::memset(arena_.data() + plan.places->zeros(), 0, static_cast<size_t>(plan.zero_bytes));
  for (const KnownData& known : plan.known) {
    std::memcpy(arena_.data() + known.offset, known.data.data(), known.data.size());
  }
  for (const PlanBlock& block : plan.blocks) {
    for (const Step& step : block.steps) {
      if (const auto* state = std::get_if<RngStateStep>(&step)) {
        const uint64_t words[2] = {kRngInitialState, 0};
        std::memcpy(arena_.data() + state->state, words, sizeof words);
      }
    }
  }
}

std::byte* Executor::Parameter(size_t leaf, uint32_t c) {
  return arena_.data() + plan_.places->OffsetOf(plan_.program->parameters[leaf], c);
}

const std::byte* Executor::Result(ValueId value, uint32_t device) const {
  if (ranks_ != nullptr) {
    const uint32_t c = plan_.program->values[value].classes->class_of(device);
    if (const std::byte* gathered = ranks_->Gathered(value, c)) return gathered;
  }
  return arena_.data() + plan_.OffsetOn(value, device);
}

int64_t Executor::memory_bytes() const {
  return plan_.memory.arena_bytes() + workers_.scratch_bytes() +
         (ranks_ != nullptr ? ranks_->buffer_bytes() : 0);
}

Expected<void> Executor::Run(const RunOptions& options) {
  options_ = options;
  workers_.set_stop(options.stop);
  counts_ = {};
  tally_ = DeviceTally(plan_.program->grid.device_count());
  done_work_ = reported_work_ = 0;
  if (ranks_ != nullptr) ranks_->ReleaseGathered();
  if (options.progress && total_work_ == 0) total_work_ = WorkOfBlock(plan_.entry);
  chains_.set_check_nan(options.check_nan);
  chains_.set_trace(options.trace);
  chains_.set_observer(options.observer);
  chains_.set_after_call([this](double work) {
    Progress(work);
    return !IsStopped();
  });
  if (options.check_nan) {
    GSHARD_TRY(CheckParameters());
  }
  Expected<void> done = RunBlock(plan_.entry, ranks_ != nullptr ? ranks_->everyone() : nullptr);
  counts_.devices = tally_.Totals();
  return done && options.check_nan ? CheckResults() : done;
}

tl::unexpected<Diagnostic> Executor::NanError(const Instruction& x, const Shape* shape,
                                              int64_t element, uint32_t device) const {
  return Fail(plan_.program->module->ErrorAt(
      &x, "E-RUN-NAN",
      fmt::format("{} is NaN at [{}] on device {}", x.name(), IndexText(shape, element), device)));
}

// What came with the inputs is told before anything is made of it.
Expected<void> Executor::CheckParameters() {
  const Program& program = *plan_.program;
  ActiveSet* here = ranks_ != nullptr ? ranks_->everyone() : nullptr;
  for (size_t k = 0; k < program.parameters.size(); ++k) {
    const Value& value = program.values[program.parameters[k]];
    for (uint32_t c = 0; c < value.classes->count(); ++c) {
      if (here != nullptr && here->OfClasses(value.classes)[c] == 0) continue;
      const auto found = FindNotFinite(value.shape, Parameter(k, c));
      if (!found || !found->is_nan) continue;
      auto error =
          NanError(*value.source, value.shape, found->element, value.classes->first_device(c));
      error.value().hint = "it came with the inputs";
      return error;
    }
  }
  return {};
}

// No step made a NaN of other values: one in a result is a constant's.
Expected<void> Executor::CheckResults() {
  const Program& program = *plan_.program;
  ActiveSet* here = ranks_ != nullptr ? ranks_->everyone() : nullptr;
  for (size_t k = 0; k < program.results.size(); ++k) {
    const Value& value = program.values[program.results[k]];
    for (uint32_t device = 0; device < program.grid.device_count(); ++device) {
      if (here != nullptr && here->OfClasses(program.classes.Distinct())[device] == 0) continue;
      // One device a class is enough where all are here.
      const uint32_t first = value.classes->first_device(value.classes->class_of(device));
      if (here == nullptr && first != device) continue;
      const auto found = FindNotFinite(value.shape, Result(program.results[k], device));
      if (!found || !found->is_nan) continue;
      auto error = NanError(*value.source, value.shape, found->element, device);
      error.value().message += fmt::format(", and so is result o{}", k);
      for (const Value& constant : program.values) {
        if (!constant.IsKnown() || constant.source == nullptr) continue;
        const auto fill = FindNotFinite(constant.shape, constant.known.data());
        if (!fill || !fill->is_nan) continue;
        error.value().hint =
            fmt::format("no step made it: {} is NaN, a constant", constant.source->name());
        break;
      }
      return error;
    }
  }
  return {};
}

std::unique_ptr<ActiveSet> Executor::MakeActiveSet(std::vector<uint8_t> devices) const {
  if (ranks_ != nullptr) return ranks_->MakeActiveSet(std::move(devices));
  return std::make_unique<ActiveSet>(std::move(devices));
}

Expected<void> Executor::RunBlock(uint32_t block, ActiveSet* active) {
  const std::vector<Step>& steps = plan_.blocks[block].steps;
  tally_.Add({0, plan_.blocks[block].device_peak_bytes});
  for (size_t i = 0; i < steps.size(); ++i) {
    if (IsStopped()) return Stopped();
    const auto begin = options_.trace != nullptr ? Trace::Clock::now() : Trace::Clock::time_point();
    Expected<void> done =
        std::visit([&](const auto& step) { return RunStep(step, active); }, steps[i]);
    if (!done) return done;
    if (options_.trace != nullptr) {
      const std::string_view name = std::visit(
          [](const auto& step) -> std::string_view {
            if constexpr (requires { step.op; }) {
              return step.op->instruction->name();
            } else {
              return "segment";
            }
          },
          steps[i]);
      options_.trace->Add(0, name, begin, Trace::Clock::now());
    }
  }
  return {};
}

double Executor::WorkOf(const ChainStep& step) {
  return (static_cast<double>(step.bytes) + static_cast<double>(step.flops) / 4) *
         step.classes->count();
}

double Executor::WorkOf(const CollectiveStep& step) {
  double work = 0;
  for (const CollectivePart& part : step.parts) {
    work += static_cast<double>(part.operand_bytes) * static_cast<double>(part.members.size()) +
            static_cast<double>(part.result_bytes) * part.classes->count();
  }
  return work;
}

double Executor::WorkOfBlock(uint32_t block) const {
  double work = 0;
  for (const Step& step : plan_.blocks[block].steps) {
    if (const auto* chain = std::get_if<ChainStep>(&step)) {
      work += WorkOf(*chain);
    } else if (const auto* collective = std::get_if<CollectiveStep>(&step)) {
      work += WorkOf(*collective);
    } else if (const auto* loop = std::get_if<WhileStep>(&step)) {
      const auto trips = static_cast<double>(TripCount(*loop->op->instruction).value_or(1));
      work += trips * (WorkOfBlock(loop->condition) + WorkOfBlock(loop->body));
    } else if (const auto* choice = std::get_if<ConditionalStep>(&step)) {
      double most = 0;
      for (uint32_t branch : choice->branches) most = std::max(most, WorkOfBlock(branch));
      work += most;
    }
  }
  return work;
}

// Who listens looks at the clock: operations on small arrays are told of together.
void Executor::Progress(double work) {
  constexpr double kWorthReporting = 256 << 10;
  if (!options_.progress) return;
  done_work_ += work;
  if (done_work_ - reported_work_ < kWorthReporting) return;
  reported_work_ = done_work_;
  options_.progress(total_work_ > 0 ? std::min(done_work_ / total_work_, 1.0) : 1.0);
}

Expected<void> Executor::RunStep(const ChainStep& step, ActiveSet* active) {
  const double after = done_work_ + WorkOf(step);
  // A kernel that was stopped leaves no results.
  if (!chains_.Run(step, active) || IsStopped()) return Stopped();
  int64_t classes = step.classes->count();
  if (active != nullptr) {
    const std::vector<uint8_t>& mask = active->Everywhere(step.classes);
    classes = std::count(mask.begin(), mask.end(), uint8_t{1});
  }
  counts_.flops += step.flops * classes;
  tally_.Add({step.flops, 0});
  for (const PlannedFusedAccumulator& fused_accumulator : step.fused_accumulators)
    counts_.partial_sum_bytes += fused_accumulator.bytes * classes;
  Progress(after - done_work_);  // what its operations have not told
  if (chains_.bad_value()) return NotFiniteError(*chains_.bad_value());
  return {};
}

tl::unexpected<Diagnostic> Executor::NotFiniteError(const BadValue& bad) const {
  const Instruction& x = *bad.op->instruction;
  const Shape* shape = x.shape()->IsTuple() ? x.shape()->element(bad.leaf) : x.shape();
  return Fail(plan_.program->module->ErrorAt(
      &x, "E-RUN-NAN",
      fmt::format("{}{} is {} at [{}] on device {}", x.name(),
                  x.shape()->IsTuple() ? fmt::format("{{{}}}", bad.leaf) : "",
                  bad.found.is_nan ? "NaN" : "infinite", IndexText(shape, bad.found.element),
                  bad.device)));
}

// What a collective makes of finite values: sums that overflow.
std::optional<BadValue> Executor::FindBadValue(const CollectiveStep& step, ActiveSet* active) {
  for (uint32_t k = 0; k < step.parts.size(); ++k) {
    const CollectivePart& part = step.parts[k];
    if (part.fold == nullptr) continue;
    const Shape* shape = plan_.program->values[step.op->results[k]].shape;
    const Shape* operand = plan_.program->values[step.op->operands[k]].shape;
    const uint8_t* mask = active == nullptr ? nullptr : active->OfClasses(part.classes).data();
    for (uint32_t c = 0; c < part.classes->count(); ++c) {
      if (mask != nullptr && mask[c] == 0) continue;
      const auto found = FindNotFinite(shape, arena_.data() + part.results[c]);
      if (!found) continue;
      bool came_in = false;
      const uint32_t sequence = part.sequence_of[c];
      for (uint32_t m = part.begin[sequence]; m < part.begin[sequence + 1] && !came_in; ++m) {
        if (part.members[m] == kNotHere) continue;
        const auto in = FindNotFinite(operand, arena_.data() + part.members[m]);
        came_in = in && (in->is_nan || !found->is_nan);
      }
      if (!came_in) return BadValue{step.op, 0, part.classes->first_device(c), k, *found};
    }
  }
  return std::nullopt;
}

Expected<void> Executor::RunStep(const CollectiveStep& step, ActiveSet* active) {
  const Instruction& x = *step.op->instruction;
  if (active != nullptr && (ranks_ == nullptr || active != ranks_->everyone())) {
    const auto member = FindMissingMember(*step.op->devices, active->devices());
    if (member) return Fail(DeadlockError(x, *member));
  }
  if (step.moves_data || ranks_ != nullptr) {
    try {
      if (ranks_ != nullptr) {
        ranks_->RunCollective(step, active);
      } else {
        RunCollective(step, arena_.data(), active, workers_);
      }
    } catch (const std::out_of_range& error) {
      Diagnostic range = plan_.program->module->ErrorAt(&x, "E-RUN-RANGE", error.what());
      if (x.opcode() == Opcode::kRaggedAllToAll) {
        range.hint = "random sizes do not agree: give those of a real step with --input";
      }
      return Fail(std::move(range));
    }
  }
  for (const CollectivePart& part : step.parts) {
    if (part.fold == nullptr || !step.moves_data) continue;
    counts_.partial_sum_bytes += part.operand_bytes * static_cast<int64_t>(part.members.size());
  }
  if (options_.check_nan && step.moves_data) {
    if (const auto bad = FindBadValue(step, active)) return NotFiniteError(*bad);
  }
  std::string kind(OpcodeName(x.opcode()));
  if (kind.ends_with("-start")) kind.resize(kind.size() - 6);
  CollectiveTotals& totals = counts_.collectives[kind];
  ++totals.count;
  totals.bytes_per_device += step.bytes_sent;
  Progress(WorkOf(step));
  return {};
}

template <typename Read>
std::vector<int64_t> Executor::ReadSelectors(const BufferRef& ref, const DeviceClasses* classes,
                                             ActiveSet* active, const Op* op, Read read) {
  std::vector<int64_t> values(classes->count(), 0);
  const uint8_t* mask = active == nullptr ? nullptr : active->OfClasses(classes).data();
  for (uint32_t c = 0; c < classes->count(); ++c) {
    if (mask != nullptr && mask[c] == 0) continue;
    values[c] = read(arena_.data() + ref.ArenaOffset(c));
  }
  if (ranks_ != nullptr) ranks_->ShareSelectors(classes, active, values, op->instruction->name());
  return values;
}

Expected<void> Executor::RunStep(const WhileStep& step, ActiveSet* active) {
  RunCopies(step.initial, active);
  std::unique_ptr<ActiveSet> narrowed;
  std::optional<DeviceTally::Group> left;
  for (;;) {
    // A loop without steps ends by this only.
    if (IsStopped()) return Stopped();
    GSHARD_TRY(RunBlock(step.condition, active));
    // Who goes on?
    const DeviceClasses& classes = *step.predicate_classes;
    const std::vector<int64_t> goes_on =
        ReadSelectors(step.predicate, step.predicate_classes, active, step.op,
                      [](const std::byte* at) { return *at != std::byte{0} ? 1 : 0; });
    const std::vector<uint8_t>* mask =
        active == nullptr ? nullptr : &active->Everywhere(step.predicate_classes);
    bool any = false, all = true;
    for (uint32_t c = 0; c < classes.count(); ++c) {
      if (mask != nullptr && (*mask)[c] == 0) continue;
      any |= goes_on[c] != 0;
      all &= goes_on[c] != 0;
    }
    if (!any) return {};
    if (!all) {
      std::vector<uint8_t> devices(classes.class_of().size());
      for (uint32_t d = 0; d < devices.size(); ++d) {
        devices[d] =
            (active == nullptr || active->devices()[d] != 0) && goes_on[classes.class_of(d)] != 0;
      }
      left.reset();
      left.emplace(tally_, devices);
      narrowed = MakeActiveSet(std::move(devices));
      active = narrowed.get();
    }
    GSHARD_TRY(RunBlock(step.body, active));
    RunCopies(step.next, active);
  }
}

Expected<void> Executor::RunStep(const ConditionalStep& step, ActiveSet* active) {
  const DeviceClasses& classes = *step.selector_classes;
  const auto branches = static_cast<int64_t>(step.branches.size());
  IndexObserver* const index_observer = plan_.program->index_observer;
  const std::vector<int64_t> chosen = ReadSelectors(
      step.selector, step.selector_classes, active, step.op, [&](const std::byte* at) {
        const int64_t branch = ReadSelector(at, step.is_predicate);
        if (index_observer != nullptr && index_observer->Observes(*step.op->instruction)) {
          index_observer->Chosen(*step.op->instruction, branch);
        }
        return branch < 0 || branch >= branches ? branches - 1 : branch;
      });
  const std::vector<uint8_t>* mask =
      active == nullptr ? nullptr : &active->Everywhere(step.selector_classes);
  int64_t first = -1;
  bool uniform = true;
  for (uint32_t c = 0; c < classes.count(); ++c) {
    if (mask != nullptr && (*mask)[c] == 0) continue;
    if (first < 0) first = chosen[c];
    uniform &= chosen[c] == first;
  }
  if (first < 0) return {};
  if (uniform) {
    Expected<void> done = RunBlock(step.branches[static_cast<size_t>(first)], active);
    if (done) RunCopies(step.results[static_cast<size_t>(first)], active);
    return done;
  }
  // Every branch runs for the devices that take it.
  for (int64_t b = 0; b < branches; ++b) {
    std::vector<uint8_t> devices(classes.class_of().size());
    bool any = false;
    for (uint32_t d = 0; d < devices.size(); ++d) {
      devices[d] =
          (active == nullptr || active->devices()[d] != 0) && chosen[classes.class_of(d)] == b;
      any |= devices[d] != 0;
    }
    if (!any) continue;
    const DeviceTally::Group group(tally_, devices);
    const std::unique_ptr<ActiveSet> taken = MakeActiveSet(std::move(devices));
    GSHARD_TRY(RunBlock(step.branches[static_cast<size_t>(b)], taken.get()));
    RunCopies(step.results[static_cast<size_t>(b)], taken.get());
  }
  return {};
}

Expected<void> Executor::RunStep(const RngStateStep& step, ActiveSet*) {
  uint64_t state[2];
  std::memcpy(state, arena_.data() + step.state, sizeof state);
  std::memcpy(arena_.data() + step.result, state, sizeof state);
  state[0] += step.delta;
  if (state[0] < step.delta) ++state[1];
  std::memcpy(arena_.data() + step.state, state, sizeof state);
  return {};
}

void Executor::RunCopies(std::span<const Copy> copies, ActiveSet* active) {
  constexpr int64_t kPiece = 256 << 10;
  for (const Copy& copy : copies) {
    if (copy.bytes == 0) continue;
    if (active == nullptr && copy.classes->count() == 1 && copy.bytes <= kPiece) {
      std::memcpy(arena_.data() + copy.to.ArenaOffset(0), arena_.data() + copy.from.ArenaOffset(0),
                  static_cast<size_t>(copy.bytes));
      continue;
    }
    const uint8_t* mask = active == nullptr ? nullptr : active->OfClasses(copy.classes).data();
    const int64_t count = copy.classes->count();
    const int64_t pieces = (copy.bytes + kPiece - 1) / kPiece;
    auto at = [&](const BufferRef& ref, uint32_t c) { return arena_.data() + ref.ArenaOffset(c); };
    workers_.For(count * pieces, count * copy.bytes, [&](int64_t index, int) {
      const auto c = static_cast<uint32_t>(index / pieces);
      if (mask != nullptr && mask[c] == 0) return;
      const int64_t begin = index % pieces * kPiece;
      std::memcpy(at(copy.to, c) + begin, at(copy.from, c) + begin,
                  static_cast<size_t>(std::min(kPiece, copy.bytes - begin)));
    });
  }
}

}  // namespace gshard::cpu
