#include "core/propagation/shardy/explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "ir/dims.h"

namespace gshard::shardy {

void RecordGrowths(const Graph& graph, const std::vector<Growth>& growths, const Module& module,
                   ExplainRecorder& recorder) {
  // The first instruction in the text that has a tensor is the one that makes it.
  std::vector<const Instruction*> makers(graph.tensors.size(), nullptr);
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      for (const View& view : graph.LeavesOf(*x)) {
        if (makers[At(view.tensor)] == nullptr) makers[At(view.tensor)] = x;
      }
    }
  }
  for (const Growth& growth : growths) {
    const Instruction* x = makers[At(growth.tensor)];
    if (x == nullptr) continue;
    const Operation& op = *growth.operation;
    const auto is_in = [&](const std::vector<View>& views, int tensor) {
      return std::ranges::any_of(views, [&](const View& v) { return v.tensor == tensor; });
    };
    const bool takes_as_result = is_in(op.results, growth.tensor);
    const Instruction* from = takes_as_result && growth.from >= 0 ? makers[At(growth.from)]
                                                                  : op.instruction;
    const bool flows = op.instruction->opcode() == Opcode::kWhile ||
                       op.instruction->opcode() == Opcode::kConditional ||
                       op.instruction->opcode() == Opcode::kCall;
    const ShardingEdge edge = flows             ? ShardingEdge::kControlFlow
                              : takes_as_result ? ShardingEdge::kOperand
                                                : ShardingEdge::kUser;
    std::string rule = fmt::format("factor {} of {}", FactorName(growth.factor),
                                   DimsText(*op.relation));
    if (growth.priority > 0) rule += fmt::format(", p{}", growth.priority);
    recorder.Record({x, from, edge, static_cast<int8_t>(growth.tier), x->sharding(), nullptr,
                     x->sharding(), std::move(rule)});
  }
}

}  // namespace gshard::shardy
