// The memory report of a module: every computation's order and live ranges, callees first, then
// what is alive at the peak, callers first. See peak_memory.h.

#include "core/cost/memory/peak_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/cost/memory/memory_schedule.h"
#include "core/transforms/collective_combiner.h"
#include "core/transforms/inline_calls.h"
#include "ir/traversal.h"

namespace gshard {
namespace {

using ClassBytes = std::array<int64_t, kBufferClasses>;

// Curves of bodies are written out up to here; beyond it a caller's point has their peak.
constexpr size_t kMaxPoints = 200000;

bool CallsWithOwnMemory(Opcode opcode) {
  return opcode == Opcode::kWhile || opcode == Opcode::kConditional || opcode == Opcode::kCall ||
         opcode == Opcode::kAsyncStart;
}

struct AnalyzedComputation {
  BufferGraph graph;
  CallContext context;
  Order order;
  Liveness liveness;
  int64_t parameter_bytes = 0;
  int64_t extra() const { return liveness.peak_bytes - parameter_bytes; }
};

class ModuleMemory {
 public:
  ModuleMemory(const Module& module, const MemoryOptions& options)
      : module_(module), options_(options), users_(module) {}

  MemoryReport Run() {
    FindCallKinds();
    for (const Computation* computation : CallPostOrder(module_)) {
      if (computation == module_.entry() || kinds_.contains(computation)) Analyze(*computation);
    }
    MemoryReport report;
    const AnalyzedComputation& entry = analyzed_.at(module_.entry());
    report.peak_bytes = entry.liveness.peak_bytes;
    report.argument_bytes = entry.parameter_bytes;
    report.output_bytes = OutputBytes(entry);
    report.temp_bytes =
        std::max<int64_t>(0, report.peak_bytes - report.argument_bytes - report.output_bytes);
    std::vector<BufferClass> classes(entry.graph.parameter_leaves.size(), BufferClass::kArgument);
    Snapshot peak = SnapshotOf(entry, classes, /*with_parameters=*/true);
    report.at_peak = std::move(peak.rows);
    std::stable_sort(report.at_peak.begin(), report.at_peak.end(),
                     [](const LiveBuffer& a, const LiveBuffer& b) { return a.bytes > b.bytes; });
    report.peak = peak.at;
    AddCurve(entry, classes, ClassBytes{}, report.curve);
    return report;
  }

 private:
  enum class CallKind : uint8_t { kLoopBody, kLoopCondition, kOther };

  void FindCallKinds() {
    for (const Computation* computation : module_.computations()) {
      for (const Instruction* x : computation->instructions()) {
        if (!CallsWithOwnMemory(x->opcode())) continue;
        for (size_t i = 0; i < x->called().size(); ++i) {
          CallKind kind = CallKind::kOther;
          if (x->opcode() == Opcode::kWhile)
            kind = i == 1 ? CallKind::kLoopBody : CallKind::kLoopCondition;
          auto [it, is_new] = kinds_.try_emplace(x->called()[i], kind);
          if (it->second != kind) it->second = CallKind::kOther;
        }
      }
    }
  }

  // --- callees first

  void Analyze(const Computation& computation) {
    AnalyzedComputation& result = analyzed_[&computation];
    bool is_scheduled = module_.header().is_scheduled;
    result.graph = MakeBufferGraph(computation, users_, is_scheduled, options_.tiling, facts_);
    result.context = ContextOf(result.graph);
    const BufferGraph& graph = result.graph;
    for (uint32_t buffer : graph.parameter_leaves)
      result.parameter_bytes += graph.buffers[buffer].bytes;
    result.order = is_scheduled ? TextOrder(graph) : MinimizeMemory(graph, result.context);
    result.liveness = ComputeLiveness(graph, result.order, result.context);
    facts_[&computation] = FactsOf(result);
  }

