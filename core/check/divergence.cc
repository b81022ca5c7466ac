#include "core/check/divergence.h"

#include <fmt/format.h>
#include <tsl/robin_map.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "core/analysis/channels.h"
#include "core/analysis/device_classes.h"
#include "core/analysis/device_groups.h"
#include "core/check/condition_demand.h"
#include "core/check/device_path.h"
#include "core/check/device_value.h"
#include "core/check/ragged_sizes.h"
#include "ir/async_sugar.h"
#include "ir/computation.h"
#include "ir/dims.h"
#include "ir/op_traits.h"

namespace gshard {
namespace {

// Instructions that are looked at: in all, and of loops that are followed trip by trip.
constexpr int64_t kMaxComputationVisits = 20'000'000;
constexpr int64_t kMaxTripVisits = 4'000'000;

bool IsDeviceRecv(const Instruction& x) {
  return x.opcode() == Opcode::kRecv && IsDeviceTransfer(x);
}

class DivergenceWalk {
 public:
  DivergenceWalk(const Module& module, const DeviceGrid& grid, CollectiveResolver& collectives)
      : module_(module),
        grid_(grid),
        collectives_(collectives),
        table_(grid.device_count()),
        rules_(table_, grid),
        demand_(module),
        values_(module.instruction_limit()) {}

  DivergenceReport Run() {
    const Computation& entry = *module_.entry();
    if (!Talks(entry)) return {};
    std::vector<DeviceLeaves> arguments;
    for (const Instruction* parameter : entry.parameters()) {
      // Parameters that reach no condition are skipped.
      arguments.push_back(demand_.IsWanted(*parameter)
                              ? rules_.OfParameter(parameter->shape(), parameter->sharding())
                              : AllDiffer(*parameter));
    }
    DevicePath path;
    path.may_part = table_.Uniform();
    sink_ = &report_.findings;
    Walk(entry, arguments, path);
    report_.is_complete = visits_ < kMaxComputationVisits;
    return std::move(report_);
  }

 private:
  using Arguments = std::vector<DeviceLeaves>;

  // Does it, or what it calls, communicate with other devices?
  bool Talks(const Computation& computation) {
    const auto found = talks_.find(&computation);
    if (found != talks_.end()) return found->second;
    bool talks = false;
    for (const Instruction* x : computation.instructions()) {
      talks |= IsCollective(x->opcode()) || IsDeviceRecv(*x);
      if (talks) break;
      if (RunsCallees(x->opcode())) {
        for (const Computation* called : x->called()) talks |= Talks(*called);
      }
    }
    talks_[&computation] = talks;
    return talks;
  }
  bool Talks(const Instruction& x) {
    return std::ranges::any_of(x.called(), [&](const Computation* c) { return Talks(*c); });
  }

  DeviceLeaves Walk(const Computation& computation, const Arguments& arguments,
                    const DevicePath& path) {
    for (const Instruction* x : computation.instructions()) {
      if (++visits_ > kMaxComputationVisits) break;
      DeviceLeaves& result = values_[x->id()];
      const bool runs_others = RunsCallees(x->opcode());
      if (!demand_.IsWanted(*x) && !runs_others) {
        // Only who takes part matters.
        if (IsCollective(x->opcode())) CheckMembers(*x, path);
        if (IsDeviceRecv(*x)) Recv(*x, path);
        result = AllDiffer(*x);
        continue;
      }
      if (x->opcode() == Opcode::kParameter) {
        const auto number = static_cast<size_t>(x->attributes<ParameterAttributes>().number);
        result = number < arguments.size() ? arguments[number] : AllDiffer(*x);
      } else {
        result = ResultOf(*x, path);
      }
    }
    DeviceLeaves result = values_[computation.root()->id()];
    return result.empty() ? AllDiffer(*computation.root()) : result;
  }

  DeviceLeaves AllDiffer(const Instruction& x) {
    return DeviceLeaves(static_cast<size_t>(x.shape()->leaf_count()),
                        rules_.Unknown(table_.Distinct()));
  }

