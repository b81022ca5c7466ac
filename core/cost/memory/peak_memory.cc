// The memory report of a module: every computation's order and live ranges, callees first, then
// what is alive at the peak, callers first. See peak_memory.h.

#include "core/cost/memory/peak_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/cost/memory/module_memory.h"
#include "core/transforms/collectives/collective_combiner.h"
#include "core/transforms/inline_calls.h"
#include "ir/dims.h"
#include "ir/traversal.h"

namespace gshard {
namespace {

using ClassBytes = std::array<int64_t, kBufferClasses>;

// Curves of bodies are written out up to here; beyond it a caller's point has their peak.
constexpr size_t kMaxPoints = 200000;

// Views of a module's live ranges: what is alive at the peak, callers before callees, and memory
// over time.
class MemoryReporter {
 public:
  explicit MemoryReporter(const ModuleMemory& memory) : memory_(memory) {}

  MemoryReport Run() {
    MemoryReport report;
    const ComputationMemory& entry = memory_.entry();
    report.peak_bytes = memory_.PeakBytes();
    report.fragmentation_bytes = memory_.fragmentation_bytes();
    report.argument_bytes = entry.parameter_bytes;
    report.fast_peak_bytes = entry.fast_bytes;
    report.output_bytes = memory_.OutputBytes();
    report.temp_bytes =
        std::max<int64_t>(0, report.peak_bytes - report.argument_bytes - report.output_bytes);
    std::vector<BufferClass> classes(entry.graph.parameter_leaves.size(), BufferClass::kArgument);
    Snapshot peak = SnapshotOf(entry, classes, /*with_parameters=*/true);
    report.at_peak = std::move(peak.rows);
    std::stable_sort(report.at_peak.begin(), report.at_peak.end(),
                     [](const LiveBuffer& a, const LiveBuffer& b) { return a.bytes > b.bytes; });
    if (report.fragmentation_bytes > 0) report.at_peak.push_back(FragmentationRow());
    report.peak = peak.at;
    AddCurve(entry, classes, ClassBytes{}, report.curve);
    return report;
  }

 private:
  LiveBuffer FragmentationRow() {
    const auto& [bytes, x, leaf, apart_bytes] = memory_.placement();
    const int64_t lost = memory_.fragmentation_bytes();
    return {x, leaf, LeafShapes(x->shape())[leaf], lost, BufferClass::kFragmentation};
  }

  // The classes of a computation's ranges, parameters' given.
  std::vector<BufferClass> ClassesOf(const ComputationMemory& analyzed,
                                     const std::vector<BufferClass>& parameters) {
    const BufferGraph& graph = analyzed.graph;
    const Liveness& liveness = analyzed.liveness;
    std::vector<BufferClass> classes(liveness.ranges.size(), BufferClass::kTemporary);
    for (size_t i = 0; i < classes.size(); ++i) {
      const Instruction* owner = graph.buffers[liveness.ranges[i].buffer].owner;
      if (IsCollective(owner->opcode())) classes[i] = BufferClass::kCollective;
    }
    for (size_t b = 0; b < graph.buffers.size(); ++b) {
      if (graph.buffers[b].owner->opcode() == Opcode::kWhile)
        classes[liveness.range_of[b]] = BufferClass::kLoopCarry;
    }
    if (analyzed.context.returns_to_runtime) {
      for (size_t i = 0; i < graph.root_leaves.size(); ++i) {
        if (analyzed.context.root_place[i] < 0)
          classes[liveness.range_of[graph.root_leaves[i]]] = BufferClass::kOutput;
      }
    }
    for (size_t i = 0; i < classes.size(); ++i) {
      if (!liveness.ranges[i].is_copy) continue;
      classes[i] =
          analyzed.context.returns_to_runtime ? BufferClass::kOutput : BufferClass::kLoopCarry;
    }
    for (size_t i = 0; i < graph.parameter_leaves.size(); ++i)
      classes[liveness.range_of[graph.parameter_leaves[i]]] = parameters[i];
    return classes;
  }

  // Leaves of a loop's body that it owns, and the ranges of the caller that they are.
  static std::vector<std::pair<size_t, uint32_t>> CarriedRanges(const ComputationMemory& caller,
                                                                uint32_t node) {
    std::vector<std::pair<size_t, uint32_t>> ranges;
    for (uint32_t buffer : caller.graph.allocates[node])
      ranges.emplace_back(caller.graph.buffers[buffer].leaf, caller.liveness.range_of[buffer]);
    return ranges;
  }

  // --- what is alive at the peak

  struct Snapshot {
    std::vector<LiveBuffer> rows;       // without the parameters of the computation
    std::vector<bool> dead_parameters;  // by leaf: their memory is free then
    const Instruction* at = nullptr;
  };

