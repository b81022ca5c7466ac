// Live ranges of a module. See module_memory.h.

#include "core/cost/memory/module_memory.h"

#include <algorithm>

#include "core/cost/memory/donated_results.h"
#include "core/cost/memory/fast_values.h"
#include "core/cost/memory/memory_schedule.h"
#include "ir/compiled_text.h"
#include "ir/dims.h"

namespace gshard {
namespace {

CalleeFacts FactsOf(const ComputationMemory& analyzed) {
  const BufferGraph& graph = analyzed.graph;
  std::vector<int32_t> leaf_of(graph.buffers.size(), -1);
  for (size_t i = 0; i < graph.parameter_leaves.size(); ++i)
    leaf_of[graph.parameter_leaves[i]] = static_cast<int32_t>(i);
  CalleeFacts facts;
  for (uint32_t buffer : graph.root_leaves) {
    facts.unchanged.push_back(leaf_of[buffer]);
    const LiveRange& range = analyzed.liveness.ranges[analyzed.liveness.range_of[buffer]];
    facts.in_place.push_back(leaf_of[range.buffer]);
  }
  return facts;
}

// Is it text of a compiler for TPUs from before it chose what lies in fast memory? Its arrays have
// tiles, and none says that it is there; what is behind that choice has its compiler's cycles, even
// where nothing fits.
bool IsBeforeFastMemory(const Module& module) {
  bool has_tiles = false;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (EstimatedCycles(*x)) return false;
      for (const Shape* leaf : LeafShapes(x->shape())) {
        if (IsInFastMemory(leaf)) return false;
        has_tiles = has_tiles || HasTiles(leaf);
      }
    }
  }
  return has_tiles;
}

}  // namespace

ModuleMemory::ModuleMemory(const Module& module, const MemoryOptions& options,
                           ModuleKernels* kernels)
    : module_(module), options_(options), kernels_(kernels) {
  if (kernels_ == nullptr) {
    const ModuleKernels::AttentionOptions attention{.is_one_kernel = options_.fuse_attention};
    kernels_ = &own_kernels_.emplace(module_, options_.fusion, attention);
  }
  FindCallKinds();
  for (const Computation* computation : CallPostOrder(module_)) {
    if (computation == module_.entry() || kinds_.contains(computation)) Analyze(*computation);
  }
  if (options_.fast_memory_bytes > 0 && (!IsCompiled(module_) || IsBeforeFastMemory(module_)))
    UseFastMemory();
  if (options_.fusion.for_tpu && !options_.counts_host) Place();
}

const ComputationMemory& ModuleMemory::DeepestCallee(const Instruction* x) const {
  return Of(*std::max_element(
      x->called().begin(), x->called().end(),
      [&](const Computation* a, const Computation* b) { return Of(a).extra() < Of(b).extra(); }));
}

int64_t ModuleMemory::PeakWithout(const std::vector<std::string>& names) const {
  std::unordered_map<const Computation*, int64_t> changed;  // beyond parameters
  for (const Computation* computation : CallPostOrder(module_)) {
    auto known = computations_.find(computation);
    if (known == computations_.end()) continue;
    if (std::find(names.begin(), names.end(), computation->name()) != names.end()) {
      changed[computation] = 0;
      continue;
    }
    const ComputationMemory& memory = known->second;
    CallContext context = memory.context;
    bool any = false;
    for (size_t i = 0; i < memory.graph.nodes.size(); ++i) {
      const Instruction* x = memory.graph.nodes[i];
      if (!CallsWithOwnMemory(x->opcode())) continue;
      int64_t extra = 0;
      for (const Computation* callee : x->called()) {
        auto it = changed.find(callee);
        any = any || it != changed.end();
        extra = std::max(extra, it != changed.end() ? it->second : Of(callee).extra());
      }
      context.callees_extra[i] = extra;
    }
    if (!any) continue;
    const Liveness liveness = ComputeLiveness(memory.graph, memory.order, context);
    changed[computation] = liveness.peak_bytes - memory.parameter_bytes;
  }
  auto entry_extra = changed.find(module_.entry());
  if (entry_extra == changed.end()) return PeakBytes();
  return entry_extra->second + entry().parameter_bytes + fragmentation_bytes_;
}

void ModuleMemory::FindCallKinds() {
  for (const Computation* computation : module_.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (!CallsWithOwnMemory(x->opcode())) continue;
      for (size_t i = 0; i < x->called().size(); ++i) {
        CallKind kind = CallKind::kOther;
        if (x->opcode() == Opcode::kWhile)
          kind = i == 1 ? CallKind::kLoopBody : CallKind::kLoopCondition;
        ++calls_[x->called()[i]];
        auto [it, is_new] = kinds_.try_emplace(x->called()[i], kind);
        if (it->second != kind) it->second = CallKind::kOther;
      }
    }
  }
}

