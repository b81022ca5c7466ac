// Lifetimes by one walk over the schedule, then storage by another.
#include "backends/cpu/plan/storage.h"

#include <algorithm>

namespace gshard::cpu {
namespace {

constexpr uint32_t kForever = UINT32_MAX;
constexpr uint32_t kNoLoop = UINT32_MAX;

// Operations that copy an operand whole unless they may change it in place.
bool WantsInPlace(Opcode opcode) {
  return opcode == Opcode::kDynamicUpdateSlice || opcode == Opcode::kScatter;
}

class StorageAssigner {
 public:
  StorageAssigner(const Program& program, Schedule& schedule)
      : program_(program), schedule_(schedule), lives_(program.values.size()) {
    result_.storage_class.assign(program.values.size(), StorageClass::kNone);
    result_.storage.assign(program.values.size(), StorageAssignment::kNoStorage);
  }

  StorageAssignment Run() {
    for (ValueId parameter : program_.parameters) {
      result_.storage_class[parameter] = StorageClass::kPersistent;
    }
    Number(*schedule_.entry);
    Collect(*schedule_.entry, kNoLoop);
    for (ValueId value : program_.results) UseForever(value);
    for (ValueId value : program_.kept) UseForever(value);
    FavourInPlace(*schedule_.entry);
    for (ValueId v = 0; v < lives_.size(); ++v) {
      Life& life = lives_[v];
      if (life.step == nullptr || program_.values[v].view != nullptr ||
          result_.storage_class[v] == StorageClass::kPersistent) {
        continue;
      }
      result_.storage_class[v] = life.stored ? StorageClass::kStored : StorageClass::kSlot;
    }
    Assign(*schedule_.entry, kNoLoop);
    for (ValueId v = 0; v < lives_.size(); ++v) {
      result_.defined.push_back(lives_[v].defined);
      result_.last_used.push_back(lives_[v].last_used);
      if (result_.storage_class[v] != StorageClass::kStored) continue;
      Storage& storage = result_.storages[result_.storage[v]];
      storage.begin = std::min(storage.begin, BeginOf(lives_[v]));
      storage.end = std::max({storage.end, lives_[v].needed_until, lives_[v].defined.time});
    }
    for (Storage& storage : result_.storages) storage.end = std::min(storage.end, now_);
    result_.program_points = now_ + 1;
    return std::move(result_);
  }

 private:
  using Position = StorageAssignment::Position;

  struct Life {
    const ScheduledStep* step = nullptr;  // where it is made
    const ScheduledBlock* block = nullptr;
    const Op* op = nullptr;
    Position defined;
    uint32_t loop = kNoLoop;        // innermost loop around the definition
    Position last_used;             // in walking order
    const Op* last_user = nullptr;  // null: several at that position, or not an operation
    uint32_t needed_until = 0;      // loops counted as a whole
    uint32_t last_table_use = 0;    // last use that may read other classes' instances
    bool used = false;
    bool stored = false;
  };

  struct Loop {
    uint32_t parent = kNoLoop;
    uint32_t begin = 0, end = 0;
    // Per carried value: the last use inside the loop.
    std::vector<Position> last_inside;
    std::vector<uint32_t> last_table_inside;
  };

  // A value that is kept beyond the loop that makes it must survive the whole loop: the condition
  // runs once more after the last iteration.
  uint32_t BeginOf(const Life& life) const {
    uint32_t begin = life.defined.time;
    for (uint32_t l = life.loop; l != kNoLoop && life.needed_until > loops_[l].end;
         l = loops_[l].parent) {
      begin = std::min(begin, loops_[l].begin);
    }
    return begin;
  }

  static bool Before(Position a, Position b) {
    return a.time != b.time ? a.time < b.time : a.op < b.op;
  }

  // Whether the chain in front has done this operand's reduction already. (An operand may itself be
  // what another such reduction gave: then it is used here like any other.)
  bool IsSunk(const Op& op, size_t k) const {
    return op.kind == OpKind::kCollective && k < op.results.size() &&
           program_.values[op.results[k]].fused_into_reduction;
  }

  void Number(ScheduledBlock& block) {
    for (ScheduledStep& step : block.steps) {
      step.begin = ++now_;
      for (ScheduledBlock* inner : step.blocks) Number(*inner);
      step.end = step.blocks.empty() ? step.begin : ++now_;
    }
    block.end = ++now_;
  }

  // --- first walk: definitions and uses