  LiveBuffer RowOf(const BufferGraph& graph, const LiveRange& range, BufferClass kind) {
    const Buffer& buffer = graph.buffers[range.buffer];
    const std::vector<const Shape*> shapes = LeafShapes(buffer.owner->shape());
    return {buffer.owner, buffer.leaf, shapes[buffer.leaf], range.bytes, kind};
  }

  Snapshot SnapshotOf(const ComputationMemory& analyzed, const std::vector<BufferClass>& parameters,
                      bool with_parameters) {
    const Liveness& liveness = analyzed.liveness;
    const BufferGraph& graph = analyzed.graph;
    uint32_t step = liveness.peak_step;
    Snapshot snapshot;
    std::vector<bool> dropped(liveness.ranges.size(), false);
    if (step < analyzed.order.size()) {
      uint32_t node = analyzed.order[step];
      snapshot.at = graph.nodes[node];
      if (liveness.inner[step] > 0) AddCallee(analyzed, node, dropped, snapshot);
    }
    std::vector<BufferClass> classes = ClassesOf(analyzed, parameters);
    snapshot.dead_parameters.assign(graph.parameter_leaves.size(), false);
    std::vector<bool> is_parameter(liveness.ranges.size(), false);
    for (size_t i = 0; i < graph.parameter_leaves.size(); ++i) {
      uint32_t range = liveness.range_of[graph.parameter_leaves[i]];
      is_parameter[range] = true;
      snapshot.dead_parameters[i] = dropped[range] || liveness.ranges[range].last < step;
    }
    for (uint32_t i = 0; i < liveness.ranges.size(); ++i) {
      const LiveRange& range = liveness.ranges[i];
      bool alive = range.first <= step && step <= range.last && range.bytes > 0 && !dropped[i];
      if (alive && (with_parameters || !is_parameter[i]))
        snapshot.rows.push_back(RowOf(graph, range, classes[i]));
    }
    return snapshot;
  }

  // What runs within a node at the peak: its buffers, instead of those it has not made yet.
  void AddCallee(const ComputationMemory& caller, uint32_t node, std::vector<bool>& dropped,
                 Snapshot& snapshot) {
    const Instruction* x = caller.graph.nodes[node];
    const ComputationMemory& callee = memory_.DeepestCallee(x);
    std::vector<BufferClass> classes(callee.graph.parameter_leaves.size(), BufferClass::kLoopCarry);
    Snapshot inner = SnapshotOf(callee, classes, /*with_parameters=*/false);
    if (inner.at != nullptr) snapshot.at = inner.at;
    snapshot.rows = std::move(inner.rows);
    for (auto [leaf, range] : CarriedRanges(caller, node)) {
      bool is_loop = x->opcode() == Opcode::kWhile;
      bool is_fresh = caller.liveness.ranges[range].first == caller.liveness.peak_step;
      if (is_loop ? inner.dead_parameters[leaf] : is_fresh) dropped[range] = true;
    }
  }

  // --- memory over time

  // `base`: what callers hold beside the computation's parameters.
  void AddCurve(const ComputationMemory& analyzed, const std::vector<BufferClass>& parameters,
                const ClassBytes& base, std::vector<MemoryPoint>& curve) {
    const Liveness& liveness = analyzed.liveness;
    std::vector<BufferClass> classes = ClassesOf(analyzed, parameters);
    std::vector<ClassBytes> change(analyzed.order.size() + 2, ClassBytes{});
    for (size_t i = 0; i < liveness.ranges.size(); ++i) {
      const LiveRange& range = liveness.ranges[i];
      change[range.first][static_cast<size_t>(classes[i])] += range.bytes;
      change[range.last + 1][static_cast<size_t>(classes[i])] -= range.bytes;
    }
    MemoryPoint point{nullptr, base};
    for (uint32_t step = 0; step <= analyzed.order.size(); ++step) {
      for (size_t k = 0; k < kBufferClasses; ++k) point.bytes[k] += change[step][k];
      bool is_end = step == analyzed.order.size();
      point.instruction = is_end ? nullptr : analyzed.graph.nodes[analyzed.order[step]];
      if (liveness.inner[step] > 0 && curve.size() < kMaxPoints) {
        AddCalleeCurve(analyzed, step, classes, point.bytes, curve);
      } else if (is_end || !analyzed.graph.allocates[analyzed.order[step]].empty()) {
        curve.push_back(point);
        curve.back().bytes[static_cast<size_t>(BufferClass::kTemporary)] += liveness.inner[step];
      }
    }
  }

