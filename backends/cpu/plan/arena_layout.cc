#include "backends/cpu/plan/arena_layout.h"

#include <algorithm>
#include <utility>

#include "backends/cpu/memory/memory.h"
#include "backends/cpu/plan/fused_accumulators.h"

namespace gshard::cpu {
namespace {

// What the temporaries and the current operands of a block of classes should fit in.
constexpr int64_t kBlockBudget = 384 << 10;
constexpr int64_t kSmallInstance = 4 << 10;

class ArenaPlanner {
 public:
  ArenaPlanner(const Program& program, const Schedule& schedule, const StorageAssignment& storage,
               int threads, KeptInstances kept)
      : program_(program),
        schedule_(schedule),
        storage_(storage),
        threads_(threads),
        layout_(InstancePlaces(program, std::move(kept))) {}

  ArenaLayout Run() {
    PlaceTransient();
    PlacePersistent();
    return std::move(layout_);
  }

 private:
  const Value& value(ValueId id) const { return program_.values[id]; }

  void PlaceTransient() {
    std::vector<uint32_t> buffers, kept(storage_.storages.size(), 0);
    for (ValueId v = 0; v < program_.values.size(); ++v) {
      if (storage_.storage_class[v] == StorageClass::kStored) {
        kept[storage_.storage[v]] = layout_.places.kept().count(v);
      }
    }
    for (size_t s = 0; s < kept.size(); ++s) {
      const Storage& storage = storage_.storages[s];
      buffers.push_back(
          layout_.packer.Add(storage.instance_bytes * kept[s], storage.begin, storage.end));
    }
    LayOutBlock(*schedule_.entry);
    PlanCopies(*schedule_.entry);
    layout_.transient_bytes = layout_.packer.Pack();
    layout_.lower_bound_bytes = layout_.packer.LowerBound();
    storage_offsets_.reserve(buffers.size());
    for (uint32_t buffer : buffers) storage_offsets_.push_back(layout_.packer.offset(buffer));
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
        if (!value(result).accumulated_by_kernel) op_bytes += value(result).bytes;
        if (InSlot(result)) local.push_back(result);
      }
      external = std::max(external, op_bytes);
    }
    const int64_t one = PackSlot(step, local, 1, layout);
    const int64_t footprint = std::max<int64_t>(one + external, 1);
    int64_t most = std::max<int64_t>(footprint <= kSmallInstance ? count / 16 : count / 64, 1);
    int64_t tasks = 0;
    if (!chain.fused_accumulators.empty()) {
      tasks = static_cast<int64_t>(chain.tasks.size()) - 1;
      most = std::min<int64_t>(most, count / tasks);
    }
    layout.block = static_cast<uint32_t>(std::clamp<int64_t>(kBlockBudget / footprint, 1, most));
    layout.slot_bytes = layout.block == 1 ? one : PackSlot(step, local, layout.block, layout);
    if (tasks == 0) tasks = (count + layout.block - 1) / layout.block;
    const int64_t slots = std::min<int64_t>(threads_, tasks);
    layout.slots = slots;
    layout.slot_buffer = layout_.packer.Add(layout.slot_bytes * slots, step.begin, step.begin);
    int64_t tasks_here = 0;
    if (!chain.fused_accumulators.empty()) {
      const std::vector<uint8_t> here = layout_.places.kept().TasksHere(chain);
      tasks_here = std::count(here.begin(), here.end(), uint8_t{1});
    }
    for (const FusedAccumulator& fused_accumulator : chain.fused_accumulators) {
      const int64_t bytes =
          value(fused_accumulator.collective->operands[fused_accumulator.index]).bytes;
      const auto stride = static_cast<int64_t>(AlignUp(static_cast<size_t>(bytes)));
      layout.accumulators.push_back(
          FoldsIntoResults(chain, fused_accumulator)
              ? ChainLayout::kDirect
              : layout_.packer.Add(tasks_here * stride, step.begin, step.begin));
    }
    layout_.chains[&step] = std::move(layout);
  }

  bool InSlot(ValueId id) const {
    return storage_.storage_class[id] == StorageClass::kSlot && !value(id).accumulated_by_kernel;
  }

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
    int64_t next = static_cast<int64_t>(AlignUp(static_cast<size_t>(layout_.transient_bytes)));
    const int64_t start = next;
    auto place = [&](int64_t bytes) {
      const int64_t offset = next;
      next += static_cast<int64_t>(AlignUp(static_cast<size_t>(bytes)));
      return offset;
    };
    int64_t largest = 64;
    for (const Value& v : program_.values) largest = std::max(largest, v.view ? v.bytes : 0);
    InstancePlaces& places = layout_.places;
    places.PlaceZeros(place(largest));
    layout_.zero_bytes = largest;
    for (ValueId parameter : program_.parameters) {
      if (places.IsPlaced(parameter)) continue;
      places.Place(parameter, place(value(parameter).bytes * places.kept().count(parameter)));
    }
    for (ValueId v = 0; v < program_.values.size(); ++v) {
      if (storage_.storage_class[v] == StorageClass::kPersistent && value(v).IsKnown()) {
        places.Place(v, place(static_cast<int64_t>(value(v).known.size())));
        layout_.known.push_back({places.begin(v), value(v).known});
      } else if (storage_.storage_class[v] == StorageClass::kStored) {
        places.Place(v, storage_offsets_[storage_.storage[v]]);
      }
    }
    layout_.rng_state = place(16);
    layout_.persistent_bytes = next - start;
    layout_.transient_bytes = start;
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
    std::vector<CarryCopy> pending, ordered;
    for (size_t i = 0; i < op.results.size(); ++i) {
      const ValueId from = op.blocks[1]->results[i];
      if (NeedsCopy(program_, storage_, from, op.results[i]))
        pending.push_back({from, op.results[i], -1});
    }
    auto reads = [&](const CarryCopy& copy, ValueId overwritten) {
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
      CarryCopy staged = pending.back();
      pending.pop_back();
      const Value& to = value(staged.to);
      const uint32_t at = step.blocks[1]->end;
      staged.staged =
          layout_.packer.Add(to.bytes * layout_.places.kept().count(staged.to), at, at);
      ordered.push_back(staged);
    }
    layout_.next_copies[&step] = std::move(ordered);
  }

  const Program& program_;
  const Schedule& schedule_;
  const StorageAssignment& storage_;
  const int threads_;
  std::vector<int64_t> storage_offsets_;
  ArenaLayout layout_;
};

}  // namespace

bool NeedsCopy(const Program& program, const StorageAssignment& storage, ValueId from, ValueId to) {
  return from != to && !(program.values[from].view == nullptr && storage.SharesStorage(from, to));
}

ArenaLayout LayOutArena(const Program& program, const Schedule& schedule,
                        const StorageAssignment& storage, int threads, KeptInstances kept) {
  return ArenaPlanner(program, schedule, storage, threads, std::move(kept)).Run();
}

}  // namespace gshard::cpu
