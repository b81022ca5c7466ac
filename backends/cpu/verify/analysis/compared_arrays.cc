// One walk over the graph for the arrays, one over the mesh's program for their order.
#include "backends/cpu/verify/analysis/compared_arrays.h"

#include <string_view>
#include <unordered_map>

#include "backends/cpu/plan/lowering.h"
#include "backends/cpu/verify/analysis/graph_walk.h"
#include "backends/cpu/verify/analysis/taint.h"
#include "core/analysis/trip_count.h"
#include "ir/computation.h"
#include "ir/op_traits.h"

namespace gshard::cpu {
namespace {

// The same on every device whatever the sharding.
bool IsPlain(const Instruction& x) {
  return x.opcode() == Opcode::kConstant ||
         (x.opcode() == Opcode::kBroadcast && x.operand(0)->shape()->IsScalar());
}

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

class Collector {
 public:
  Collector(const Module& whole, const DeviceGrid& whole_grid,
            std::span<const LocalForm> whole_forms, std::span<const LocalForm> forms)
      : whole_(whole), whole_grid_(whole_grid), random_(whole, IsRandomSource) {
    for (const LocalForm& form : forms) forms_.emplace(form.name, &form);
    for (const Computation* computation : whole.computations()) {
      for (const Instruction* x : computation->instructions()) {
        for (const Computation* called : x->called()) ++calls_[called];
      }
    }
    for (const LocalForm& form : whole_forms) {
      if (form.sharding->IsReplicated()) whole_names_.emplace(form.local, form.name);
    }
  }

  ComparedArrays Run() {
    Collect(*whole_.entry(), 0);
    return std::move(arrays_);
  }

 private:
  // `trips`: iterations of the loop around, 0: none or not known.
  void Collect(const Computation& computation, int64_t trips) {
    for (const Instruction* x : computation.instructions()) {
      for (const Computation* called : x->called()) {
        if (calls_[called] != 1 || !IsControlFlow(x->opcode())) continue;
        Collect(*called, x->opcode() == Opcode::kWhile ? TripCount(*x).value_or(0) : trips);
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
        ++arrays_.left_out;
        continue;
      }
      Candidate candidate;
      candidate.x = x;
      candidate.form = form->second;
      if (trips > 1 && (IsUpdate(x->opcode()) || RenamesPassedIn(*x)))
        candidate.stride_in_iterations = trips;
      arrays_.candidates.push_back(std::move(candidate));
    }
  }

  // By which the partitioned module's form is found; empty: x is not the whole array.
  std::string_view NameOf(const Instruction& x) const {
    if (whole_grid_.device_count() == 1) return x.name();
    const auto name = whole_names_.find(&x);
    return name == whole_names_.end() ? std::string_view() : name->second;
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

  const Module& whole_;
  const DeviceGrid& whole_grid_;
  const Taint random_;
  std::unordered_map<std::string_view, const LocalForm*> forms_;
  std::unordered_map<const Instruction*, std::string_view> whole_names_;
  std::unordered_map<const Computation*, int64_t> calls_;
  ComparedArrays arrays_;
};

}  // namespace

bool KeepsElements(Opcode opcode) {
  return KeepsOrder(opcode) || opcode == Opcode::kGetTupleElement;
}

const Instruction* HeldForm(const Instruction* x, std::span<const uint8_t> listed) {
  while (listed[x->id()] == 0) {
    if (!KeepsElements(x->opcode()) && x->opcode() != Opcode::kBroadcast) return nullptr;
    x = x->operand(0);
    if (!x->shape()->IsArray()) return nullptr;
  }
  return x;
}

ComparedArrays CollectArrays(const Module& whole, const DeviceGrid& whole_grid,
                             std::span<const LocalForm> whole_forms,
                             std::span<const LocalForm> forms) {
  return Collector(whole, whole_grid, whole_forms, forms).Run();
}

std::vector<ProbePoint> WholeProbes(std::span<const Candidate> candidates) {
  std::vector<ProbePoint> probes;
  for (const Candidate& candidate : candidates) probes.push_back({candidate.x, candidate.x});
  return probes;
}

std::vector<ProbePoint> LocalProbes(std::span<const Candidate> candidates,
                                    const Module& partitioned) {
  std::unordered_map<const Computation*, std::vector<size_t>> by_computation;
  for (size_t i = 0; i < candidates.size(); ++i) {
    by_computation[candidates[i].x->parent()].push_back(i);
  }
  // Parameters have their values before anything else runs, wherever they stand in the text.
  std::vector<uint32_t> position(partitioned.instruction_limit(), 0);
  for (const Computation* computation : partitioned.computations()) {
    uint32_t next = 0;
    for (const Instruction* x : computation->parameters()) position[x->id()] = next++;
    for (const Instruction* x : computation->instructions()) {
      if (x->opcode() != Opcode::kParameter) position[x->id()] = next++;
    }
  }
  std::vector<ProbePoint> probes;
  for (const Candidate& candidate : candidates) {
    probes.push_back({candidate.form->local, candidate.form->local});
  }
  for (const auto& [computation, members] : by_computation) {
    std::vector<uint32_t> positions;
    for (size_t i : members) positions.push_back(position[probes[i].shown->id()]);
    const std::vector<uint8_t> in_order = LongestRise(positions);
    const ProbePoint* before = nullptr;
    for (size_t k = 0; k < members.size(); ++k) {
      ProbePoint& probe = probes[members[k]];
      if (in_order[k] != 0) {
        before = &probe;
      } else if (before != nullptr && before->shown->parent() == probe.shown->parent() &&
                 positions[k] < position[before->shown->id()]) {
        probe.after = before->shown;
      }
    }
  }
  return probes;
}

}  // namespace gshard::cpu