void ModuleMemory::Analyze(const Computation& computation) {
  ComputationMemory& result = computations_[&computation];
  const auto never_runs_it = [&](const std::vector<std::string>& names) {
    return std::ranges::find(names, computation.name()) != names.end();
  };
  result.is_idle =
      !options_.never_run.empty() && std::ranges::all_of(options_.never_run, never_runs_it);
  BufferGraphOptions graph_options{
      module_.header().is_scheduled,
      options_.tiling,
      options_.by_sharding,
      options_.counts_host,
      options_.fusion,
      options_.fast_memory_bytes > 0 && !module_.header().is_scheduled};
  result.graph = MakeBufferGraph(computation, *kernels_, graph_options, facts_);
  result.context = ContextOf(result.graph);
  for (uint32_t buffer : result.graph.parameter_leaves)
    result.parameter_bytes += result.graph.buffers[buffer].bytes;
  FindOrder(result);
  if (!result.graph.branch_homes.empty()) PlaceBranchResults(result);
  facts_[&computation] = FactsOf(result);
}

void ModuleMemory::FindOrder(ComputationMemory& memory) {
  if (module_.header().is_scheduled) {
    memory.order = TextOrder(memory.graph);
    memory.liveness = ComputeLiveness(memory.graph, memory.order, memory.context);
  } else {
    const bool hides_latency = options_.fusion.for_gpu && !options_.counts_host &&
                               std::ranges::any_of(memory.graph.nodes, [](const Instruction* x) {
                                 return IsCollective(x->opcode());
                               });
    MemorySchedule schedule = options_.fusion.for_tpu ? ScheduleForTpu(memory.graph, memory.context)
                              : hides_latency         ? ScheduleForGpu(memory.graph, memory.context)
                                              : MinimizeMemory(memory.graph, memory.context);
    memory.order = std::move(schedule.order);
    memory.liveness = std::move(schedule.liveness);
  }
}

// The computations that are planned by themselves, callees first: the entry, and those that several
// places call. All others are planned with their caller.
std::vector<const Computation*> ModuleMemory::PlannedApart() const {
  std::vector<const Computation*> apart;
  for (const Computation* computation : CallPostOrder(module_)) {
    const bool is_entry = computation == module_.entry();
    if (computations_.contains(computation) && (is_entry || calls_.at(computation) != 1))
      apart.push_back(computation);
  }
  return apart;
}

void ModuleMemory::UseFastMemory() {
  std::unordered_map<const Computation*, int64_t> end_addresses;
  const FastMemoryInput input{computations_, calls_, end_addresses, options_.fast_memory_bytes};
  std::unordered_map<const Computation*, std::vector<uint32_t>> until;
  for (const Computation* computation : PlannedApart()) {
    FastMemoryPlan plan = PlanFastMemory(*computation, input);
    computations_.at(computation).fast_bytes = plan.peak_bytes;
    end_addresses[computation] = plan.end_address;
    until.merge(plan.until);
  }
  for (const Computation* computation : CallPostOrder(module_)) {
    auto held = until.find(computation);
    if (held != until.end()) TakeOut(computations_.at(computation), std::move(held->second));
  }
}

// What lies in fast memory takes nothing of the other. Callees come before callers.
void ModuleMemory::TakeOut(ComputationMemory& memory, std::vector<uint32_t> in_fast_memory) {
  for (uint32_t buffer : memory.graph.parameter_leaves) {
    if (in_fast_memory[buffer] == kAlwaysFast)
      memory.parameter_bytes -= memory.graph.buffers[buffer].bytes;
  }
  memory.context.in_fast_memory = std::move(in_fast_memory);
  memory.context.callees_extra = CalleesExtra(memory.graph);
  memory.liveness = ComputeLiveness(memory.graph, memory.order, memory.context);
}

int64_t ModuleMemory::OutputBytes() const {
  int64_t bytes = 0;
  for (size_t i = 0; i < entry().graph.root_leaves.size(); ++i) {
    if (entry().context.root_place[i] < 0)
      bytes += entry().graph.buffers[entry().graph.root_leaves[i]].bytes;
  }
  return bytes;
}

void ModuleMemory::Place() {
  std::unordered_map<const Computation*, HeapPlacement> shared;
  const HeapPlacementInput input{computations_, calls_, shared};
  for (const Computation* computation : PlannedApart()) {
    placement_ = PlaceInOrder(*computation, input);
    shared[computation] = placement_;
  }
  const int64_t placed = placement_.apart_bytes + placement_.bytes;
  fragmentation_bytes_ = std::max<int64_t>(0, placed - entry().liveness.peak_bytes);
}

namespace {

// Does the result have the memory of the operand that is its home?
bool IsAtHome(const ComputationMemory& memory, const BranchHome& home) {
  for (uint32_t buffer : memory.graph.allocates[home.node]) {
    if (memory.graph.buffers[buffer].leaf == home.leaf)
      return memory.liveness.range_of[buffer] == memory.liveness.range_of[home.operand];
  }
  return false;
}

}  // namespace

