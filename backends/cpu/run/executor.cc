// The control thread of a run: steps in order, loops, branches, divergence.
#include "backends/cpu/run/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "backends/cpu/plan/collective_plan.h"
#include "backends/cpu/run/collectives.h"
#include "core/analysis/trip_count.h"

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

Executor::Executor(const Plan& plan)
    : plan_(plan),
      arena_(static_cast<size_t>(std::max<int64_t>(plan.memory.arena_bytes(), 1))),
      workers_(plan.threads),
      chains_(arena_.data(), workers_) {
  std::memset(arena_.data() + plan.zeros, 0, static_cast<size_t>(plan.zero_bytes));
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
  const Value& value = plan_.program->values[plan_.program->parameters[leaf]];
  return arena_.data() + plan_.parameter_offsets[leaf] + static_cast<int64_t>(c) * value.bytes;
}

const std::byte* Executor::Result(ValueId value, uint32_t device) const {
  return arena_.data() + plan_.OffsetOn(value, device);
}

int64_t Executor::memory_bytes() const {
  return plan_.memory.arena_bytes() + workers_.scratch_bytes();
}

Expected<void> Executor::Run(const RunOptions& options) {
  options_ = options;
  workers_.set_stop(options.stop);
  counts_ = {};
  done_work_ = 0;
  if (options.progress && total_work_ == 0) total_work_ = WorkOfBlock(plan_.entry);
  chains_.set_check_nan(options.check_nan);
  chains_.set_trace(options.trace);
  chains_.set_observer(options.observer);
  chains_.set_after_call([this](double work) {
    Progress(work);
    return !IsStopped();
  });
  return RunBlock(plan_.entry, nullptr);
}

