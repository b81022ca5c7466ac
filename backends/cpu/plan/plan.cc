// Emission of steps from a schedule and an arena layout.
#include "backends/cpu/plan/plan.h"

#include <algorithm>
#include <utility>

#include "backends/cpu/memory/memory.h"
#include "backends/cpu/plan/address_table.h"
#include "backends/cpu/plan/arena_layout.h"
#include "backends/cpu/plan/collective_plan.h"
#include "backends/cpu/plan/fused_accumulators.h"
#include "backends/cpu/plan/fusion.h"
#include "backends/cpu/plan/plan_memory.h"
#include "backends/cpu/plan/schedule.h"
#include "backends/cpu/plan/storage.h"
#include "backends/cpu/plan/views.h"
#include "core/analysis/collective_classes.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

// Fills Plan::blocks.
class StepEmitter {
 public:
  StepEmitter(Plan& plan, const StorageAssignment& storage, const ArenaLayout& layout,
              const DeviceMemory& device_memory)
      : plan_(plan),
        program_(*plan.program),
        storage_(storage),
        layout_(layout),
        device_memory_(device_memory),
        addresses_(program_, storage, layout, plan.tables) {}

  Expected<void> Run(const ScheduledBlock& entry) {
    plan_.entry = NewBlock();
    return EmitBlock(entry, plan_.entry);
  }

 private:
  const Value& value(ValueId id) const { return program_.values[id]; }

  uint32_t NewBlock() {
    plan_.blocks.emplace_back();
    return static_cast<uint32_t>(plan_.blocks.size() - 1);
  }

