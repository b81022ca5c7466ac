// Emission of steps: addresses of operands and results, sizes of blocks and slots.
#include "backends/cpu/plan/plan.h"

#include <tsl/robin_map.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "backends/cpu/memory/memory.h"
#include "backends/cpu/plan/collective_plan.h"
#include "backends/cpu/plan/fusion.h"
#include "backends/cpu/plan/interval_packer.h"
#include "backends/cpu/plan/reduction_sinks.h"
#include "backends/cpu/plan/schedule.h"
#include "backends/cpu/plan/storage.h"
#include "backends/cpu/plan/variation.h"
#include "backends/cpu/plan/views.h"

namespace gshard::cpu {
namespace {

// What the temporaries and the current operands of a block of classes should fit in.
constexpr int64_t kBlockBudget = 384 << 10;
constexpr int64_t kSmallInstance = 4 << 10;

class Planner {
 public:
  Planner(Plan& plan, const PlanOptions& options)
      : plan_(plan), program_(*plan.program), options_(options) {}

  Expected<void> Run() {
    CloneCheapProducers(program_);
    schedule_ = MakeSchedule(program_, options_.tapped_bytes);
    if (options_.fuse) {
      if (Expected<void> done = FuseElementwise(program_, schedule_); !done) return done;
    }
    if (options_.sinks) FindReductionSinks(program_, schedule_);
    storage_ = AssignStorage(program_, schedule_);
    plan_.memory.device_peak_bytes = DevicePeak();
    PlaceTransient();
    PlacePersistent();
    if (options_.memory_limit > 0 && plan_.memory.arena_bytes() > options_.memory_limit) {
      plan_.memory.largest = Largest();
      return {};
    }
    plan_.entry = NewBlock();
    return EmitBlock(*schedule_.entry, plan_.entry);
  }

 private:
  const Value& value(ValueId id) const { return program_.values[id]; }

  uint32_t NewBlock() {
    plan_.blocks.emplace_back();
    return static_cast<uint32_t>(plan_.blocks.size() - 1);
  }

  // --- memory

  void CountOps(const ScheduledBlock& block, std::vector<uint32_t>& ops) const {
    for (const ScheduledStep& step : block.steps) {
      ops[step.begin] = std::max<uint32_t>(1, static_cast<uint32_t>(step.chain.ops.size()));
      for (const ScheduledBlock* inner : step.blocks) CountOps(*inner, ops);
    }
  }

  // One device's live bytes if every value had a buffer of its own, operation by operation.
  int64_t DevicePeak() const {
    std::vector<uint32_t> first(storage_.moments + 2, 1);  // operation number of each moment
    CountOps(*schedule_.entry, first);
    uint32_t next = 0;
    for (uint32_t& moment : first) next += std::exchange(moment, next);
    IntervalPacker live;
    for (ValueId v = 0; v < program_.values.size(); ++v) {
      if (storage_.place[v] == Place::kSlot) {
        live.Add(value(v).bytes, first[storage_.defined[v].time] + storage_.defined[v].op,
                 first[storage_.last_used[v].time] + storage_.last_used[v].op);
      }
    }
    for (const Storage& storage : storage_.storages) {
      live.Add(storage.instance_bytes, first[storage.begin], first[storage.end + 1] - 1);
    }
    int64_t parameters = 0;
    for (ValueId parameter : program_.parameters) parameters += value(parameter).bytes;
    return live.LowerBound() + parameters;
  }

