// The devices' own classes; what views span; what collectives bring.
#include "backends/cpu/plan/kept_instances.h"

#include <algorithm>
#include <map>
#include <utility>

#include "backends/cpu/plan/collective_reads.h"
#include "backends/cpu/plan/fused_accumulators.h"
#include "backends/cpu/plan/views.h"
#include "core/analysis/collective_classes.h"

namespace gshard::cpu {
namespace {

// By class: whether one of the rank's devices is in it.
std::vector<uint8_t> OwnClasses(const DeviceClasses& classes, const RankCut& cut) {
  std::vector<uint8_t> own(classes.count(), 0);
  for (uint32_t d = cut.Begin(cut.rank); d < cut.Begin(cut.rank + 1); ++d) {
    own[classes.class_of(d)] = 1;
  }
  return own;
}

// The tasks that have one of these classes.
std::vector<uint8_t> TasksOf(const Chain& chain, const std::vector<uint8_t>& classes) {
  std::vector<uint8_t> tasks(chain.tasks.size() - 1, 0);
  for (size_t t = 0; t < tasks.size(); ++t) {
    for (uint32_t i = chain.tasks[t]; i < chain.tasks[t + 1]; ++i) {
      tasks[t] |= classes[chain.order[i]];
    }
  }
  return tasks;
}

}  // namespace

// Values that share storage have one set, that of the storage.
class KeptInstances::Finder {
 public:
  Finder(const Program& program, const Schedule& schedule, const StorageAssignment& storage,
         const RankCut& cut)
      : program_(program),
        schedule_(schedule),
        storage_(storage),
        cut_(cut),
        received_(storage.storages.size() + program.values.size()) {}

  std::vector<std::shared_ptr<const Numbers>> Run() {
    for (ValueId v = 0; v < program_.values.size(); ++v) {
      const Value& view = program_.values[v];
      if (view.view == nullptr || !view.view->IsTable()) continue;
      const std::vector<uint8_t>& own = Own(view.classes);
      for (uint32_t c = 0; c < own.size(); ++c) {
        if (own[c] != 0) Keep(Locate(program_, v, c), view.bytes);
      }
    }
    VisitBlock(*schedule_.entry);
    std::vector<std::shared_ptr<const Numbers>> numbers(program_.values.size());
    std::vector<std::shared_ptr<const Numbers>> of_set(received_.size());
    std::map<const DeviceClasses*, std::shared_ptr<const Numbers>> of_classes;
    for (ValueId v = 0; v < numbers.size(); ++v) {
      const size_t set = SetOf(v);
      if (set == kNoSet) continue;
      const DeviceClasses* classes = program_.values[v].classes;
      std::shared_ptr<const Numbers>& made =
          received_[set].empty() ? of_classes[classes] : of_set[set];
      if (made == nullptr) {
        made = MakeNumbers(received_[set].empty() ? Own(classes) : received_[set]);
      }
      numbers[v] = made;
    }
    return numbers;
  }

 private:
  static constexpr size_t kNoSet = SIZE_MAX;

  size_t SetOf(ValueId v) const {
    if (program_.values[v].view != nullptr) return kNoSet;
    if (storage_.storage_class[v] == StorageClass::kStored) return storage_.storage[v];
    const bool persistent = storage_.storage_class[v] == StorageClass::kPersistent;
    return persistent && !program_.values[v].IsKnown() ? storage_.storages.size() + v : kNoSet;
  }

  const std::vector<uint8_t>& Own(const DeviceClasses* classes) {
    std::vector<uint8_t>& own = own_[classes];
    if (own.empty()) own = OwnClasses(*classes, cut_);
    return own;
  }

  // So many bytes from there.
  void Keep(const View::Entry& entry, int64_t bytes) {
    if (entry.base == kNoValue || bytes == 0) return;
    const size_t set = SetOf(entry.base);
    if (set == kNoSet) return;
    const Value& base = program_.values[entry.base];
    const std::vector<uint8_t>& own = Own(base.classes);
    const int64_t first = entry.base_class + entry.offset / base.bytes;
    const int64_t last = entry.base_class + (entry.offset + bytes - 1) / base.bytes;
    for (int64_t c = first; c <= last; ++c) {
      const auto i = static_cast<size_t>(c);
      if (own[i] != 0) continue;
      if (received_[set].empty()) received_[set] = own;
      received_[set][i] = 1;
    }
  }