  std::vector<const DeviceLeaves*> OperandsOf(const Instruction& x) const {
    std::vector<const DeviceLeaves*> operands;
    for (const Instruction* operand : x.operands()) operands.push_back(&values_[operand->id()]);
    return operands;
  }
  Arguments ArgumentsOf(const Instruction& x) const {
    Arguments arguments;
    for (const Instruction* operand : x.operands()) arguments.push_back(values_[operand->id()]);
    return arguments;
  }

  // (operands, result, state..) of `x`, which runs what `start` calls once it has the arguments.
  DeviceLeaves Started(const Instruction& x, const Instruction& start, const Arguments& arguments,
                       const DevicePath& path) {
    DeviceLeaves leaves;
    for (const DeviceLeaves& argument : arguments) {
      leaves.insert(leaves.end(), argument.begin(), argument.end());
    }
    if (!StartsWithoutOperands(x)) {
      const DeviceLeaves results = Walk(*start.called(0), arguments, path);
      leaves.insert(leaves.end(), results.begin(), results.end());
    }
    leaves.resize(static_cast<size_t>(x.shape()->leaf_count()), rules_.Unknown(table_.Uniform()));
    return leaves;
  }

  DeviceLeaves ResultOf(const Instruction& x, const DevicePath& path) {
    if (IsCollective(x.opcode())) return Collective(x, path);
    switch (x.opcode()) {
      case Opcode::kWhile:
        return While(x, path);
      case Opcode::kConditional:
        return Conditional(x, path);
      case Opcode::kCall:
      case Opcode::kFusion:
        return Walk(*x.called(0), ArgumentsOf(x), path);
      case Opcode::kScan:
        return Scan(x, path);
      case Opcode::kAsyncStart:
        return Started(x, x, StartsWithoutOperands(x) ? Arguments{} : ArgumentsOf(x), path);
      case Opcode::kAsyncUpdate: {
        if (!BringsOperands(x)) return values_[x.operand(0)->id()];
        Arguments arguments = ArgumentsOf(x);
        arguments.erase(arguments.begin());
        return Started(x, *AsyncStartOf(&x), arguments, path);
      }
      case Opcode::kAsyncDone:
      case Opcode::kAllGatherDone:
      case Opcode::kCollectivePermuteDone:
        return Done(x);
      default:  // runs nothing: by its operands
        break;
    }
    if (IsDeviceRecv(x)) Recv(x, path);
    const std::vector<const DeviceLeaves*> operands = OperandsOf(x);
    return rules_.Of(x, operands);
  }

  // Of what a start returns, the leaves after those of its operands.
  DeviceLeaves Done(const Instruction& x) {
    const Instruction* start = x.opcode() == Opcode::kAsyncDone ? AsyncStartOf(&x) : x.operand(0);
    const DeviceLeaves& started = values_[x.operand(0)->id()];
    if (start == nullptr) return AllDiffer(x);
    int64_t first = 0;
    for (const Instruction* operand : start->operands()) first += operand->shape()->leaf_count();
    const int64_t count = x.shape()->leaf_count();
    if (first + count > static_cast<int64_t>(started.size())) return AllDiffer(x);
    return {started.begin() + first, started.begin() + first + count};
  }

  const CollectiveDevices* DevicesOf(const Instruction& x) {
    const auto found = collectives_.Of(x);
    return found ? *found : nullptr;
  }

  DeviceLeaves Collective(const Instruction& x, const DevicePath& path) {
    const CollectiveDevices* devices = DevicesOf(x);
    if (devices == nullptr) return AllDiffer(x);  // told elsewhere
    CheckMembers(x, path);
    const std::vector<const DeviceLeaves*> operands = OperandsOf(x);
    // What is known on some devices only would be looked at where it is not.
    if (x.opcode() == Opcode::kRaggedAllToAll && sink_ != nullptr && path.outer == nullptr) {
      auto finding = CompareRaggedSizes(x, devices->groups, operands);
      if (finding) Tell(std::move(*finding));
    }
    return rules_.OfCollective(x, *devices, operands);
  }