  void Collect(const ScheduledBlock& block, uint32_t loop) {
    for (const ScheduledStep& step : block.steps) {
      if (step.op == nullptr) {
        for (uint32_t i = 0; i < step.chain.ops.size(); ++i) {
          const Op* op = step.chain.ops[i];
          for (ValueId operand : op->operands) Use(operand, {step.begin, i}, loop, op, &step);
          for (ValueId result : op->results) Define(result, block, step, i, loop, op);
        }
        for (const FusedAccumulator& fused_accumulator : step.chain.fused_accumulators) {
          Use(fused_accumulator.collective->operands[fused_accumulator.index],
              {step.begin, fused_accumulator.after_op}, loop, nullptr, &step);
          const ValueId result = fused_accumulator.collective->results[fused_accumulator.index];
          Define(result, block, step, fused_accumulator.after_op, loop,
                 fused_accumulator.collective);
          lives_[result].stored = true;
        }
        continue;
      }
      for (size_t k = 0; k < step.op->operands.size(); ++k) {
        if (IsSunk(*step.op, k)) continue;
        Use(step.op->operands[k], {step.begin, 0}, loop, step.op, nullptr);
      }
      for (ValueId result : step.op->results) {
        if (program_.values[result].fused_into_reduction) continue;
        Define(result, block, step, 0, loop, step.op);
        lives_[result].stored = true;
      }
      if (step.op->kind == OpKind::kWhile) {
        const auto inner = static_cast<uint32_t>(loops_.size());
        loops_.push_back({loop, step.begin, step.end, {}, {}});
        loop_of_step_.push_back({&step, inner});
        Collect(*step.blocks[0], inner);
        Use(step.op->blocks[0]->results[0], {step.blocks[0]->end, 0}, inner, nullptr, nullptr);
        Collect(*step.blocks[1], inner);
        for (ValueId result : step.op->blocks[1]->results) {
          Use(result, {step.blocks[1]->end, 0}, inner, nullptr, nullptr);
        }
        for (ValueId carried : step.op->results) {
          Life& life = lives_[carried];
          life.needed_until = std::max(life.needed_until, step.end);
          loops_[inner].last_inside.push_back(life.last_used);
          loops_[inner].last_table_inside.push_back(life.last_table_use);
        }
      } else {
        for (size_t b = 0; b < step.blocks.size(); ++b) {
          Collect(*step.blocks[b], loop);
          for (ValueId result : step.op->blocks[b]->results) {
            Use(result, {step.blocks[b]->end, 0}, loop, nullptr, nullptr);
          }
        }
        if (!step.blocks.empty()) {
          for (ValueId result : step.op->results) {
            lives_[result].needed_until = std::max(lives_[result].needed_until, step.end);
          }
        }
      }
    }
  }

  void Define(ValueId value, const ScheduledBlock& block, const ScheduledStep& step, uint32_t index,
              uint32_t loop, const Op* op) {
    Life& life = lives_[value];
    life.step = &step;
    life.block = &block;
    life.op = op;
    life.defined = {step.begin, index};
    life.loop = loop;
    life.last_used = life.defined;
    life.needed_until = std::max(life.needed_until, step.begin);
  }

  void Use(ValueId value, Position position, uint32_t loop, const Op* user,
           const ScheduledStep* step) {
    bool table = false;
    ValueId direct = value;
    while (program_.values[direct].view != nullptr) {
      if (program_.values[direct].view->IsTable()) {
        table = true;
        break;
      }
      direct = program_.values[direct].view->base;
    }
    if (!table) {
      UseBase(direct, position, loop, direct == value ? user : nullptr, step, false);
    } else {
      for (ValueId base : BasesOf(program_, direct)) {
        UseBase(base, position, loop, nullptr, step, true);
      }
    }
  }

  void UseBase(ValueId value, Position position, uint32_t loop, const Op* user,
               const ScheduledStep* step, bool table) {
    if (program_.values[value].IsKnown()) {
      result_.storage_class[value] = StorageClass::kPersistent;
      return;
    }
    Life& life = lives_[value];
    if (life.used && life.last_used.time == position.time && life.last_used.op == position.op &&
        life.last_user != user) {
      user = nullptr;
    }
    life.last_used = position;
    life.last_user = user;
    if (table) life.last_table_use = position.time;
    uint32_t until = position.time;
    for (uint32_t l = loop; l != life.loop && l != kNoLoop; l = loops_[l].parent) {
      until = loops_[l].end;
    }
    life.needed_until = std::max(life.needed_until, until);
    life.used = true;
    if (table || step == nullptr || step != life.step) life.stored = true;
  }

  void UseForever(ValueId value) {
    for (ValueId base : BasesOf(program_, value)) {
      UseBase(base, {kForever, 0}, kNoLoop, nullptr, nullptr, true);
    }
  }

  // --- second walk: storage