  void KeepOn(ValueId v, uint32_t device) {
    const Value& value = program_.values[v];
    Keep(Locate(program_, v, value.classes->class_of(device)), value.bytes);
  }

  void VisitBlock(const ScheduledBlock& block) {
    for (const ScheduledStep& step : block.steps) {
      for (const ScheduledBlock* inner : step.blocks) VisitBlock(*inner);
      if (step.op == nullptr) {
        for (const FusedAccumulator& fused_accumulator : step.chain.fused_accumulators)
          VisitFusedAccumulator(step.chain, fused_accumulator);
      } else if (step.op->kind == OpKind::kCollective) {
        VisitCollective(step);
      }
    }
  }

  void VisitCollective(const ScheduledStep& step) {
    const Op& op = *step.op;
    if (IsSplit(op)) return;  // what is received goes into the results
    for (size_t k = 0; k < op.results.size(); ++k) {
      if (!IsRead(program_, storage_, op.results[k], step)) continue;
      const DeviceClasses& classes = *program_.values[op.results[k]].classes;
      std::vector<uint8_t> seen(classes.count(), 0);
      for (uint32_t d = cut_.Begin(cut_.rank); d < cut_.Begin(cut_.rank + 1); ++d) {
        if (std::exchange(seen[classes.class_of(d)], 1) != 0) continue;
        ForEachRead(op, k, d, [&](ValueId operand, uint32_t source, int64_t) {
          KeepOn(operand, source);
        });
        if (op.instruction->opcode() != Opcode::kRaggedAllToAll) continue;
        // Which of its rows is not known yet.
        const ResolvedGroups& groups = op.devices->groups;
        for (uint32_t member : groups.group(groups.group_of[d])) KeepOn(op.operands[0], member);
      }
    }
  }

  // Accumulators that are results: of all tasks that run here.
  void VisitFusedAccumulator(const Chain& chain, const FusedAccumulator& fused_accumulator) {
    if (!FoldsIntoResults(chain, fused_accumulator)) return;
    const Op& op = *fused_accumulator.collective;
    const ValueId result = op.results[fused_accumulator.index];
    const Value& value = program_.values[result];
    const ResolvedGroups& groups = op.devices->groups;
    const DeviceClasses* members = program_.values[op.operands[fused_accumulator.index]].classes;
    const std::vector<uint8_t> tasks = TasksOf(chain, Own(chain.classes));
    const std::vector<uint32_t> first_group = SequencesOf(groups, *members).first_group;
    for (size_t t = 0; t < first_group.size(); ++t) {
      const uint32_t c = value.classes->class_of(groups.group(first_group[t])[0]);
      if (tasks[t] != 0) Keep({result, c, 0}, value.bytes);
    }
  }

  static std::shared_ptr<const Numbers> MakeNumbers(const std::vector<uint8_t>& kept) {
    auto numbers = std::make_shared<Numbers>();
    numbers->of_class.assign(kept.size(), kNotKept);
    uint32_t last = 0;
    for (uint32_t c = 0; c < kept.size(); ++c) {
      if (kept[c] == 0) continue;
      if (numbers->count == 0) numbers->first = c;
      numbers->is_run = numbers->is_run && (numbers->count == 0 || last + 1 == c);
      last = c;
      numbers->of_class[c] = numbers->count++;
    }
    return numbers;
  }

  const Program& program_;
  const Schedule& schedule_;
  const StorageAssignment& storage_;
  const RankCut& cut_;
  std::map<const DeviceClasses*, std::vector<uint8_t>> own_;
  // By set: the own classes and those that are received, or empty if nothing is.
  std::vector<std::vector<uint8_t>> received_;
};

KeptInstances::KeptInstances(const Program& program, const Schedule& schedule,
                             const StorageAssignment& storage, const RankCut& cut)
    : program_(&program), cut_(cut) {
  if (cut.size > 1) of_value_ = Finder(program, schedule, storage, cut).Run();
}

std::vector<uint8_t> KeptInstances::TasksHere(const Chain& chain) const {
  return TasksOf(chain, of_value_.empty() ? std::vector<uint8_t>(chain.order.size(), 1)
                                          : OwnClasses(*chain.classes, cut_));
}

}  // namespace gshard::cpu