  void Recv(const Instruction& x, const DevicePath& path) {
    const auto [it, is_new] = recvs_.try_emplace(&x);
    if (is_new) {
      const ComputationChannels channels = PairChannels(module_, *x.parent());
      const Channel& channel = channels.by_id.at(x.attributes<ChannelAttributes>().channel_id);
      if (auto sources = ResolvePairs(x, channel.pairs, /*of_partitions=*/true, grid_)) {
        it.value() = std::make_unique<CollectiveDevices>();
        it.value()->sources = std::move(*sources);
      }
    }
    if (it->second != nullptr) CompareMembers(x, *it->second, path);
  }

  bool MayPart(const DevicePath& path) const {
    return sink_ != nullptr && (path.active != nullptr || !path.may_part->IsUniform());
  }
  void CheckMembers(const Instruction& collective, const DevicePath& path) {
    if (!MayPart(path)) return;
    if (const CollectiveDevices* devices = DevicesOf(collective)) {
      CompareMembers(collective, *devices, path);
    }
  }
  void CompareMembers(const Instruction& x, const CollectiveDevices& devices,
                      const DevicePath& path) {
    if (!MayPart(path)) return;
    if (path.active != nullptr) {
      if (const auto missing = FindMissingMember(devices, *path.active)) {
        return Tell(PartedFinding(x, *missing, path));
      }
    }
    if (const auto missing = FindMemberThatMayBeMissing(devices, path)) {
      Tell(MayPartFinding(x, *missing, path));
    }
  }

  // An instruction has one finding: one that is certain, if there is one.
  void Tell(CommunicationFinding finding) {
    for (CommunicationFinding& known : *sink_) {
      if (known.instruction != finding.instruction) continue;
      if (finding.IsError() && !known.IsError()) known = std::move(finding);
      return;
    }
    sink_->push_back(std::move(finding));
  }

  // ---- conditionals

  DeviceLeaves Conditional(const Instruction& x, const DevicePath& path) {
    const DeviceValue choice = values_[x.operand(0)->id()][0];
    return choice.IsKnown() ? KnownConditional(x, choice, path) : OpenConditional(x, choice, path);
  }

  DeviceLeaves KnownConditional(const Instruction& x, const DeviceValue& choice,
                                const DevicePath& path) {
    const auto branches = static_cast<int32_t>(x.called().size());
    const bool is_pred = x.operand(0)->shape()->dtype() == DType::kPred;
    std::vector<int32_t> branch_of(grid_.device_count());
    for (uint32_t d = 0; d < branch_of.size(); ++d) {
      const int64_t value = choice.ElementOn(d, 0, 1);
      const bool in_range = value >= 0 && value < branches;
      branch_of[d] =
          is_pred ? (value != 0 ? 0 : 1) : (in_range ? static_cast<int32_t>(value) : branches - 1);
    }
    DeviceLeaves result;
    for (int32_t b = 0; b < branches; ++b) {
      std::vector<uint8_t> takes(branch_of.size());
      bool any = false, all = true;
      for (uint32_t d = 0; d < takes.size(); ++d) {
        takes[d] = branch_of[d] == b && path.Has(d);
        any |= takes[d] != 0;
        all &= takes[d] != 0 || !path.Has(d);
      }
      if (!any) continue;
      DevicePath inner = path.Into(x);
      if (!all) inner.active = &takes;
      inner.branch_of = &branch_of;
      DeviceLeaves made = Walk(*x.called(b), {values_[x.operand(b + 1)->id()]}, all ? path : inner);
      if (all) return made;
      result = result.empty() ? made : Merged(x, takes, made, result);
    }
    return result.empty() ? AllDiffer(x) : result;
  }

