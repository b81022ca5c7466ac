#include "core/pipeline/emit/kept_values.h"

#include <unordered_map>

#include "core/pipeline/plan/minimum_cut.h"
#include "ir/op_traits.h"

namespace gshard::pipeline {

namespace {

// Costs no more than reading its operands again.
bool IsCheap(const Instruction* x) {
  if (!x->shape()->IsArray() || !MayBeRepeated(*x)) return false;
  return IsElementwise(x->opcode()) || MovesElements(x->opcode()) ||
         x->opcode() == Opcode::kReduce || x->opcode() == Opcode::kIota;
}

}  // namespace

std::optional<std::vector<Instruction*>> FewestBytesToKeep(const KeptValuesQuery& query) {
  // From what is needed to its operands: the side of the source are values that are computed again.
  FlowNetwork network;
  const int source = network.AddNode(), sink = network.AddNode();
  std::unordered_map<const Instruction*, int> entry_of;  // the node after it is its exit
  std::vector<Instruction*> found;
  auto node = [&](Instruction* x) {
    auto [it, fresh] = entry_of.try_emplace(x, 0);
    if (fresh) {
      it->second = network.AddNode();
      network.AddEdge(it->second, network.AddNode(),
                      x->shape()->IsArray() && query.may_be_kept(x) ? x->shape()->byte_size()
                                                                    : FlowNetwork::kUncuttable);
      found.push_back(x);
    }
    return it->second;
  };
  for (Instruction* x : query.needed) network.AddEdge(source, node(x), FlowNetwork::kUncuttable);
  for (size_t i = 0; i < found.size(); ++i) {
    Instruction* x = found[i];
    const int exit = entry_of.at(x) + 1;
    if (query.may_be_kept(x) && (!IsCheap(x) || query.leaves_layer->count(x) != 0)) {
      network.AddEdge(exit, sink, FlowNetwork::kUncuttable);
      continue;
    }
    for (Instruction* operand : x->operands()) {
      if (query.is_given(operand)) continue;
      network.AddEdge(exit, node(operand), FlowNetwork::kUncuttable);
    }
  }
  const std::vector<bool> again = network.SourceSide(source, sink);
  if (network.IsUncuttable()) return std::nullopt;
  std::vector<Instruction*> kept;
  for (Instruction* x : found) {
    const auto entry = static_cast<size_t>(entry_of.at(x));
    if (again[entry] && !again[entry + 1]) kept.push_back(x);
  }
  return kept;
}

}  // namespace gshard::pipeline
