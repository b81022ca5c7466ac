// Liveness simulation. See memory.h.
//
// Each instruction has one storage per leaf of its shape; several instructions may share a storage.
// A forward walk allocates and frees; a computation's result is its peak beyond what its caller
// owns.

#include "core/cost/memory.h"

#include <algorithm>
#include <map>

#include "core/analysis/fusion.h"
#include "ir/traversal.h"

namespace gshard {
namespace {

void LeafBytes(const Shape* shape, std::vector<int64_t>& bytes) {
  if (!shape->IsTuple()) {
    bytes.push_back(shape->byte_size());
    return;
  }
  for (const Shape* element : shape->elements()) LeafBytes(element, bytes);
}

int64_t FirstLeaf(const Shape* tuple, int64_t index) {
  int64_t leaf = 0;
  for (int64_t i = 0; i < index; ++i) leaf += tuple->element(i)->leaf_count();
  return leaf;
}

bool AliasesOperand(Opcode opcode) {
  switch (opcode) {
    case Opcode::kReshape:
    case Opcode::kBitcast:
    case Opcode::kOptBarrier:
    case Opcode::kAddDependency:
    case Opcode::kDomain:
    case Opcode::kWhile:
    case Opcode::kAllReduceDone:
    case Opcode::kCollectivePermuteDone:
      return true;
    default:
      return false;
  }
}

struct Storage {
  const Instruction* owner = nullptr;
  int64_t bytes = 0;
  int64_t last_use = -1;  // step after which it may be freed
  bool pinned = false;    // never freed (arguments, outputs)
  bool live = false;
};

struct ComputationPeak {
  int64_t extra = 0;  // beyond the parameters
  size_t step = 0;    // where it is reached
};

class MemorySimulation {
 public:
  explicit MemorySimulation(const Module& module) : module_(module), users_(module) {}

  MemoryReport Run() {
    const Computation& entry = *module_.entry();
    MemoryReport report;
    for (const Instruction* parameter : entry.parameters())
      report.argument_bytes += parameter->shape()->byte_size();
    ComputationPeak peak = PeakOf(entry);
    report.peak_bytes = report.argument_bytes + peak.extra;
    Capture(entry, report.at_peak);
    std::stable_sort(report.at_peak.begin(), report.at_peak.end(),
                     [](const LiveBuffer& a, const LiveBuffer& b) { return a.bytes > b.bytes; });
    report.output_bytes = output_bytes_;
    report.temp_bytes =
        std::max<int64_t>(0, report.peak_bytes - report.argument_bytes - report.output_bytes);
    return report;
  }

 private:
  // One walk over a computation's instructions.
  struct Walk {
    std::vector<Storage> storages;
    std::map<uint32_t, std::vector<size_t>> leaves;  // instruction id -> storage of each leaf
  };

  ComputationPeak PeakOf(const Computation& computation) {
    auto [it, fresh] = peaks_.try_emplace(&computation);
    if (fresh) {
      ComputationPeak peak = Simulate(computation, SIZE_MAX, nullptr);
      peaks_[&computation] = peak;
      return peak;
    }
    return it->second;
  }

  int64_t CalleesPeak(const Instruction* instruction) {
    int64_t extra = 0;
    switch (instruction->opcode()) {
      case Opcode::kWhile:
      case Opcode::kConditional:
      case Opcode::kCall:
      case Opcode::kAsyncStart:
        for (const Computation* callee : instruction->called())
          extra = std::max(extra, PeakOf(*callee).extra);
        return extra;
      default:
        return 0;
    }
  }

  // Live buffers at the peak of `computation`, those of callees that run then included.
  void Capture(const Computation& computation, std::vector<LiveBuffer>& live) {
    ComputationPeak peak = PeakOf(computation);
    Simulate(computation, peak.step, &live);
    if (peak.step >= computation.instructions().size()) return;
    const Instruction* at = computation.instructions()[peak.step];
    if (CalleesPeak(at) == 0) return;
    const Computation* deepest = *std::max_element(at->called().begin(), at->called().end(),
                                                   [&](const Computation* a, const Computation* b) {
                                                     return PeakOf(*a).extra < PeakOf(*b).extra;
                                                   });
    std::vector<LiveBuffer> inner;
    Capture(*deepest, inner);
    for (const LiveBuffer& buffer : inner) {
      if (buffer.instruction->opcode() != Opcode::kParameter) live.push_back(buffer);
    }
  }