  DeviceLeaves OpenConditional(const Instruction& x, const DeviceValue& choice,
                               const DevicePath& path) {
    DevicePath inner = path.Into(x);
    inner.choice = choice.classes;
    inner.may_part = table_.Join(path.may_part, choice.classes);
    inner.depends_on_data = true;
    DeviceLeaves result;
    for (size_t b = 0; b < x.called().size(); ++b) {
      const auto argument = static_cast<int64_t>(b) + 1;
      const DeviceLeaves made =
          Walk(*x.called(static_cast<int64_t>(b)), {values_[x.operand(argument)->id()]}, inner);
      if (result.empty()) result.assign(made.size(), rules_.Unknown(choice.classes));
      for (size_t i = 0; i < made.size(); ++i) {
        result[i].classes = table_.Join(result[i].classes, made[i].classes);
      }
    }
    return result;
  }

  DeviceLeaves Merged(const Instruction& x, std::span<const uint8_t> mask,
                      const DeviceLeaves& taken, const DeviceLeaves& other) {
    const std::vector<const Shape*> shapes = LeafShapes(x.shape());
    DeviceLeaves merged;
    for (size_t i = 0; i < taken.size(); ++i) {
      merged.push_back(rules_.Merge(mask, taken[i], other[i], ElementsOf(shapes[i])));
    }
    return merged;
  }

  // ---- loops

  // What is known of a loop in every trip.
  struct LoopState {
    DeviceLeaves carried;
    const DeviceClasses* condition = nullptr;  // devices of one class leave together
  };
  enum class Begins : uint8_t { kNever, kMaybe, kSurely };

  DeviceLeaves While(const Instruction& x, const DevicePath& path) {
    const DeviceLeaves start = values_[x.operand(0)->id()];
    CommunicationFindings* const sink = sink_;
    sink_ = nullptr;
    const Begins begins = BeginsOf(x, start, path);
    LoopState state{start, table_.Uniform()};
    if (begins != Begins::kNever) FindFixpoint(x, path, begins, state);
    CommunicationFindings found;
    if (sink != nullptr && Talks(x)) {
      sink_ = &found;
      Trip(x, path, begins, state);
      if (!found.empty()) {
        CommunicationFindings exact;
        sink_ = &exact;
        if (auto ended = TripByTrip(x, start, path)) {
          state.carried = std::move(*ended);
          found = std::move(exact);
        }
      }
    }
    sink_ = sink;
    for (CommunicationFinding& finding : found) Tell(std::move(finding));
    return std::move(state.carried);
  }

  Begins BeginsOf(const Instruction& x, const DeviceLeaves& start, const DevicePath& path) {
    const DeviceLeaves condition = Walk(*x.called(0), {start}, path);
    if (!condition[0].IsKnown()) return Begins::kMaybe;
    bool any = false, all = true;
    for (uint32_t d = 0; d < grid_.device_count(); ++d) {
      if (!path.Has(d)) continue;
      const bool enters = condition[0].ElementOn(d, 0, 1) != 0;
      any |= enters;
      all &= enters;
    }
    return all ? Begins::kSurely : any ? Begins::kMaybe : Begins::kNever;
  }

  // Condition and body once, for any trip that begins with `state`; returns what is carried on.
  DeviceLeaves Trip(const Instruction& x, const DevicePath& path, Begins begins, LoopState& state) {
    DevicePath inner = path.Into(x);
    inner.depends_on_data |= begins == Begins::kMaybe;
    inner.choice = state.condition;
    inner.may_part = table_.Join(path.may_part, state.condition);
    const DeviceLeaves condition = Walk(*x.called(0), {state.carried}, inner);
    if (begins == Begins::kNever) return state.carried;
    state.condition = table_.Join(state.condition, condition[0].classes);
    inner.choice = state.condition;
    inner.may_part = table_.Join(path.may_part, state.condition);
    return Walk(*x.called(1), {state.carried}, inner);
  }