  void AddCalleeCurve(const ComputationMemory& caller, uint32_t step,
                      const std::vector<BufferClass>& classes, ClassBytes bytes,
                      std::vector<MemoryPoint>& curve) {
    uint32_t node = caller.order[step];
    const Instruction* x = caller.graph.nodes[node];
    const ComputationMemory& callee = memory_.DeepestCallee(x);
    std::vector<BufferClass> inner(callee.graph.parameter_leaves.size(), BufferClass::kArgument);
    for (auto [leaf, range] : CarriedRanges(caller, node)) {
      if (x->opcode() == Opcode::kWhile) {
        inner[leaf] = classes[range];
      } else if (caller.liveness.ranges[range].first == step) {
        bytes[static_cast<size_t>(classes[range])] -= caller.liveness.ranges[range].bytes;
      }
    }
    for (size_t i = 0; i < inner.size(); ++i) {
      const uint32_t leaf = callee.graph.parameter_leaves[i];
      const int64_t size = callee.liveness.ranges[callee.liveness.range_of[leaf]].bytes;
      bytes[static_cast<size_t>(inner[i])] -= size;
    }
    AddCurve(callee, inner, bytes, curve);
  }

  const ModuleMemory& memory_;
};

// What a compiler changes before it schedules.
struct CompilerChanges {
  bool inlines_calls = false, combines_all_reduces = false;

  explicit CompilerChanges(const Module& module) {
    if (module.header().is_scheduled) return;
    int64_t calls = 0, all_reduces = 0;
    for (const Computation* computation : module.computations()) {
      for (const Instruction* x : computation->instructions()) {
        calls += x->opcode() == Opcode::kCall;
        all_reduces += x->opcode() == Opcode::kAllReduce;
      }
    }
    inlines_calls = calls > 0;
    combines_all_reduces = all_reduces > 1;
  }
  bool Any() const { return inlines_calls || combines_all_reduces; }

  void Inline(Module& module) const {
    if (inlines_calls && CheckInlinedSize(module) && InlineCalls(module)) RemoveDeadCode(module);
  }
  // `kernels`: of the module.
  void CombineAllReduces(Module& module, const MemoryOptions& options,
                         ModuleKernels& kernels) const {
    if (!combines_all_reduces) return;
    for (const Computation* computation : module.computations()) {
      const bool has_any = std::ranges::any_of(
          computation->instructions(),
          [](const Instruction* x) { return x->opcode() == Opcode::kAllReduce; });
      if (has_any) kernels.Of(*computation);
    }
    const CombineOptions combine{options.combine_bytes, std::numeric_limits<int64_t>::max()};
    if (CombineCollectives(module, Opcode::kAllReduce, combine)) kernels.Update();
  }
};

ModuleKernels::AttentionOptions AttentionOf(const MemoryOptions& options) {
  return {.is_one_kernel = options.fuse_attention};
}

}  // namespace

std::string_view BufferClassName(BufferClass kind) {
  constexpr std::string_view kNames[kBufferClasses + 1] = {
      "argument", "output", "loop carry", "collective", "temporary", "fragmentation"};
  return kNames[static_cast<size_t>(kind)];
}

MemoryReport PeakMemory(const Module& module, const MemoryOptions& options,
                        ModuleKernels* kernels) {
  std::shared_ptr<Module> compiled;  // null: the module as it is
  std::optional<ModuleKernels> of_compiled;
  if (const CompilerChanges changes(module); changes.Any()) {
    compiled = module.Clone();
    changes.Inline(*compiled);
    kernels = &of_compiled.emplace(*compiled, options.fusion, AttentionOf(options));
    changes.CombineAllReduces(*compiled, options, *kernels);
  }
  const ModuleMemory memory(compiled ? *compiled : module, options, kernels);
  MemoryReport report = MemoryReporter(memory).Run();
  for (const std::vector<std::string>& names : options.never_run) {
    report.group_peak_bytes.push_back(memory.PeakWithout(names));
  }
  if (memory.HasHost()) {
    MemoryOptions of_host = options;
    of_host.counts_host = true;
    of_host.fast_memory_bytes = 0;
    const ModuleMemory host(compiled ? *compiled : module, of_host, kernels);
    report.host_peak_bytes = host.entry().liveness.peak_bytes;
  }
  report.compiled = std::move(compiled);
  return report;
}

int64_t PeakBytes(Module& module, const MemoryOptions& options, ModuleKernels* kernels) {
  const CompilerChanges changes(module);
  changes.Inline(module);
  std::optional<ModuleKernels> of_compiled;
  if (kernels == nullptr || changes.inlines_calls)
    kernels = &of_compiled.emplace(module, options.fusion, AttentionOf(options));
  changes.CombineAllReduces(module, options, *kernels);
  return ModuleMemory(module, options, kernels).PeakBytes();
}

Expected<void> CheckBoundedSizes(const Module& module) {
  std::vector<const Shape*> leaves;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      leaves.clear();
      AppendLeafShapes(x->shape(), leaves);
      for (const Shape* leaf : leaves) {
        if (leaf->IsArray() && std::ranges::count(leaf->dims(), Shape::kUnbounded) > 0) {
          return Fail(
              module.ErrorAt(x, "E-COST-010",
                             fmt::format("{} has the unbounded type {}: its memory cannot be known",
                                         x->name(), ToString(leaf, false))));
        }
      }
    }
  }
  return {};
}

}  // namespace gshard