  // What a refusal names.
  std::vector<PlanMemory::Holding> Largest() const {
    constexpr size_t kMost = 5;
    std::vector<int64_t> change(storage_.moments + 2, 0);
    for (const Storage& storage : storage_.storages) {
      change[storage.begin] += storage.bytes;
      change[storage.end + 1] -= storage.bytes;
    }
    std::partial_sum(change.begin(), change.end(), change.begin());
    const auto peak =
        static_cast<uint32_t>(std::max_element(change.begin(), change.end()) - change.begin());
    std::vector<PlanMemory::Holding> holdings;
    auto hold = [&](ValueId v) {
      holdings.push_back({v, value(v).bytes * value(v).classes->count()});
    };
    for (ValueId parameter : program_.parameters) hold(parameter);
    std::vector<bool> seen(storage_.storages.size(), false);
    for (ValueId v = 0; v < program_.values.size(); ++v) {
      if (storage_.place[v] != Place::kStored) continue;
      const uint32_t s = storage_.storage[v];
      const Storage& storage = storage_.storages[s];
      if (seen[s] || storage.begin > peak || storage.end < peak) continue;
      seen[s] = true;
      hold(v);
    }
    std::stable_sort(holdings.begin(), holdings.end(),
                     [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
    holdings.resize(std::min(holdings.size(), kMost));
    return holdings;
  }

  struct ChainLayout {
    uint32_t block = 1;
    int64_t slot_bytes = 0;
    uint32_t slot_buffer = 0;  // in the packer
    // Per sink: accumulators of all tasks, or kDirect if they are the results.
    std::vector<uint32_t> accumulators;
    static constexpr uint32_t kDirect = UINT32_MAX;
    tsl::robin_map<ValueId, int64_t> offsets;  // of slot values, for blocks of `block` classes
  };

  void PlaceTransient() {
    std::vector<uint32_t> buffers;
    for (const Storage& storage : storage_.storages) {
      buffers.push_back(packer_.Add(storage.bytes, storage.begin, storage.end));
    }
    LayOutBlock(*schedule_.entry);
    PlanCopies(*schedule_.entry);
    plan_.memory.transient_bytes = packer_.Pack();
    plan_.memory.lower_bound_bytes = packer_.LowerBound();
    storage_offsets_.reserve(buffers.size());
    for (uint32_t buffer : buffers) storage_offsets_.push_back(packer_.offset(buffer));
  }

  void LayOutBlock(const ScheduledBlock& block) {
    for (const ScheduledStep& step : block.steps) {
      if (step.op == nullptr) LayOutChain(step);
      for (const ScheduledBlock* inner : step.blocks) LayOutBlock(*inner);
    }
  }

  void LayOutChain(const ScheduledStep& step) {
    ChainLayout layout;
    const Chain& chain = step.chain;
    const uint32_t count = chain.classes->count();
    int64_t external = 0;
    std::vector<ValueId> local;
    for (const Op* op : step.chain.ops) {
      int64_t op_bytes = 0;
      // What several classes share counts once for all of them.
      for (ValueId operand : op->operands) {
        op_bytes += value(operand).bytes * std::min(value(operand).classes->count(), count) / count;
      }
      for (ValueId result : op->results) {
        if (!value(result).summed) op_bytes += value(result).bytes;
        if (InSlot(result)) local.push_back(result);
      }
      external = std::max(external, op_bytes);
    }
    const int64_t one = PackSlot(step, local, 1, layout);
    const int64_t footprint = std::max<int64_t>(one + external, 1);
    int64_t most = std::max<int64_t>(footprint <= kSmallInstance ? count / 16 : count / 64, 1);
    int64_t tasks = 0;
    if (!chain.sinks.empty()) {
      tasks = static_cast<int64_t>(chain.tasks.size()) - 1;
      most = std::min<int64_t>(most, count / tasks);
    }
    layout.block = static_cast<uint32_t>(std::clamp<int64_t>(kBlockBudget / footprint, 1, most));
    layout.slot_bytes = layout.block == 1 ? one : PackSlot(step, local, layout.block, layout);
    if (tasks == 0) tasks = (count + layout.block - 1) / layout.block;
    const int64_t slots = std::min<int64_t>(options_.threads, tasks);
    layout.slot_buffer = packer_.Add(layout.slot_bytes * slots, step.begin, step.begin);
    for (const Sink& sink : chain.sinks) {
      const bool direct = chain.tasks_per_group == 1 &&
                          sink.collective->instruction->opcode() != Opcode::kReduceScatter;
      const int64_t bytes = value(sink.collective->operands[sink.index]).bytes;
      layout.accumulators.push_back(
          direct ? ChainLayout::kDirect
                 : packer_.Add(tasks * static_cast<int64_t>(AlignUp(static_cast<size_t>(bytes))),
                               step.begin, step.begin));
    }
    layouts_[&step] = std::move(layout);
  }

  bool InSlot(ValueId id) const { return storage_.place[id] == Place::kSlot && !value(id).summed; }

  // Packs a chain's temporaries; operations that may work in place reuse their operand's.
  int64_t PackSlot(const ScheduledStep& step, const std::vector<ValueId>& local, uint32_t block,
                   ChainLayout& layout) {
    if (local.empty()) return 0;
    IntervalPacker packer;
    tsl::robin_map<ValueId, uint32_t> first_of;  // value -> index of its buffer
    struct Buffer {
      int64_t bytes;
      uint32_t begin, end;
    };
    std::vector<Buffer> buffers;
    for (const Op* op : step.chain.ops) {
      for (size_t r = 0; r < op->results.size(); ++r) {
        const ValueId result = op->results[r];
        if (!InSlot(result)) continue;
        const uint32_t end = storage_.last_used[result].op;
        bool shared = false;
        for (size_t k = 0; r == 0 && k < op->operands.size() && !shared; ++k) {
          auto found = first_of.find(op->operands[k]);
          if (found == first_of.end() || !MayReuse(*op, k)) continue;
          const uint32_t buffer = found->second;
          buffers[buffer].end = end;
          first_of[result] = buffer;
          shared = true;
        }
        if (shared) continue;
        first_of[result] = static_cast<uint32_t>(buffers.size());
        buffers.push_back({value(result).bytes * block, storage_.defined[result].op, end});
      }
    }
    std::vector<uint32_t> ids;
    for (const Buffer& buffer : buffers)
      ids.push_back(packer.Add(buffer.bytes, buffer.begin, buffer.end));
    const int64_t bytes = packer.Pack();
    for (ValueId v : local) layout.offsets[v] = packer.offset(ids[first_of[v]]);
    return bytes;
  }

  // A slot operand whose last use is this operation, which may work in place.
  bool MayReuse(const Op& op, size_t k) const {
    const ValueId operand = op.operands[k];
    const ValueId result = op.results[0];
    if (value(operand).view != nullptr || value(operand).bytes != value(result).bytes) return false;
    for (size_t j = 0; j < op.operands.size(); ++j) {
      if (op.operands[j] == operand && !op.kernel->InPlace(static_cast<int64_t>(j))) return false;
      // A view of the operand among the other operands would see the new bytes.
      if (value(op.operands[j]).view != nullptr) {
        for (ValueId base : BasesOf(program_, op.operands[j])) {
          if (base == operand) return false;
        }
      }
    }
    const auto last = storage_.last_used[operand], here = storage_.defined[result];
    return last.time == here.time && last.op == here.op;
  }

  void PlacePersistent() {
    int64_t next = static_cast<int64_t>(AlignUp(static_cast<size_t>(plan_.memory.transient_bytes)));
    const int64_t start = next;
    auto place = [&](int64_t bytes) {
      const int64_t offset = next;
      next += static_cast<int64_t>(AlignUp(static_cast<size_t>(bytes)));
      return offset;
    };
    int64_t largest = 64;
    for (const Value& v : program_.values) largest = std::max(largest, v.view ? v.bytes : 0);
    plan_.zeros = place(largest);
    plan_.zero_bytes = largest;
    plan_.value_offsets.assign(program_.values.size(), -1);
    for (ValueId parameter : program_.parameters) {
      if (plan_.value_offsets[parameter] < 0) {
        plan_.value_offsets[parameter] =
            place(value(parameter).bytes * value(parameter).classes->count());
      }
      plan_.parameter_offsets.push_back(plan_.value_offsets[parameter]);
    }
    for (ValueId v = 0; v < program_.values.size(); ++v) {
      if (storage_.place[v] == Place::kPersistent && value(v).IsKnown()) {
        plan_.value_offsets[v] = place(static_cast<int64_t>(value(v).known.size()));
        plan_.known.push_back({plan_.value_offsets[v], value(v).known});
      } else if (storage_.place[v] == Place::kStored) {
        plan_.value_offsets[v] = storage_offsets_[storage_.storage[v]];
      }
    }
    state_offset_ = place(16);
    plan_.memory.persistent_bytes = next - start;
    plan_.memory.transient_bytes = start;
  }

  // --- addresses

  int64_t Absolute(const View::Entry& entry) const {
    if (entry.base == kNoValue) return plan_.zeros;
    CheckInternal(plan_.value_offsets[entry.base] >= 0, "a view of a value that is not stored");
    return plan_.value_offsets[entry.base] + entry.base_class * value(entry.base).bytes +
           entry.offset;
  }

  const int64_t* Keep(std::vector<int64_t> table) {
    plan_.tables.push_back(std::move(table));
    return plan_.tables.back().data();
  }

  // Arena address of a value seen from a step over `classes`.
  Ref ArenaRef(ValueId id, const DeviceClasses* classes) {
    const Value& v = value(id);
    Ref ref;
    ref.element_bytes = StorageBytes(v.shape->dtype());
    if (v.view == nullptr) {
      CheckInternal(plan_.value_offsets[id] >= 0, "a value without storage is used");
      ref.base = plan_.value_offsets[id];
      ref.stride = v.bytes;
      const ClassMap* map = program_.classes.MapOf(classes, v.classes);
      if (map != nullptr && v.classes->IsUniform()) {
        ref.stride = 0;
      } else if (map != nullptr) {
        ref.map = map->data();
      }
      return ref;
    }
    auto [found, inserted] = view_refs_.insert({{id, classes}, ref});
    if (!inserted) return found->second;
    std::vector<int64_t> table(classes->count());
    for (uint32_t c = 0; c < classes->count(); ++c) {
      table[c] = Absolute(Locate(program_, id, v.classes->class_of(classes->first_device(c))));
    }
    ref.base = table[0];
    ref.stride = table.size() > 1 ? table[1] - table[0] : 0;
    for (size_t c = 1; c < table.size(); ++c) {
      if (table[c] != ref.base + static_cast<int64_t>(c) * ref.stride) {
        ref.table = Keep(std::move(table));
        break;
      }
    }
    found.value() = ref;
    return ref;
  }

  // Operand or result of a chain over `classes`.
  Ref ChainRef(ValueId id, const ScheduledStep& step, const ChainLayout& layout) {
    int64_t offset = 0;
    ValueId base = id;
    std::vector<int64_t> offsets;
    const DeviceClasses* classes = step.chain.classes;
    while (value(base).view != nullptr && !value(base).view->IsTable()) {
      const View& view = *value(base).view;
      offset += view.offset;
      if (!view.offsets.empty()) {
        offsets.resize(classes->count(), 0);
        for (uint32_t c = 0; c < classes->count(); ++c) {
          offsets[c] += view.offsets[value(base).classes->class_of(classes->first_device(c))];
        }
      }
      base = view.base;
    }
    const bool slot = value(base).view == nullptr && storage_.place[base] == Place::kSlot;
    if (!slot) return ArenaRef(id, classes);
    Ref ref;
    ref.element_bytes = StorageBytes(value(id).shape->dtype());
    ref.where = Where::kSlot;
    ref.base = layout.offsets.at(base) + offset;
    ref.stride = value(base).bytes;
    if (!offsets.empty()) ref.table = Keep(std::move(offsets));
    return ref;
  }

  // --- steps

  Expected<void> EmitBlock(const ScheduledBlock& block, uint32_t index) {
    for (const ScheduledStep& step : block.steps) {
      if (step.op == nullptr) {
        if (Expected<void> done = EmitChain(step, index); !done) return done;
        continue;
      }
      switch (step.op->kind) {
        case OpKind::kCollective: {
          auto resolve = [this](const View::Entry& entry) { return Absolute(entry); };
          auto made = PlanCollective(program_, *step.op, plan_.value_offsets, resolve);
          if (!made) return Fail(made.error());
          plan_.blocks[index].steps.emplace_back(std::move(*made));
          break;
        }
        case OpKind::kWhile: {
          Expected<void> done = EmitWhile(step, index);
          if (!done) return done;
          break;
        }
        case OpKind::kConditional: {
          Expected<void> done = EmitConditional(step, index);
          if (!done) return done;
          break;
        }
        case OpKind::kRngState: {
          RngStateStep state;
          state.op = step.op;
          state.state = state_offset_;
          state.result = plan_.value_offsets[step.op->results[0]];
          state.delta =
              static_cast<uint64_t>(step.op->instruction->attributes<RngStateAttributes>().delta);
          plan_.blocks[index].steps.emplace_back(std::move(state));
          break;
        }
        default:
          throw InternalError("a kernel outside a chain");
      }
    }
    return {};
  }

  Expected<void> EmitChain(const ScheduledStep& scheduled, uint32_t index) {
    const ChainLayout& layout = layouts_.at(&scheduled);
    ChainStep step;
    step.classes = scheduled.chain.classes;
    step.block = layout.block;
    step.slot_bytes = layout.slot_bytes;
    step.slot_base = packer_.offset(layout.slot_buffer);
    const Chain& chain = scheduled.chain;
    for (uint32_t i = 0; i < chain.ops.size(); ++i) {
      const Op* op = chain.ops[i];
      Call call;
      call.kernel = op->kernel;
      call.op = op;
      call.tap = op->tap;
      if (op->tap != kNoTap) step.taps.push_back(op->tap);
      call.flops = op->kernel->Flops();
      if (op->kernel->RangeGranule() > 0) {
        call.elements = value(op->results[0]).shape->element_count();
      }
      call.operands = static_cast<uint32_t>(step.refs.size());
      call.operand_count = static_cast<uint32_t>(op->operands.size());
      for (size_t k = 0; k < op->operands.size(); ++k) {
        Ref ref = ChainRef(op->operands[k], scheduled, layout);
        ref.moves = call.elements > 0 && op->kernel->MovesWithResult(static_cast<int64_t>(k));
        step.refs.push_back(ref);
        call.bytes += value(op->operands[k]).bytes;
      }
      call.results = static_cast<uint32_t>(step.refs.size());
      call.sums = value(op->results[0]).summed;
      const bool writes = !call.sums && op->tap == kNoTap;
      call.result_count = writes ? static_cast<uint32_t>(op->results.size()) : 0;
      for (ValueId result : op->results) {
        if (!writes) break;
        Ref ref = ChainRef(result, scheduled, layout);
        ref.moves = true;
        step.refs.push_back(ref);
        call.bytes += value(result).bytes;
      }
      call.sinks = static_cast<uint32_t>(step.sinks.size());
      for (size_t k = 0; k < chain.sinks.size(); ++k) {
        if (chain.sinks[k].after_op != i) continue;
        Expected<void> done = EmitSink(scheduled, k, layout, step);
        if (!done) return done;
        ++call.sink_count;
      }
      step.flops += call.flops;
      step.bytes += call.bytes;
      step.calls.push_back(call);
    }
    step.order = chain.order;
    step.tasks = chain.tasks;
    plan_.call_count += step.calls.size();
    plan_.blocks[index].steps.emplace_back(std::move(step));
    return {};
  }

  Expected<void> EmitSink(const ScheduledStep& scheduled, size_t k, const ChainLayout& layout,
                          ChainStep& step) {
    const Chain& chain = scheduled.chain;
    const Sink& sink = chain.sinks[k];
    const Op& op = *sink.collective;
    const ValueId contribution = op.operands[sink.index], result = op.results[sink.index];
    PlannedSink planned;
    if (!value(contribution).summed) planned.value = ChainRef(contribution, scheduled, layout);
    planned.bytes = value(contribution).bytes;
    planned.element_bytes = StorageBytes(value(contribution).shape->dtype());
    auto fold = MakeFold(*op.instruction->called(0), value(contribution).shape->dtype());
    if (!fold) return Fail(fold.error());
    planned.fold = std::move(*fold);
    if (layout.accumulators[k] == ChainLayout::kDirect) {
      const ResolvedGroups& groups = op.devices->groups;
      for (uint32_t g : SequencesOf(groups, *value(contribution).classes).first_group) {
        const uint32_t c = value(result).classes->class_of(groups.group(g)[0]);
        planned.accumulators.push_back(plan_.value_offsets[result] + c * value(result).bytes);
      }
    } else {
      const auto stride = static_cast<int64_t>(AlignUp(static_cast<size_t>(planned.bytes)));
      for (size_t t = 0; t + 1 < chain.tasks.size(); ++t) {
        planned.accumulators.push_back(packer_.offset(layout.accumulators[k]) +
                                       static_cast<int64_t>(t) * stride);
      }
      auto part = PlanFinish(program_, op, sink.index, plan_.value_offsets, planned.accumulators,
                             chain.tasks_per_group);
      if (!part) return Fail(part.error());
      CollectiveStep finish;
      finish.op = &op;
      finish.parts.push_back(std::move(*part));
      step.finish.push_back(std::move(finish));
    }
    step.sinks.push_back(std::move(planned));
    return {};
  }

  // --- copies of loops and conditionals

  struct PlannedCopy {
    ValueId from = kNoValue;
    ValueId to = kNoValue;
    int64_t staged = -1;  // >= 0: packer buffer; from -> buffer now, buffer -> to at the end
  };

  bool NeedsCopy(ValueId from, ValueId to) const {
    return from != to && !(value(from).view == nullptr && storage_.SharesStorage(from, to));
  }

  void PlanCopies(const ScheduledBlock& block) {
    for (const ScheduledStep& step : block.steps) {
      for (const ScheduledBlock* inner : step.blocks) PlanCopies(*inner);
      if (step.op != nullptr && step.op->kind == OpKind::kWhile) PlanNextCopies(step);
    }
  }

  // The next carried values replace the current ones all at once. A copy goes first if nobody still
  // waits to read what it overwrites; where they wait for each other one goes through a buffer.
  void PlanNextCopies(const ScheduledStep& step) {
    const Op& op = *step.op;
    std::vector<PlannedCopy> pending, ordered;
    for (size_t i = 0; i < op.results.size(); ++i) {
      const ValueId from = op.blocks[1]->results[i];
      if (NeedsCopy(from, op.results[i])) pending.push_back({from, op.results[i], -1});
    }
    auto reads = [&](const PlannedCopy& copy, ValueId overwritten) {
      for (ValueId base : BasesOf(program_, copy.from)) {
        if (base == overwritten || storage_.SharesStorage(base, overwritten)) return true;
      }
      return false;
    };
    while (!pending.empty()) {
      bool progress = false;
      for (size_t i = 0; i < pending.size(); ++i) {
        bool free = true;
        for (size_t j = 0; j < pending.size() && free; ++j) {
          // A view of the value itself reads other classes' instances: not free either.
          free = j == i
                     ? !(value(pending[i].from).view != nullptr && reads(pending[i], pending[i].to))
                     : !reads(pending[j], pending[i].to);
        }
        if (!free) continue;
        ordered.push_back(pending[i]);
        pending.erase(pending.begin() + static_cast<ptrdiff_t>(i));
        progress = true;
        break;
      }
      if (progress) continue;
      PlannedCopy staged = pending.back();
      pending.pop_back();
      const Value& to = value(staged.to);
      const uint32_t at = step.blocks[1]->end;
      staged.staged = packer_.Add(to.bytes * to.classes->count(), at, at);
      ordered.push_back(staged);
    }
    next_copies_[&step] = std::move(ordered);
  }

  Copy MakeCopy(ValueId from, ValueId to) {
    Copy copy;
    copy.classes = value(to).classes;
    copy.bytes = value(to).bytes;
    copy.from = ArenaRef(from, copy.classes);
    copy.to = ArenaRef(to, copy.classes);
    return copy;
  }

  Expected<void> EmitWhile(const ScheduledStep& scheduled, uint32_t index) {
    const Op& op = *scheduled.op;
    WhileStep step;
    step.op = &op;
    for (size_t i = 0; i < op.results.size(); ++i) {
      if (NeedsCopy(op.operands[i], op.results[i])) {
        step.initial.push_back(MakeCopy(op.operands[i], op.results[i]));
      }
    }
    std::vector<Copy> from_staged;
    for (const PlannedCopy& planned : next_copies_.at(&scheduled)) {
      Copy copy = MakeCopy(planned.from, planned.to);
      if (planned.staged >= 0) {
        Ref buffer;
        buffer.base = packer_.offset(static_cast<uint32_t>(planned.staged));
        buffer.stride = copy.bytes;
        from_staged.push_back({buffer, copy.to, copy.bytes, copy.classes});
        copy.to = buffer;
      }
      step.next.push_back(copy);
    }
    step.next.insert(step.next.end(), from_staged.begin(), from_staged.end());
    const ValueId predicate = op.blocks[0]->results[0];
    step.predicate_classes = value(predicate).classes;
    step.predicate = ArenaRef(predicate, step.predicate_classes);
    step.condition = NewBlock();
    step.body = NewBlock();
    const uint32_t condition = step.condition, body = step.body;
    plan_.blocks[index].steps.emplace_back(std::move(step));
    Expected<void> done = EmitBlock(*scheduled.blocks[0], condition);
    if (!done) return done;
    return EmitBlock(*scheduled.blocks[1], body);
  }

  Expected<void> EmitConditional(const ScheduledStep& scheduled, uint32_t index) {
    const Op& op = *scheduled.op;
    ConditionalStep step;
    step.op = &op;
    step.is_predicate = value(op.operands[0]).shape->dtype() == DType::kPred;
    step.selector_classes = value(op.operands[0]).classes;
    step.selector = ArenaRef(op.operands[0], step.selector_classes);
    for (const Block* branch : op.blocks) {
      std::vector<Copy> copies;
      for (size_t i = 0; i < op.results.size(); ++i) {
        if (NeedsCopy(branch->results[i], op.results[i])) {
          copies.push_back(MakeCopy(branch->results[i], op.results[i]));
        }
      }
      step.results.push_back(std::move(copies));
      step.branches.push_back(NewBlock());
    }
    const std::vector<uint32_t> branches = step.branches;
    plan_.blocks[index].steps.emplace_back(std::move(step));
    for (size_t b = 0; b < branches.size(); ++b) {
      Expected<void> done = EmitBlock(*scheduled.blocks[b], branches[b]);
      if (!done) return done;
    }
    return {};
  }

  struct ViewKeyHash {
    size_t operator()(const std::pair<ValueId, const DeviceClasses*>& key) const {
      return std::hash<const void*>()(key.second) * 31 + key.first;
    }
  };

  Plan& plan_;
  Program& program_;
  const PlanOptions& options_;
  Schedule schedule_;
  StorageAssignment storage_;
  IntervalPacker packer_;
  std::vector<int64_t> storage_offsets_;
  tsl::robin_map<const ScheduledStep*, ChainLayout> layouts_;
  tsl::robin_map<const ScheduledStep*, std::vector<PlannedCopy>> next_copies_;
  tsl::robin_map<std::pair<ValueId, const DeviceClasses*>, Ref, ViewKeyHash> view_refs_;
  int64_t state_offset_ = 0;
};

}  // namespace

int64_t Plan::OffsetOn(ValueId value, uint32_t device) const {
  const Value& v = program->values[value];
  const View::Entry at = Locate(*program, value, v.classes->class_of(device));
  if (at.base == kNoValue) return zeros;
  CheckInternal(value_offsets[at.base] >= 0, "a result that is not stored");
  return value_offsets[at.base] + at.base_class * program->values[at.base].bytes + at.offset;
}

Expected<std::unique_ptr<Plan>> BuildPlan(std::unique_ptr<Program> program,
                                          const PlanOptions& options) {
  auto plan = std::make_unique<Plan>();
  plan->program = std::move(program);
  plan->threads = std::max(options.threads, 1);
  if (Expected<void> done = Planner(*plan, options).Run(); !done) return Fail(done.error());
  return plan;
}

}  // namespace gshard::cpu