  // Steps at which each instruction's value is needed last: fused users pass on their own.
  std::vector<int64_t> LastUses(const Computation& computation, const FusionModel& fusion,
                                const Walk& walk, const std::map<uint32_t, int64_t>& step_of) {
    std::vector<int64_t> last(walk.storages.size(), -1);
    std::map<uint32_t, int64_t> effective;  // step at which an instruction really computes
    std::span<Instruction* const> list = computation.instructions();
    for (size_t i = list.size(); i-- > 0;) {
      const Instruction* instruction = list[i];
      int64_t at = static_cast<int64_t>(i);
      if (fusion.IsFused(instruction)) {
        for (const Instruction* user : users_.of(instruction)) {
          auto it = effective.find(user->id());
          at = std::max(at, it == effective.end() ? step_of.at(user->id()) : it->second);
        }
      }
      effective[instruction->id()] = at;
      for (const Instruction* operand : instruction->operands()) {
        for (size_t storage : walk.leaves.at(operand->id()))
          last[storage] = std::max(last[storage], at);
      }
    }
    return last;
  }

  // Assigns storages: fresh ones, or those of operands for aliasing instructions.
  Walk Assign(const Computation& computation, const FusionModel& fusion) {
    Walk walk;
    for (const Instruction* instruction : computation.instructions()) {
      std::vector<size_t>& mine = walk.leaves[instruction->id()];
      if (instruction->opcode() == Opcode::kTuple) {
        for (const Instruction* operand : instruction->operands()) {
          const std::vector<size_t>& theirs = walk.leaves.at(operand->id());
          mine.insert(mine.end(), theirs.begin(), theirs.end());
        }
        continue;
      }
      if (instruction->opcode() == Opcode::kGetTupleElement) {
        const Instruction* tuple = instruction->operand(0);
        int64_t first =
            FirstLeaf(tuple->shape(), instruction->attributes<GetTupleElementAttributes>().index);
        const std::vector<size_t>& theirs = walk.leaves.at(tuple->id());
        mine.assign(theirs.begin() + first,
                    theirs.begin() + first + instruction->shape()->leaf_count());
        continue;
      }
      if (AliasesOperand(instruction->opcode())) {
        const std::vector<size_t>& theirs = walk.leaves.at(instruction->operand(0)->id());
        if (static_cast<int64_t>(theirs.size()) == instruction->shape()->leaf_count()) {
          mine = theirs;
          continue;
        }
      }
      std::vector<int64_t> bytes;
      LeafBytes(instruction->shape(), bytes);
      for (int64_t size : bytes) {
        mine.push_back(walk.storages.size());
        walk.storages.push_back({instruction, fusion.IsFused(instruction) ? 0 : size});
      }
    }
    return walk;
  }

  void PinArguments(const Computation& computation, Walk& walk) {
    if (&computation != module_.entry()) return;
    const ModuleHeader& header = module_.header();
    for (const Instruction* parameter : computation.parameters()) {
      int64_t number = parameter->attributes<ParameterAttributes>().number;
      bool donated = std::any_of(header.buffer_donor.begin(), header.buffer_donor.end(),
                                 [&](const auto& donor) { return donor.parameter == number; }) ||
                     std::any_of(header.input_output_alias.begin(), header.input_output_alias.end(),
                                 [&](const auto& alias) { return alias.parameter == number; });
      for (size_t storage : walk.leaves.at(parameter->id()))
        walk.storages[storage].pinned = !donated;
    }
  }