  static CalleeFacts FactsOf(const AnalyzedComputation& analyzed) {
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

  CallContext ContextOf(const BufferGraph& graph) {
    CallContext context;
    context.copies_are_explicit = module_.header().is_scheduled;
    size_t leaves = graph.parameter_leaves.size();
    if (graph.computation == module_.entry()) {
      context.returns_to_runtime = true;
      PlaceEntryResults(graph, context);
    } else {
      CallKind kind = kinds_.at(graph.computation);
      bool is_body = kind == CallKind::kLoopBody && graph.root_leaves.size() == leaves;
      context.parameters.assign(
          leaves, kind == CallKind::kOther ? Ownership::kBorrowed : Ownership::kPinned);
      for (size_t i = 0; is_body && i < leaves; ++i) {
        bool invariant = graph.root_leaves[i] == graph.parameter_leaves[i];
        if (!invariant) context.parameters[i] = Ownership::kOwned;
        context.root_place.push_back(static_cast<int32_t>(i));
      }
    }
    for (const Instruction* x : graph.nodes) {
      int64_t extra = 0;
      if (CallsWithOwnMemory(x->opcode())) {
        for (const Computation* callee : x->called())
          extra = std::max(extra, analyzed_.at(callee).extra());
      }
      context.callees_extra.push_back(extra);
    }
    return context;
  }

  // Which results share the memory of which arguments: what the header says, and donated arguments
  // without such a result take the first of their size that has no place yet.
  void PlaceEntryResults(const BufferGraph& graph, CallContext& context) {
    const Computation& entry = *module_.entry();
    context.parameters.assign(graph.parameter_leaves.size(), Ownership::kPinned);
    context.root_place.assign(graph.root_leaves.size(), -1);
    auto place = [&](size_t root, size_t parameter) {
      context.root_place[root] = static_cast<int32_t>(parameter);
      context.parameters[parameter] = Ownership::kOwned;
    };
    const ModuleHeader& header = module_.header();
    for (const ModuleHeader::Alias& alias : header.input_output_alias) {
      size_t root = LeafAt(entry.root()->shape(), alias.output_index);
      size_t parameter = ParameterLeaf(entry, alias.parameter, alias.parameter_index);
      if (root < graph.root_leaves.size() && parameter < graph.parameter_leaves.size())
        place(root, parameter);
    }
    for (const ModuleHeader::Donor& donor : header.buffer_donor) {
      size_t parameter = ParameterLeaf(entry, donor.parameter, donor.index);
      if (parameter >= graph.parameter_leaves.size() ||
          context.parameters[parameter] == Ownership::kOwned) {
        continue;
      }
      int64_t bytes = graph.buffers[graph.parameter_leaves[parameter]].bytes;
      for (size_t root = 0; root < graph.root_leaves.size(); ++root) {
        if (context.root_place[root] >= 0 ||
            graph.buffers[graph.root_leaves[root]].bytes != bytes) {
          continue;
        }
        place(root, parameter);
        break;
      }
    }
  }

  // The leaf that an index into a tuple names, tuples flattened; SIZE_MAX: there is none.
  static size_t LeafAt(const Shape* shape, std::span<const int64_t> index) {
    size_t leaf = 0;
    for (int64_t i : index) {
      if (!shape->IsTuple() || i < 0 || i >= static_cast<int64_t>(shape->elements().size()))
        return SIZE_MAX;
      for (int64_t k = 0; k < i; ++k) leaf += static_cast<size_t>(shape->element(k)->leaf_count());
      shape = shape->element(i);
    }
    return shape->IsTuple() ? SIZE_MAX : leaf;
  }

  static size_t ParameterLeaf(const Computation& entry, int64_t number,
                              std::span<const int64_t> index) {
    if (number < 0 || number >= entry.parameter_count()) return SIZE_MAX;
    size_t leaf = LeafAt(entry.parameter(number)->shape(), index);
    if (leaf == SIZE_MAX) return SIZE_MAX;
    for (int64_t k = 0; k < number; ++k)
      leaf += static_cast<size_t>(entry.parameter(k)->shape()->leaf_count());
    return leaf;
  }

  static int64_t OutputBytes(const AnalyzedComputation& entry) {
    int64_t bytes = 0;
    for (size_t i = 0; i < entry.graph.root_leaves.size(); ++i) {
      if (entry.context.root_place[i] < 0)
        bytes += entry.graph.buffers[entry.graph.root_leaves[i]].bytes;
    }
    return bytes;
  }

  // --- callers first

  // The classes of a computation's ranges, parameters' given.
  std::vector<BufferClass> ClassesOf(const AnalyzedComputation& analyzed,
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

  // The callee whose peak counts while `x` runs, if any does.
  const AnalyzedComputation* DeepestCallee(const Instruction* x) {
    const AnalyzedComputation* deepest = nullptr;
    for (const Computation* callee : x->called()) {
      const AnalyzedComputation& analyzed = analyzed_.at(callee);
      if (deepest == nullptr || analyzed.extra() > deepest->extra()) deepest = &analyzed;
    }
    return deepest;
  }

  // Leaves of a loop's body that it owns, and the ranges of the caller that they are.
  static std::vector<std::pair<size_t, uint32_t>> CarriedRanges(const AnalyzedComputation& caller,
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
    std::vector<const Shape*> shapes;
    AppendLeafShapes(buffer.owner->shape(), shapes);
    return {buffer.owner, buffer.leaf, shapes[buffer.leaf], range.bytes, kind};
  }

  Snapshot SnapshotOf(const AnalyzedComputation& analyzed,
                      const std::vector<BufferClass>& parameters, bool with_parameters) {
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
  void AddCallee(const AnalyzedComputation& caller, uint32_t node, std::vector<bool>& dropped,
                 Snapshot& snapshot) {
    const Instruction* x = caller.graph.nodes[node];
    const AnalyzedComputation& callee = *DeepestCallee(x);
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
  void AddCurve(const AnalyzedComputation& analyzed, const std::vector<BufferClass>& parameters,
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

  void AddCalleeCurve(const AnalyzedComputation& caller, uint32_t step,
                      const std::vector<BufferClass>& classes, ClassBytes bytes,
                      std::vector<MemoryPoint>& curve) {
    uint32_t node = caller.order[step];
    const Instruction* x = caller.graph.nodes[node];
    const AnalyzedComputation& callee = *DeepestCallee(x);
    std::vector<BufferClass> inner(callee.graph.parameter_leaves.size(), BufferClass::kArgument);
    for (auto [leaf, range] : CarriedRanges(caller, node)) {
      if (x->opcode() == Opcode::kWhile) {
        inner[leaf] = classes[range];
      } else if (caller.liveness.ranges[range].first == step) {
        bytes[static_cast<size_t>(classes[range])] -= caller.liveness.ranges[range].bytes;
      }
    }
    for (size_t i = 0; i < inner.size(); ++i) {
      int64_t size = callee.graph.buffers[callee.graph.parameter_leaves[i]].bytes;
      bytes[static_cast<size_t>(inner[i])] -= size;
    }
    AddCurve(callee, inner, bytes, curve);
  }

  const Module& module_;
  const MemoryOptions& options_;
  Users users_;
  std::unordered_map<const Computation*, CallKind> kinds_;
  std::unordered_map<const Computation*, AnalyzedComputation> analyzed_;
  FactsOfCallees facts_;
};

// Instructions that the module has when each call and loop has computations of its own, capped.
int64_t InlinedSize(const Module& module) {
  constexpr int64_t kCap = int64_t{1} << 40;
  std::unordered_map<const Computation*, int64_t> sizes;
  for (const Computation* computation : CallPostOrder(module)) {
    int64_t size = static_cast<int64_t>(computation->instructions().size());
    for (const Instruction* x : computation->instructions())
      for (const Computation* callee : x->called()) size = std::min(kCap, size + sizes[callee]);
    sizes[computation] = size;
  }
  return sizes[module.entry()];
}

// What of it a compiler would change before it schedules; null: the module as it is.
std::shared_ptr<const Module> AsCompiled(const Module& module, const MemoryOptions& options) {
  if (module.header().is_scheduled) return nullptr;
  int64_t calls = 0, all_reduces = 0;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      calls += x->opcode() == Opcode::kCall;
      all_reduces += x->opcode() == Opcode::kAllReduce;
    }
  }
  if (calls == 0 && all_reduces < 2) return nullptr;
  std::shared_ptr<Module> copy = module.Clone();
  constexpr int64_t kMaxInstructions = 1000000;
  if (calls > 0 && InlinedSize(module) <= kMaxInstructions && InlineCalls(*copy))
    RemoveDeadCode(*copy);
  if (all_reduces > 1) {
    CombineOptions combine{options.combine_bytes, std::numeric_limits<int64_t>::max()};
    CombineCollectives(*copy, Opcode::kAllReduce, combine);
  }
  return copy;
}

}  // namespace

std::string_view BufferClassName(BufferClass kind) {
  constexpr std::string_view kNames[kBufferClasses] = {"argument", "output", "loop carry",
                                                       "collective", "temporary"};
  return kNames[static_cast<size_t>(kind)];
}

MemoryReport PeakMemory(const Module& module, const MemoryOptions& options) {
  std::shared_ptr<const Module> compiled = AsCompiled(module, options);
  MemoryReport report = ModuleMemory(compiled ? *compiled : module, options).Run();
  report.compiled = std::move(compiled);
  return report;
}

Expected<void> CheckBoundedSizes(const Module& module) {
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      std::vector<const Shape*> leaves;
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