// Results that took over the memory of what other branches give back: the branches that compute
// them need none for them. Where the new order no longer lets a result take over that memory, its
// branches are given their own again.
void ModuleMemory::PlaceBranchResults(ComputationMemory& memory) {
  const std::vector<BranchHome>& homes = memory.graph.branch_homes;
  std::vector<bool> placed(homes.size(), true);
  auto not_at_home = [&](size_t i) { return placed[i] && !IsAtHome(memory, homes[i]); };
  for (bool changed = true; changed;) {
    for (size_t i = 0; i < homes.size(); ++i) placed[i] = placed[i] && IsAtHome(memory, homes[i]);
    for (auto& [branch, home] : HomesOfBranches(memory.graph, placed)) {
      ComputationMemory& of_branch = computations_.at(branch);
      if (of_branch.context.home == home) continue;
      of_branch.context.home = std::move(home);
      FindOrder(of_branch);
      if (!of_branch.graph.branch_homes.empty()) PlaceBranchResults(of_branch);
    }
    memory.context.callees_extra = CalleesExtra(memory.graph);
    FindOrder(memory);
    changed = false;
    for (size_t i = 0; i < homes.size(); ++i) changed = changed || not_at_home(i);
  }
}

// CallContext::home of each branch. A computation that is called from several places has only homes
// that it has in all of them; the others are no longer `placed`.
std::map<const Computation*, std::vector<int32_t>> ModuleMemory::HomesOfBranches(
    const BufferGraph& graph, std::vector<bool>& placed) const {
  struct Place {
    int32_t home = kNoHome;
    int64_t calls = 0;  // that agree
  };
  std::map<std::pair<const Computation*, uint32_t>, Place> places;
  auto for_each_branch = [&](auto&& visit) {
    for (size_t i = 0; i < placed.size(); ++i) {
      const BranchHome& home = graph.branch_homes[i];
      std::span<Computation* const> branches = graph.nodes[home.node]->called();
      for (size_t k = 0; k < branches.size(); ++k)
        visit(i, places[{branches[k], home.leaf}], branches[k], home.parameter_leaves[k]);
    }
  };
  for_each_branch([&](size_t i, Place& place, const Computation*, int32_t home) {
    if (!placed[i] || (place.calls > 0 && place.home != home)) return;
    place.home = home;
    ++place.calls;
  });
  for (bool dropped = true; dropped;) {
    dropped = false;
    for_each_branch([&](size_t i, Place& place, const Computation* branch, int32_t) {
      if (!placed[i] || place.calls == calls_.at(branch)) return;
      placed[i] = false;
      dropped = true;
    });
    for_each_branch([&](size_t i, Place& place, const Computation*, int32_t) {
      if (!placed[i]) place.calls = -1;
    });
  }
  std::map<const Computation*, std::vector<int32_t>> result;
  for_each_branch([&](size_t i, Place& place, const Computation* branch, int32_t) {
    std::vector<int32_t>& home = result[branch];
    home.resize(Of(branch).graph.root_leaves.size(), kNoHome);
    if (placed[i]) home[graph.branch_homes[i].leaf] = place.home;
  });
  return result;
}

std::vector<int64_t> ModuleMemory::CalleesExtra(const BufferGraph& graph) const {
  std::vector<int64_t> result;
  for (const Instruction* x : graph.nodes) {
    int64_t extra = 0;
    if (CallsWithOwnMemory(x->opcode())) {
      for (const Computation* callee : x->called()) extra = std::max(extra, Of(callee).extra());
    }
    result.push_back(extra);
  }
  return result;
}

CallContext ModuleMemory::ContextOf(const BufferGraph& graph) const {
  CallContext context;
  context.copies_are_explicit = module_.header().is_scheduled;
  size_t leaves = graph.parameter_leaves.size();
  if (graph.computation == module_.entry()) {
    context.returns_to_runtime = true;
    context.donations_wait = options_.fusion.for_tpu;
    PlaceEntryResults(graph, context);
  } else {
    CallKind kind = kinds_.at(graph.computation);
    bool is_body = kind == CallKind::kLoopBody && graph.root_leaves.size() == leaves;
    context.parameters.assign(leaves,
                              kind == CallKind::kOther ? Ownership::kBorrowed : Ownership::kPinned);
    for (size_t i = 0; is_body && i < leaves; ++i) {
      bool invariant = graph.root_leaves[i] == graph.parameter_leaves[i];
      if (!invariant) context.parameters[i] = Ownership::kOwned;
      context.root_place.push_back(static_cast<int32_t>(i));
    }
  }
  context.callees_extra = CalleesExtra(graph);
  return context;
}

void ModuleMemory::PlaceEntryResults(const BufferGraph& graph, CallContext& context) const {
  const auto bytes_of = [&](const std::vector<uint32_t>& leaves) {
    std::vector<int64_t> bytes;
    bytes.reserve(leaves.size());
    for (const uint32_t buffer : leaves) bytes.push_back(graph.buffers[buffer].bytes);
    return bytes;
  };
  context.parameters.assign(graph.parameter_leaves.size(), Ownership::kPinned);
  context.root_place =
      ArgumentsOfResults(module_, bytes_of(graph.root_leaves), bytes_of(graph.parameter_leaves));
  for (const int32_t argument : context.root_place) {
    if (argument >= 0) context.parameters[static_cast<size_t>(argument)] = Ownership::kOwned;
  }
}

}  // namespace gshard