Expected<void> Executor::RunBlock(uint32_t block, ActiveSet* active) {
  const std::vector<Step>& steps = plan_.blocks[block].steps;
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

void Executor::Progress(double work) {
  if (!options_.progress) return;
  done_work_ += work;
  options_.progress(total_work_ > 0 ? std::min(done_work_ / total_work_, 1.0) : 1.0);
}

Expected<void> Executor::RunStep(const ChainStep& step, ActiveSet* active) {
  const double after = done_work_ + WorkOf(step);
  // A kernel that was stopped leaves no results.
  if (!chains_.Run(step, active) || IsStopped()) return Stopped();
  int64_t classes = step.classes->count();
  if (active != nullptr) {
    const std::vector<uint8_t>& mask = active->OfClasses(step.classes);
    classes = std::count(mask.begin(), mask.end(), uint8_t{1});
  }
  counts_.flops += step.flops * classes;
  counts_.device_flops += step.flops;
  for (const PlannedSink& sink : step.sinks) counts_.partial_sum_bytes += sink.bytes * classes;
  Progress(after - done_work_);  // what its operations have not told
  if (chains_.bad_value()) return NotFiniteError(*chains_.bad_value());
  return {};
}

tl::unexpected<Diagnostic> Executor::NotFiniteError(const BadValue& bad) const {
  const Instruction& x = *bad.op->instruction;
  const Shape* shape = x.shape()->IsTuple() ? x.shape()->element(bad.leaf) : x.shape();
  std::string index;
  int64_t rest = bad.found.element;
  for (int64_t d = shape->rank() - 1; d >= 0; --d) {
    index = fmt::format("{}{}{}", rest % shape->dim(d), index.empty() ? "" : ",", index);
    rest /= shape->dim(d);
  }
  return Fail(plan_.program->module->ErrorAt(
      &x, "E-RUN-NAN",
      fmt::format("{}{} is {} at [{}] on device {}", x.name(),
                  x.shape()->IsTuple() ? fmt::format("{{{}}}", bad.leaf) : "",
                  bad.found.is_nan ? "NaN" : "infinite", index, bad.device)));
}

// What a collective makes of finite values: sums that overflow.
std::optional<BadValue> Executor::FindBadValue(const CollectiveStep& step, ActiveSet* active) {
  if (step.op->instruction->opcode() == Opcode::kRaggedAllToAll) return std::nullopt;
  for (uint32_t k = 0; k < step.parts.size(); ++k) {
    const CollectivePart& part = step.parts[k];
    const Shape* shape = plan_.program->values[step.op->results[k]].shape;
    const Shape* operand = plan_.program->values[step.op->operands[k]].shape;
    const uint8_t* mask = active == nullptr ? nullptr : active->OfClasses(part.classes).data();
    for (uint32_t c = 0; c < part.classes->count(); ++c) {
      if (mask != nullptr && mask[c] == 0) continue;
      const auto found =
          FindNotFinite(shape, arena_.data() + part.result_base + c * part.result_bytes);
      if (!found) continue;
      bool came_in = false;
      const uint32_t sequence = part.sequence_of[c];
      for (uint32_t m = part.begin[sequence]; m < part.begin[sequence + 1] && !came_in; ++m) {
        came_in = FindNotFinite(operand, arena_.data() + part.members[m]).has_value();
      }
      if (!came_in) return BadValue{step.op, 0, part.classes->first_device(c), k, *found};
    }
  }
  return std::nullopt;
}

Expected<void> Executor::RunStep(const CollectiveStep& step, ActiveSet* active) {
  const Instruction& x = *step.op->instruction;
  if (active != nullptr) {
    uint32_t present = kNoDevice;
    const uint32_t missing = FindMissingMember(*step.op, active->devices(), &present);
    if (missing != kNoDevice) {
      return Fail(plan_.program->module->ErrorAt(
          &x, "E-RUN-DEADLOCK",
          fmt::format("deadlock: device {} waits in {} {} for device {}, which did not take this "
                      "branch",
                      present, OpcodeName(x.opcode()), x.name(), missing)));
    }
  }
  if (step.moves_data) {
    try {
      RunCollective(step, arena_.data(), active, workers_);
    } catch (const std::out_of_range& error) {
      return Fail(plan_.program->module->ErrorAt(&x, "E-RUN-RANGE", error.what()));
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

Expected<void> Executor::RunStep(const WhileStep& step, ActiveSet* active) {
  RunCopies(step.initial, active);
  std::unique_ptr<ActiveSet> narrowed;
  for (;;) {
    // A loop without steps ends by this only.
    if (IsStopped()) return Stopped();
    Expected<void> done = RunBlock(step.condition, active);
    if (!done) return done;
    // Who goes on?
    const DeviceClasses& classes = *step.predicate_classes;
    const std::vector<uint8_t>* mask =
        active == nullptr ? nullptr : &active->OfClasses(step.predicate_classes);
    bool any = false, all = true;
    std::vector<uint8_t> goes_on(classes.count(), 0);
    for (uint32_t c = 0; c < classes.count(); ++c) {
      if (mask != nullptr && (*mask)[c] == 0) continue;
      const BufferRef& ref = step.predicate;
      const int64_t at = ref.table != nullptr ? ref.table[c] : ref.base + c * ref.stride;
      goes_on[c] = arena_.data()[at] != std::byte{0};
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
      auto next = std::make_unique<ActiveSet>(std::move(devices));
      narrowed = std::move(next);
      active = narrowed.get();
    }
    done = RunBlock(step.body, active);
    if (!done) return done;
    RunCopies(step.next, active);
  }
}

Expected<void> Executor::RunStep(const ConditionalStep& step, ActiveSet* active) {
  const DeviceClasses& classes = *step.selector_classes;
  const auto branches = static_cast<int64_t>(step.branches.size());
  std::vector<int64_t> chosen(classes.count());
  const std::vector<uint8_t>* mask =
      active == nullptr ? nullptr : &active->OfClasses(step.selector_classes);
  int64_t first = -1;
  bool uniform = true;
  for (uint32_t c = 0; c < classes.count(); ++c) {
    if (mask != nullptr && (*mask)[c] == 0) continue;
    const BufferRef& ref = step.selector;
    const int64_t at = ref.table != nullptr ? ref.table[c] : ref.base + c * ref.stride;
    const int64_t branch = ReadSelector(arena_.data() + at, step.is_predicate);
    chosen[c] = branch < 0 || branch >= branches ? branches - 1 : branch;
    if (first < 0) first = chosen[c];
    uniform &= chosen[c] == first;
  }
  if (first < 0) return {};
  if (uniform) {
    Expected<void> done = RunBlock(step.branches[static_cast<size_t>(first)], active);
    if (done) RunCopies(step.results[static_cast<size_t>(first)], active);
    return done;
  }
  // Every branch runs for the devices that take it. What one device does is one branch.
  const int64_t flops_before = counts_.device_flops;
  int64_t most = 0;
  for (int64_t b = 0; b < branches; ++b) {
    std::vector<uint8_t> devices(classes.class_of().size());
    bool any = false;
    for (uint32_t d = 0; d < devices.size(); ++d) {
      devices[d] =
          (active == nullptr || active->devices()[d] != 0) && chosen[classes.class_of(d)] == b;
      any |= devices[d] != 0;
    }
    if (!any) continue;
    ActiveSet taken(std::move(devices));
    counts_.device_flops = flops_before;
    Expected<void> done = RunBlock(step.branches[static_cast<size_t>(b)], &taken);
    if (!done) return done;
    RunCopies(step.results[static_cast<size_t>(b)], &taken);
    most = std::max(most, counts_.device_flops);
  }
  counts_.device_flops = most;
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
    const uint8_t* mask = active == nullptr ? nullptr : active->OfClasses(copy.classes).data();
    const int64_t count = copy.classes->count();
    const int64_t pieces = (copy.bytes + kPiece - 1) / kPiece;
    auto at = [&](const BufferRef& ref, uint32_t c) {
      if (ref.table != nullptr) return arena_.data() + ref.table[c];
      return arena_.data() + ref.base + (ref.map != nullptr ? ref.map[c] : c) * ref.stride;
    };
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