  void FindFixpoint(const Instruction& x, const DevicePath& path, Begins begins, LoopState& state) {
    const std::vector<const Shape*> shapes = LeafShapes(x.shape());
    for (bool changed = true; changed && visits_ < kMaxComputationVisits;) {
      changed = false;
      const DeviceLeaves next = Trip(x, path, begins, state);
      for (size_t i = 0; i < state.carried.size() && i < next.size(); ++i) {
        DeviceValue& carried = state.carried[i];
        DeviceValue wide = rules_.Widen(carried, next[i], ElementsOf(shapes[i]));
        if (!wide.IsKnown()) wide.classes = table_.Join(wide.classes, state.condition);
        changed |= wide.classes != carried.classes || wide.IsKnown() != carried.IsKnown();
        carried = std::move(wide);
      }
    }
  }

  // As a run goes, while it is known which devices go on; nothing where it is not.
  std::optional<DeviceLeaves> TripByTrip(const Instruction& x, DeviceLeaves carried,
                                         const DevicePath& path) {
    const int64_t last_visit = std::min(kMaxComputationVisits, visits_ + kMaxTripVisits);
    std::vector<uint8_t> active(grid_.device_count(), 1);
    if (path.active != nullptr) active = *path.active;
    bool is_whole = true;
    for (int64_t trip = 0;; ++trip) {
      DevicePath inner = path.Into(x);
      inner.trip = trip;
      if (!is_whole) inner.active = &active;
      const DeviceLeaves condition = Walk(*x.called(0), {carried}, is_whole ? path : inner);
      if (!condition[0].IsKnown() || visits_ > last_visit) return std::nullopt;
      std::vector<uint8_t> next = active;
      bool any = false;
      for (uint32_t d = 0; d < next.size(); ++d) {
        if (next[d] == 0) continue;
        next[d] = condition[0].ElementOn(d, 0, 1) != 0;
        is_whole &= next[d] != 0;
        any |= next[d] != 0;
      }
      active = std::move(next);
      if (!any || HasError()) return carried;
      inner.active = is_whole ? path.active : &active;
      const DeviceLeaves made = Walk(*x.called(1), {carried}, is_whole ? path : inner);
      carried = is_whole && path.active == nullptr ? made : Merged(x, active, made, carried);
      if (HasError()) return carried;
    }
  }
  bool HasError() const {
    return std::ranges::any_of(*sink_, [](const CommunicationFinding& f) { return f.IsError(); });
  }

  // All devices take the same steps; what they carry is followed as one.
  DeviceLeaves Scan(const Instruction& x, const DevicePath& path) {
    const std::vector<const DeviceLeaves*> operands = OperandsOf(x);
    const DeviceClasses* classes = rules_.ClassesOf(operands);
    CommunicationFindings* const sink = sink_;
    sink_ = nullptr;
    for (bool is_last = false;;) {
      if (is_last) sink_ = sink;
      Arguments arguments;
      for (const Instruction* parameter : x.called(0)->parameters()) {
        arguments.emplace_back(static_cast<size_t>(parameter->shape()->leaf_count()),
                               rules_.Unknown(classes));
      }
      const DeviceLeaves made = Walk(*x.called(0), arguments, path);
      if (is_last) break;
      const DeviceLeaves* results[] = {&made};
      const DeviceClasses* joined = table_.Join(classes, rules_.ClassesOf(results));
      is_last = joined == classes;
      classes = joined;
    }
    return DeviceLeaves(static_cast<size_t>(x.shape()->leaf_count()), rules_.Unknown(classes));
  }

  const Module& module_;
  const DeviceGrid grid_;
  CollectiveResolver& collectives_;
  DeviceClassTable table_;
  DeviceValueRules rules_;
  const ConditionDemand demand_;
  std::vector<DeviceLeaves> values_;  // by instruction id
  tsl::robin_map<const Computation*, bool> talks_;
  tsl::robin_map<const Instruction*, std::unique_ptr<CollectiveDevices>> recvs_;
  CommunicationFindings* sink_ = nullptr;  // null: nothing is told yet
  int64_t visits_ = 0;
  DivergenceReport report_;
};

}  // namespace

DivergenceReport FindDivergence(const Module& module, const DeviceGrid& grid,
                                CollectiveResolver& collectives) {
  return DivergenceWalk(module, grid, collectives).Run();
}

}  // namespace gshard