  Expected<void> EmitBlock(const ScheduledBlock& block, uint32_t index) {
    plan_.blocks[index].device_peak_bytes = device_memory_.PeakIn(block);
    for (const ScheduledStep& step : block.steps) {
      if (step.op == nullptr) {
        GSHARD_TRY(EmitChain(step, index));
        continue;
      }
      switch (step.op->kind) {
        case OpKind::kCollective: {
          auto made = GSHARD_TRY(PlanCollective(program_, *step.op, layout_.places));
          for (ValueId result : step.op->results) {
            made.is_read.push_back(IsRead(program_, storage_, result, step));
          }
          plan_.blocks[index].steps.emplace_back(std::move(made));
          break;
        }
        case OpKind::kWhile: {
          GSHARD_TRY(EmitWhile(step, index));
          break;
        }
        case OpKind::kConditional: {
          GSHARD_TRY(EmitConditional(step, index));
          break;
        }
        case OpKind::kRngState: {
          RngStateStep state;
          state.op = step.op;
          state.state = layout_.rng_state;
          state.result = layout_.places.OffsetOf(step.op->results[0], 0);
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
    const ChainLayout& layout = layout_.chains.at(&scheduled);
    ChainStep step;
    step.classes = scheduled.chain.classes;
    step.block = layout.block;
    step.slot_bytes = layout.slot_bytes;
    step.slot_base = layout_.BufferOffset(layout.slot_buffer);
    const Chain& chain = scheduled.chain;
    for (uint32_t i = 0; i < chain.ops.size(); ++i) {
      const Op* op = chain.ops[i];
      Call call;
      call.kernel = op->kernel;
      call.op = op;
      call.probe = op->probe;
      if (op->probe != kNoProbe) step.probes.push_back(op->probe);
      call.flops = op->kernel->Flops();
      if (op->kernel->RangeGranule() > 0) {
        call.elements = value(op->results[0]).shape->element_count();
      }
      call.operands = static_cast<uint32_t>(step.refs.size());
      call.operand_count = static_cast<uint32_t>(op->operands.size());
      for (size_t k = 0; k < op->operands.size(); ++k) {
        BufferRef ref = addresses_.InChain(op->operands[k], scheduled);
        ref.advances_with_range =
            call.elements > 0 && op->kernel->IsElementwiseIn(static_cast<int64_t>(k));
        step.refs.push_back(ref);
        call.bytes += value(op->operands[k]).bytes;
      }
      call.results = static_cast<uint32_t>(step.refs.size());
      call.sums = value(op->results[0]).accumulated_by_kernel;
      const bool writes = !call.sums && op->probe == kNoProbe;
      call.result_count = writes ? static_cast<uint32_t>(op->results.size()) : 0;
      for (ValueId result : op->results) {
        if (!writes) break;
        BufferRef ref = addresses_.InChain(result, scheduled);
        ref.advances_with_range = true;
        step.refs.push_back(ref);
        call.bytes += value(result).bytes;
      }
      call.fused_accumulators = static_cast<uint32_t>(step.fused_accumulators.size());
      for (size_t k = 0; k < chain.fused_accumulators.size(); ++k) {
        if (chain.fused_accumulators[k].after_op != i) continue;
        GSHARD_TRY(EmitFusedAccumulator(scheduled, k, step));
        ++call.fused_accumulator_count;
      }
      step.flops += call.flops;
      step.bytes += call.bytes;
      step.calls.push_back(call);
    }
    step.order = chain.order;
    step.tasks = chain.tasks;
    step.tasks_per_group = chain.tasks_per_group;
    plan_.call_count += step.calls.size();
    step.number = plan_.chain_count++;
    plan_.blocks[index].steps.emplace_back(std::move(step));
    return {};
  }

  Expected<void> EmitFusedAccumulator(const ScheduledStep& scheduled, size_t k, ChainStep& step) {
    const ChainLayout& layout = layout_.chains.at(&scheduled);
    const Chain& chain = scheduled.chain;
    const FusedAccumulator& fused_accumulator = chain.fused_accumulators[k];
    const Op& op = *fused_accumulator.collective;
    const ValueId contribution = op.operands[fused_accumulator.index],
                  result = op.results[fused_accumulator.index];
    PlannedFusedAccumulator planned;
    if (!value(contribution).accumulated_by_kernel)
      planned.value = addresses_.InChain(contribution, scheduled);
    planned.bytes = value(contribution).bytes;
    planned.element_bytes = StorageBytes(value(contribution).shape->dtype());
    planned.fold =
        GSHARD_TRY(MakeFold(*op.instruction->called(0), value(contribution).shape->dtype()));
    if (layout.accumulators[k] == ChainLayout::kDirect) {
      const ResolvedGroups& groups = op.devices->groups;
      for (uint32_t g : SequencesOf(groups, *value(contribution).classes).first_group) {
        const uint32_t c = value(result).classes->class_of(groups.group(g)[0]);
        planned.accumulators.push_back(layout_.places.OffsetOf(result, c));
      }
      if (plan_.cut.size > 1) {
        auto made = GSHARD_TRY(MakeReduction(op, fused_accumulator.index, planned.accumulators, 1));
        step.direct_results.push_back(std::move(made));
      }
    } else {
      const auto stride = static_cast<int64_t>(AlignUp(static_cast<size_t>(planned.bytes)));
      int64_t next = layout_.BufferOffset(layout.accumulators[k]);
      for (const uint8_t here : layout_.places.kept().TasksHere(chain)) {
        planned.accumulators.push_back(here != 0 ? next : kNotHere);
        if (here != 0) next += stride;
      }
      auto made = GSHARD_TRY(
          MakeReduction(op, fused_accumulator.index, planned.accumulators, chain.tasks_per_group));
      step.final_reductions.push_back(std::move(made));
    }
    step.fused_accumulators.push_back(std::move(planned));
    return {};
  }

  // Of `per_group` neighbouring accumulators for every sequence of groups.
  Expected<CollectiveStep> MakeReduction(const Op& op, size_t operand,
                                         std::span<const int64_t> accumulators,
                                         uint32_t per_group) {
    auto part =
        GSHARD_TRY(PlanFinish(program_, op, operand, layout_.places, accumulators, per_group));
    CollectiveStep reduction;
    reduction.op = &op;
    reduction.parts.push_back(std::move(part));
    return reduction;
  }

  Copy MakeCopy(ValueId from, ValueId to) {
    Copy copy;
    copy.classes = value(to).classes;
    copy.bytes = value(to).bytes;
    copy.from = addresses_.Arena(from, copy.classes);
    copy.to = addresses_.Arena(to, copy.classes);
    return copy;
  }

  Expected<void> EmitWhile(const ScheduledStep& scheduled, uint32_t index) {
    const Op& op = *scheduled.op;
    WhileStep step;
    step.op = &op;
    for (size_t i = 0; i < op.results.size(); ++i) {
      if (NeedsCopy(program_, storage_, op.operands[i], op.results[i])) {
        step.initial.push_back(MakeCopy(op.operands[i], op.results[i]));
      }
    }
    std::vector<Copy> from_staged;
    for (const CarryCopy& planned : layout_.next_copies.at(&scheduled)) {
      Copy copy = MakeCopy(planned.from, planned.to);
      if (planned.staged >= 0) {
        const BufferRef buffer = addresses_.LikeArena(
            planned.to, layout_.BufferOffset(static_cast<uint32_t>(planned.staged)), copy.classes);
        from_staged.push_back({buffer, copy.to, copy.bytes, copy.classes});
        copy.to = buffer;
      }
      step.next.push_back(copy);
    }
    step.next.insert(step.next.end(), from_staged.begin(), from_staged.end());
    const ValueId predicate = op.blocks[0]->results[0];
    step.predicate_classes = value(predicate).classes;
    step.predicate = addresses_.Arena(predicate, step.predicate_classes);
    step.condition = NewBlock();
    step.body = NewBlock();
    const uint32_t condition = step.condition, body = step.body;
    plan_.blocks[index].steps.emplace_back(std::move(step));
    GSHARD_TRY(EmitBlock(*scheduled.blocks[0], condition));
    return EmitBlock(*scheduled.blocks[1], body);
  }

  Expected<void> EmitConditional(const ScheduledStep& scheduled, uint32_t index) {
    const Op& op = *scheduled.op;
    ConditionalStep step;
    step.op = &op;
    step.is_predicate = value(op.operands[0]).shape->dtype() == DType::kPred;
    step.selector_classes = value(op.operands[0]).classes;
    step.selector = addresses_.Arena(op.operands[0], step.selector_classes);
    for (const Block* branch : op.blocks) {
      std::vector<Copy> copies;
      for (size_t i = 0; i < op.results.size(); ++i) {
        if (NeedsCopy(program_, storage_, branch->results[i], op.results[i])) {
          copies.push_back(MakeCopy(branch->results[i], op.results[i]));
        }
      }
      step.results.push_back(std::move(copies));
      step.branches.push_back(NewBlock());
    }
    const std::vector<uint32_t> branches = step.branches;
    plan_.blocks[index].steps.emplace_back(std::move(step));
    for (size_t b = 0; b < branches.size(); ++b) {
      GSHARD_TRY(EmitBlock(*scheduled.blocks[b], branches[b]));
    }
    return {};
  }

  Plan& plan_;
  Program& program_;
  const StorageAssignment& storage_;
  const ArenaLayout& layout_;
  const DeviceMemory& device_memory_;
  AddressTable addresses_;
};

}  // namespace

int64_t Plan::OffsetOn(ValueId value, uint32_t device) const {
  const Value& v = program->values[value];
  return places->OffsetOf(Locate(*program, value, v.classes->class_of(device)));
}

Expected<std::unique_ptr<Plan>> BuildPlan(std::unique_ptr<Program> program,
                                          const PlanOptions& options) {
  auto plan = std::make_unique<Plan>();
  plan->program = std::move(program);
  plan->threads = std::max(options.threads, 1);
  plan->cut = options.cut;
  plan->speeds = options.speeds;
  Program& lowered = *plan->program;
  CloneCheapProducers(lowered);
  Schedule schedule = MakeSchedule(lowered, options.probed_bytes);
  if (options.fuse) {
    GSHARD_TRY(FuseElementwise(lowered, schedule));
  }
  if (options.fused_accumulators) FindFusedAccumulators(lowered, schedule);
  const StorageAssignment storage = AssignStorage(lowered, schedule);
  ArenaLayout layout = LayOutArena(lowered, schedule, storage, options.threads,
                                   KeptInstances(lowered, schedule, storage, options.cut));
  const DeviceMemory device_memory(lowered, schedule, storage);
  plan->memory.device_peak_bytes = device_memory.peak_bytes();
  plan->memory.persistent_bytes = layout.persistent_bytes;
  plan->memory.transient_bytes = layout.transient_bytes;
  plan->memory.lower_bound_bytes = layout.lower_bound_bytes;
  if (options.memory_limit > 0 && plan->memory.arena_bytes() > options.memory_limit) {
    plan->memory.largest = LargestBuffers(lowered, storage, layout.places.kept());
    return plan;
  }
  StepEmitter emitter(*plan, storage, layout, device_memory);
  GSHARD_TRY(emitter.Run(*schedule.entry));
  plan->known = std::move(layout.known);
  plan->zero_bytes = layout.zero_bytes;
  plan->places.emplace(std::move(layout.places));
  return plan;
}

}  // namespace gshard::cpu
