#include "core/propagation/shardy/explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/propagation/shardy/projection.h"
#include "ir/dims.h"

namespace gshard::shardy {
namespace {

// How the tensor `of` of an operation would be cut as its tensor `as` is; nothing if no factor that
// both have is cut there.
std::optional<std::vector<Axes>> DimsAs(const Graph& graph, const Operation& op, size_t of,
                                        size_t as, const Projection& projection) {
  const Tensor& tensor = graph.tensors[At(op.views[of].tensor)];
  std::vector<std::optional<Axes>> theirs(tensor.dims.size());  // what the other tensor tells
  AxisList used;
  for (const IndexedRelation::Slot& slot : op.relation->SlotsOfTensor(of)) {
    if (op.relation->factors[At(slot.factor)].blocked) continue;
    for (const uint32_t other : op.relation->SlotsOf(At(slot.factor))) {
      if (At(op.relation->slots[other].tensor) != as) continue;
      // Of a dim of several factors the major one speaks.
      const bool is_major =
          &slot == &op.relation->SlotsOfTensor(of).front() || (&slot - 1)->dim != slot.dim;
      if (!is_major) continue;
      const Axes axes = projection.axes[other];
      theirs[At(slot.dim)] = axes;
      used.insert(used.end(), axes.list().begin(), axes.list().end());
    }
  }
  if (used.empty()) return std::nullopt;
  // The other dims stay as they are, unless their axes are used now.
  std::vector<Axes> dims;
  for (size_t d = 0; d < theirs.size(); ++d) {
    const std::span<const AxisRef> mine = VisibleAxes(tensor.dims[d], op.views[of]);
    const bool is_free = std::ranges::none_of(mine, [&](const AxisRef& axis) {
      return std::ranges::any_of(used, [&](const AxisRef& other) { return Overlap(axis, other); });
    });
    dims.push_back(theirs[d] ? *theirs[d] : is_free ? graph.axes->Make(mine) : Axes());
  }
  return dims;
}

bool Contains(std::span<const Axes> finer, std::span<const Axes> coarser) {
  return std::ranges::equal(finer, coarser,
                            [](Axes fine, Axes coarse) { return IsPrefix(coarse, fine); });
}

// All dims of a tensor as its sharding.
const Sharding* ShardingWith(const Graph& graph, const Module& module, Tensor tensor,
                             std::span<const Axes> dims, const Mesh* mesh) {
  std::vector<Dim> own(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) own[d].axes = dims[d];
  tensor.dims = own;
  tensor.mesh = graph.mesh;
  return ShardingOf(module.context(), {}, tensor, false, {}, mesh);
}

}  // namespace

void FindConflicts(const Graph& graph, const Module& module, const Mesh* mesh,
                   PropagationFindings& findings) {
  const std::vector<const Instruction*> makers = MakersOf(graph, module);
  std::vector<std::pair<int, PropagationFindings::Conflict>> found;  // by tensor
  Projection projection;
  for (const Operation& op : graph.operations) {
    const auto is_annotated = [&](const View& view) {
      return graph.tensors[At(view.tensor)].is_annotated && makers[At(view.tensor)] != nullptr;
    };
    if (std::ranges::none_of(op.views, is_annotated)) continue;
    ProjectToFactors(*op.relation, op.views, graph.tensors, INT64_MAX, *graph.axes, projection);
    for (size_t of = 0; of < op.views.size(); ++of) {
      const View& view = op.views[of];
      if (!is_annotated(view)) continue;
      const Tensor& tensor = graph.tensors[At(view.tensor)];
      const bool is_operand = of < op.operand_count;
      const size_t first = is_operand ? op.operand_count : 0;
      const size_t last = is_operand ? op.views.size() : op.operand_count;
      for (size_t as = first; as < last; ++as) {
        const auto wanted = DimsAs(graph, op, of, as, projection);
        if (!wanted) continue;
        std::vector<Axes> mine;
        for (const Dim& dim : tensor.dims) mine.push_back(graph.axes->Make(VisibleAxes(dim, view)));
        const bool cut = std::ranges::any_of(mine, [](Axes axes) { return !axes.empty(); });
        if (!cut || Contains(*wanted, mine) || Contains(mine, *wanted)) continue;
        const Instruction* neighbour =
            is_operand ? op.instruction : makers[At(op.views[as].tensor)];
        if (neighbour == nullptr) continue;
        found.push_back({view.tensor,
                         {makers[At(view.tensor)], neighbour, is_operand,
                          ShardingWith(graph, module, tensor, *wanted, mesh)}});
        break;
      }
    }
  }
  std::ranges::stable_sort(found, {}, &std::pair<int, PropagationFindings::Conflict>::first);
  for (auto& [tensor, conflict] : found) findings.conflicts.push_back(conflict);
}

void RecordGrowths(const Graph& graph, const std::vector<Growth>& growths, const Module& module,
                   ExplainRecorder& recorder) {
  const std::vector<const Instruction*> makers = MakersOf(graph, module);
  for (const Growth& growth : growths) {
    const Instruction* x = makers[At(growth.tensor)];
    if (x == nullptr) continue;
    const Operation& op = *growth.operation;
    const auto is_in = [&](std::span<const View> views, int tensor) {
      return std::ranges::any_of(views, [&](const View& v) { return v.tensor == tensor; });
    };
    const bool takes_as_result = is_in(op.results(), growth.tensor);
    const Instruction* from =
        takes_as_result && growth.from >= 0 ? makers[At(growth.from)] : op.instruction;
    const bool flows = op.instruction->opcode() == Opcode::kWhile ||
                       op.instruction->opcode() == Opcode::kConditional ||
                       op.instruction->opcode() == Opcode::kCall;
    const ShardingEdge edge = flows             ? ShardingEdge::kControlFlow
                              : takes_as_result ? ShardingEdge::kOperand
                                                : ShardingEdge::kUser;
    std::string rule = fmt::format("factor {} of {}", FactorName(growth.factor),
                                   DimsText(ToDimRelation(*op.relation)));
    if (growth.priority > 0) rule += fmt::format(", p{}", growth.priority);
    recorder.Record({x, from, edge, static_cast<int8_t>(growth.tier), x->sharding(), nullptr,
                     x->sharding(), std::move(rule)});
  }
}

}  // namespace gshard::shardy