  // An update of a value that is stored should find its operand stored too, to work in place.
  void FavourInPlace(const ScheduledBlock& block) {
    for (auto step = block.steps.rbegin(); step != block.steps.rend(); ++step) {
      for (const ScheduledBlock* inner : step->blocks) FavourInPlace(*inner);
      if (step->op != nullptr) continue;
      for (auto op = step->chain.ops.rbegin(); op != step->chain.ops.rend(); ++op) {
        if ((*op)->kind != OpKind::kKernel || !WantsInPlace((*op)->instruction->opcode())) continue;
        const ValueId operand = (*op)->operands[0];
        if (!lives_[(*op)->results[0]].stored || program_.values[operand].view != nullptr) continue;
        Life& life = lives_[operand];
        if (life.step == &*step && life.last_user == *op) life.stored = true;
      }
    }
  }

  uint32_t NewStorage(ValueId value) {
    result_.storages.push_back({program_.values[value].bytes, kForever, 0});
    return static_cast<uint32_t>(result_.storages.size() - 1);
  }

  bool IsUnassigned(ValueId value) const {
    return program_.values[value].view == nullptr &&
           result_.storage_class[value] == StorageClass::kStored &&
           result_.storage[value] == StorageAssignment::kNoStorage;
  }

  bool SameForm(ValueId a, ValueId b) const {
    return program_.values[a].classes == program_.values[b].classes &&
           program_.values[a].bytes == program_.values[b].bytes;
  }

  void Assign(const ScheduledBlock& block, uint32_t loop) {
    for (const ScheduledStep& step : block.steps) {
      if (step.op == nullptr) {
        for (const Op* op : step.chain.ops) AssignKernel(*op, loop);
        for (const FusedAccumulator& fused_accumulator : step.chain.fused_accumulators) {
          const ValueId result = fused_accumulator.collective->results[fused_accumulator.index];
          if (IsUnassigned(result)) result_.storage[result] = NewStorage(result);
        }
      } else if (step.op->kind == OpKind::kWhile) {
        AssignWhile(step, loop);
      } else {
        for (ValueId result : step.op->results) {
          if (IsUnassigned(result)) result_.storage[result] = NewStorage(result);
        }
        for (size_t b = 0; b < step.blocks.size(); ++b) {
          ShareBranchResults(step, b);
          Assign(*step.blocks[b], loop);
        }
      }
    }
  }

  // True if `op` may overwrite operand k: nobody reads that value afterwards.
  bool DiesInPlace(const Op& op, size_t k) const {
    const ValueId operand = op.operands[k];
    const ValueId result = op.results[0];
    if (program_.values[operand].view != nullptr ||
        result_.storage_class[operand] != StorageClass::kStored ||
        !op.kernel->InPlace(static_cast<int64_t>(k)) || !SameForm(operand, result)) {
      return false;
    }
    for (size_t j = 0; j < op.operands.size(); ++j) {
      if (j != k && op.operands[j] == operand && !op.kernel->InPlace(static_cast<int64_t>(j))) {
        return false;
      }
    }
    const Life& life = lives_[operand];
    const Position here = lives_[result].defined;
    return life.last_user == &op && life.last_used.time == here.time &&
           life.last_table_use < here.time;
  }

  void AssignKernel(const Op& op, uint32_t loop) {
    for (size_t r = 0; r < op.results.size(); ++r) {
      const ValueId result = op.results[r];
      if (!IsUnassigned(result)) continue;
      if (r == 0) {
        for (size_t k = 0; k < op.operands.size(); ++k) {
          const ValueId operand = op.operands[k];
          if (!DiesInPlace(op, k)) continue;
          if (lives_[operand].loop != loop ||
              result_.storage[operand] == StorageAssignment::kNoStorage ||
              lives_[operand].needed_until != lives_[result].defined.time) {
            continue;
          }
          result_.storage[result] = result_.storage[operand];
          break;
        }
      }
      if (IsUnassigned(result)) result_.storage[result] = NewStorage(result);
    }
  }

  void AssignWhile(const ScheduledStep& step, uint32_t loop) {
    const Op& op = *step.op;
    uint32_t inner = kNoLoop;
    for (const auto& [s, l] : loop_of_step_) {
      if (s == &step) inner = l;
    }
    for (size_t i = 0; i < op.results.size(); ++i) {
      const ValueId carried = op.results[i];
      const ValueId initial = op.operands[i];
      if (!IsUnassigned(carried)) continue;
      if (MayAdopt(op, i, step, loop)) {
        result_.storage[carried] = result_.storage[initial];
      } else {
        result_.storage[carried] = NewStorage(carried);
      }
      ShareNextValue(step, i, inner);
    }
    Assign(*step.blocks[0], inner);
    Assign(*step.blocks[1], inner);
  }