  // The storage of an operand that `instruction` may overwrite, or SIZE_MAX.
  static size_t TakeOver(const Instruction* instruction, const Walk& walk, int64_t step,
                         int64_t bytes) {
    bool update = instruction->opcode() == Opcode::kDynamicUpdateSlice;
    if (!update && !IsElementwise(instruction->opcode())) return SIZE_MAX;
    for (const Instruction* operand : instruction->operands()) {
      const std::vector<size_t>& leaves = walk.leaves.at(operand->id());
      if (leaves.size() == 1) {
        const Storage& storage = walk.storages[leaves[0]];
        if (storage.live && !storage.pinned && storage.last_use == step && storage.bytes == bytes &&
            bytes > 0) {
          return leaves[0];
        }
      }
      if (update) break;
    }
    return SIZE_MAX;
  }

  ComputationPeak Simulate(const Computation& computation, size_t capture_step,
                           std::vector<LiveBuffer>* captured) {
    FusionModel fusion(computation, users_);
    Walk walk = Assign(computation, fusion);
    std::span<Instruction* const> list = computation.instructions();
    std::map<uint32_t, int64_t> step_of;
    for (size_t i = 0; i < list.size(); ++i) step_of[list[i]->id()] = static_cast<int64_t>(i);
    std::vector<int64_t> last = LastUses(computation, fusion, walk, step_of);
    std::vector<std::vector<size_t>> ends(list.size());
    for (size_t i = 0; i < walk.storages.size(); ++i) walk.storages[i].last_use = last[i];
    PinArguments(computation, walk);
    for (size_t storage : walk.leaves.at(computation.root()->id())) {
      walk.storages[storage].last_use = static_cast<int64_t>(list.size());
    }
    for (size_t i = 0; i < walk.storages.size(); ++i) {
      Storage& storage = walk.storages[i];
      int64_t end = std::max(storage.last_use, step_of.at(storage.owner->id()));
      if (!storage.pinned && end < static_cast<int64_t>(list.size()))
        ends[static_cast<size_t>(end)].push_back(i);
    }

    int64_t live = 0, parameters = 0;
    for (const Instruction* parameter : computation.parameters()) {
      for (size_t storage : walk.leaves.at(parameter->id())) {
        walk.storages[storage].live = true;
        parameters += walk.storages[storage].bytes;
      }
    }
    live = parameters;
    ComputationPeak peak{0, 0};
    for (size_t i = 0; i < list.size(); ++i) {
      const Instruction* instruction = list[i];
      for (size_t leaf : walk.leaves.at(instruction->id())) {
        Storage& storage = walk.storages[leaf];
        if (storage.owner != instruction || storage.live) continue;
        size_t taken = TakeOver(instruction, walk, static_cast<int64_t>(i), storage.bytes);
        if (taken != SIZE_MAX) {
          walk.storages[taken].live = false;
        } else {
          live += storage.bytes;
        }
        storage.live = true;
      }
      int64_t now = live + CalleesPeak(instruction) - parameters;
      if (now > peak.extra) peak = {now, i};
      if (captured != nullptr && i == capture_step) {
        for (const Storage& storage : walk.storages) {
          if (storage.live && storage.bytes > 0)
            captured->push_back({storage.owner, storage.bytes});
        }
        return peak;
      }
      for (size_t ended : ends[i]) {
        if (!walk.storages[ended].live) continue;
        walk.storages[ended].live = false;
        live -= walk.storages[ended].bytes;
      }
    }
    if (&computation == module_.entry()) CountOutputs(computation, walk);
    return peak;
  }

  void CountOutputs(const Computation& computation, const Walk& walk) {
    std::vector<size_t> leaves = walk.leaves.at(computation.root()->id());
    std::sort(leaves.begin(), leaves.end());
    leaves.erase(std::unique(leaves.begin(), leaves.end()), leaves.end());
    output_bytes_ = 0;
    for (size_t leaf : leaves) {
      if (walk.storages[leaf].owner->opcode() != Opcode::kParameter)
        output_bytes_ += walk.storages[leaf].bytes;
    }
  }

  const Module& module_;
  Users users_;
  std::map<const Computation*, ComputationPeak> peaks_;
  int64_t output_bytes_ = 0;
};

}  // namespace

MemoryReport PeakMemory(const Module& module) { return MemorySimulation(module).Run(); }

}  // namespace gshard