  // The initial value's buffer becomes the carried value's if nobody else needs it.
  bool MayAdopt(const Op& op, size_t i, const ScheduledStep& step, uint32_t loop) const {
    const ValueId initial = op.operands[i];
    if (program_.values[initial].view != nullptr ||
        result_.storage_class[initial] != StorageClass::kStored ||
        result_.storage[initial] == StorageAssignment::kNoStorage ||
        !SameForm(initial, op.results[i])) {
      return false;
    }
    const Life& life = lives_[initial];
    if (life.loop != loop || life.needed_until != step.begin || life.last_user != &op) return false;
    return std::count(op.operands.begin(), op.operands.end(), initial) == 1;
  }

  // The body writes the next value straight into the carried value's buffer if the carried value is
  // not read any more by then; through a chain of in-place updates if need be.
  void ShareNextValue(const ScheduledStep& step, size_t i, uint32_t inner) {
    const ValueId carried = step.op->results[i];
    const Position last = loops_[inner].last_inside[i];
    const uint32_t last_table = loops_[inner].last_table_inside[i];
    ValueId next = step.op->blocks[1]->results[i];
    std::vector<ValueId> sharing;
    for (;;) {
      if (!IsUnassigned(next) || !SameForm(next, carried)) break;
      const Life& life = lives_[next];
      if (life.block != step.blocks[1] || last_table >= life.defined.time) break;
      const Op& op = *life.op;
      if (op.kind != OpKind::kKernel && op.kind != OpKind::kCollective) break;
      const bool kernel = op.kind == OpKind::kKernel && op.results.size() == 1;
      // In place on the carried value itself: its last use.
      bool on_carried = false;
      for (size_t k = 0; kernel && k < op.operands.size(); ++k) {
        on_carried |= op.operands[k] == carried && op.kernel->InPlace(static_cast<int64_t>(k));
      }
      for (size_t k = 0; kernel && k < op.operands.size(); ++k) {
        if (op.operands[k] == carried && !op.kernel->InPlace(static_cast<int64_t>(k))) {
          on_carried = false;
        }
      }
      const bool last_here = last.time == life.defined.time && last.op == life.defined.op;
      if (Before(last, life.defined) &&
          (op.kind == OpKind::kKernel || last.time < life.defined.time)) {
        sharing.push_back(next);
      } else if (last_here && on_carried) {
        sharing.push_back(next);
        break;
      } else {
        break;
      }
      // Follow an in-place update to what it updates.
      ValueId updated = kNoValue;
      for (size_t k = 0; kernel && k < op.operands.size(); ++k) {
        if (WantsInPlace(op.instruction->opcode()) && DiesInPlace(op, k) &&
            lives_[op.operands[k]].needed_until == life.defined.time) {
          updated = op.operands[k];
        }
      }
      if (updated == kNoValue) break;
      next = updated;
    }
    for (ValueId value : sharing) result_.storage[value] = result_.storage[carried];
  }

  void ShareBranchResults(const ScheduledStep& step, size_t b) {
    const Op& op = *step.op;
    for (size_t i = 0; i < op.results.size(); ++i) {
      const ValueId result = op.results[i];
      const ValueId from = op.blocks[b]->results[i];
      if (result_.storage_class[result] != StorageClass::kStored || !IsUnassigned(from) ||
          !SameForm(from, result) || lives_[from].block != step.blocks[b]) {
        continue;
      }
      const OpKind kind = lives_[from].op->kind;
      if (kind != OpKind::kKernel && kind != OpKind::kCollective) continue;
      result_.storage[from] = result_.storage[result];
    }
  }

  const Program& program_;
  Schedule& schedule_;
  std::vector<Life> lives_;
  std::vector<Loop> loops_;
  std::vector<std::pair<const ScheduledStep*, uint32_t>> loop_of_step_;
  StorageAssignment result_;
  uint32_t now_ = 0;
};

}  // namespace

StorageAssignment AssignStorage(const Program& program, Schedule& schedule) {
  return StorageAssigner(program, schedule).Run();
}

bool IsRead(const Program& program, const StorageAssignment& storage, ValueId result,
            const ScheduledStep& step) {
  if (program.values[result].view == nullptr) return true;
  for (ValueId base : BasesOf(program, result)) {
    if (storage.storage_class[base] == StorageClass::kPersistent) continue;
    if (storage.storage_class[base] != StorageClass::kStored ||
        storage.last_used[base].time < step.begin) {
      return false;
    }
  }
  return true;
}

}  // namespace gshard::cpu
