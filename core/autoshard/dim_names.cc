// See dim_names.h.

#include "core/autoshard/dim_names.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/autoshard/alike_values.h"
#include "core/op_dims/dim_relation.h"
#include "ir/dims.h"
#include "ir/leaves.h"
#include "ir/metadata.h"
#include "ir/op_traits.h"
#include "ir/traversal.h"

namespace gshard::autoshard {
namespace {

bool IsMadeOfNothing(Opcode opcode) {
  return opcode == Opcode::kConstant || opcode == Opcode::kIota || opcode == Opcode::kPartitionId ||
         opcode == Opcode::kReplicaId;
}

// "params[3]['wq']" -> "params[]['wq']": numbers that something is said of. A number at the end
// tells tensors of one layer apart (w1, w2) and stays.
std::string WithoutLayerNumbers(const std::string& name) {
  size_t last_letter = name.size();
  while (last_letter > 0 && !std::isalpha(static_cast<unsigned char>(name[last_letter - 1]))) {
    --last_letter;
  }
  std::string text;
  for (size_t i = 0; i < name.size(); ++i) {
    if (i >= last_letter || !std::isdigit(static_cast<unsigned char>(name[i]))) text += name[i];
  }
  return text;
}

// Of fewer alike products each is told apart: a search of few groups can afford it, and where the
// memory of one layer is scarce only one may have to be cut otherwise.
constexpr size_t kManyLayers = 8;
// The same of weights that have no names.
constexpr size_t kManyWeights = 4;
// Products without names are alike if they are in this round: by what they are made of and what is
// made of them.
constexpr size_t kRoundOfProducts = 2;

}  // namespace

DimNames::DimNames(const Module& module) {
  AddNodes(module);
  for (const Computation* computation : module.computations()) TieComputation(*computation);
  TieAliases(module);
  const Users users(module);
  const KindsByRound kinds = KindsByUse(module, users);
  TieLayers(module, kinds, users);
  TieProducts(module, kinds[kRoundOfProducts]);
  name_.assign(parent_.size(), -1);
  for (Node node = 0; node < parent_.size(); ++node) {
    int& name = name_[Find(node)];
    if (name < 0) name = count_++;
  }
}

int DimNames::Of(const Instruction* x, int64_t leaf, int64_t dim) const {
  return name_[Find(NodeOf(x, leaf, dim))];
}

void DimNames::AddNodes(const Module& module) {
  first_.resize(module.instruction_limit());
  Node next = 0;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      std::vector<const Shape*> leaves;
      AppendLeafShapes(x->shape(), leaves);
      for (const Shape* leaf : leaves) {
        first_[x->id()].push_back(next);
        if (leaf->IsArray()) next += static_cast<Node>(leaf->rank());
      }
      first_[x->id()].push_back(next);
    }
  }
  parent_.resize(next);
  for (Node node = 0; node < next; ++node) parent_[node] = node;
}

int64_t DimNames::RankOf(const Instruction* x, int64_t leaf) const {
  const std::vector<Node>& first = first_[x->id()];
  return first[static_cast<size_t>(leaf) + 1] - first[static_cast<size_t>(leaf)];
}

DimNames::Node DimNames::Find(Node node) const {
  while (parent_[node] != node) node = parent_[node] = parent_[parent_[node]];
  return node;
}

// The earlier node stands for both, so that names do not depend on the order of ties.
void DimNames::Tie(Node a, Node b) {
  a = Find(a);
  b = Find(b);
  parent_[std::max(a, b)] = std::min(a, b);
}

void DimNames::TieValues(const Instruction* a, int64_t leaf_a, const Instruction* b, int64_t leaf_b,
                         int64_t leaves) {
  for (int64_t i = 0; i < leaves; ++i) {
    const int64_t rank = std::min(RankOf(a, leaf_a + i), RankOf(b, leaf_b + i));
    for (int64_t d = 0; d < rank; ++d) Tie(NodeOf(a, leaf_a + i, d), NodeOf(b, leaf_b + i, d));
  }
}

// Arguments with the results that take their place.
void DimNames::TieAliases(const Module& module) {
  const Computation& entry = *module.entry();
  for (const ModuleHeader::Alias& alias : module.header().input_output_alias) {
    const bool is_plain = alias.parameter_index.empty() && alias.output_index.size() <= 1 &&
                          alias.parameter >= 0 && alias.parameter < entry.parameter_count();
    if (!is_plain) continue;
    const Instruction* parameter = entry.parameter(alias.parameter);
    const Shape* results = entry.root()->shape();
    const int64_t element = alias.output_index.empty() ? 0 : alias.output_index[0];
    if (!parameter->shape()->IsArray()) continue;
    if (alias.output_index.empty() != results->IsArray()) continue;
    if (results->IsTuple() && element >= static_cast<int64_t>(results->elements().size())) continue;
    TieValues(parameter, 0, entry.root(), results->IsTuple() ? results->first_leaf(element) : 0, 1);
  }
}

void DimNames::TieLayers(const Module& module, const KindsByRound& kinds, const Users& users) {
  std::map<std::pair<std::string, const Shape*>, std::vector<const Instruction*>> named;
  std::vector<const Instruction*> unnamed;
  for (const Instruction* parameter : module.entry()->parameters()) {
    if (!parameter->shape()->IsArray()) continue;
    const std::string name = OpNameOf(*parameter);
    if (!name.empty()) {
      named[{WithoutLayerNumbers(name), parameter->shape()}].push_back(parameter);
    } else if (FeedsProduct(parameter, users)) {
      unnamed.push_back(parameter);
    }
  }
  for (const auto& [name, parameters] : named) TieAlike(parameters);
  for (const auto& weights : AlikeValues(unnamed, kinds, kManyWeights)) TieAlike(weights);
}

void DimNames::TieAlike(const std::vector<const Instruction*>& values) {
  const int64_t rank = values[0]->shape()->rank();
  const auto names = [&](const Instruction* x) {
    std::set<Node> different;
    for (int64_t d = 0; d < rank; ++d) different.insert(Find(NodeOf(x, 0, d)));
    return different.size();
  };
  size_t most = 0;
  for (const Instruction* x : values) most = std::max(most, names(x));
  std::vector<Node> before = parent_;
  for (const Instruction* x : values) TieValues(values[0], 0, x, 0, 1);
  if (names(values[0]) < most) parent_ = std::move(before);
}

void DimNames::TieProducts(const Module& module, const std::vector<int>& kinds) {
  std::vector<bool> is_of_parameter(parent_.size(), false);
  for (const Instruction* parameter : module.entry()->parameters()) {
    const Node end = first_[parameter->id()].back();
    for (Node node = first_[parameter->id()][0]; node < end; ++node) {
      is_of_parameter[Find(node)] = true;
    }
  }
  using Kind = std::tuple<std::string, int, Opcode, const Shape*, std::vector<int64_t>>;
  std::map<Kind, std::vector<const Instruction*>> alike;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (!IsProduct(x->opcode()) || !x->shape()->IsArray()) continue;
      const std::string name = OpNameOf(*x);
      const int kind = name.empty() ? kinds[x->id()] : -1;
      std::vector<int64_t> known;
      for (int64_t d = 0; d < x->shape()->rank(); ++d) {
        const Node root = Find(NodeOf(x, 0, d));
        known.push_back(is_of_parameter[root] ? int64_t{root} : -1);
      }
      alike[{WithoutLayerNumbers(name), kind, x->opcode(), x->shape(), std::move(known)}].push_back(
          x);
    }
  }
  for (const auto& [kind, products] : alike) {
    if (products.size() >= kManyLayers) TieAlike(products);
  }
}

void DimNames::TieComputation(const Computation& computation) {
  std::vector<bool> is_constant(first_.size(), false);
  for (const Instruction* x : computation.instructions()) {
    const auto known = [&](const Instruction* operand) { return is_constant[operand->id()]; };
    is_constant[x->id()] =
        IsMadeOfNothing(x->opcode()) || (x->operand_count() > 0 && x->called().empty() &&
                                         std::ranges::all_of(x->operands(), known));
    if (!is_constant[x->id()]) TieOperation(x, is_constant);
  }
}

void DimNames::TieOperation(const Instruction* x, const std::vector<bool>& is_constant) {
  switch (x->opcode()) {
    case Opcode::kTuple: {
      int64_t leaf = 0;
      for (const Instruction* operand : x->operands()) {
        const int64_t leaves = operand->shape()->leaf_count();
        if (!is_constant[operand->id()]) TieValues(x, leaf, operand, 0, leaves);
        leaf += leaves;
      }
      return;
    }
    case Opcode::kGetTupleElement:
      return TieValues(x, 0, x->operand(0), FirstLeafRead(*x), x->shape()->leaf_count());
    case Opcode::kOptBarrier:
      TieValues(x, 0, x->operand(0), 0, x->shape()->leaf_count());
      return;
    case Opcode::kWhile:
    case Opcode::kConditional:
      TieControlFlow(x);
      return;
    default:  // by its relation, which is empty for what relates nothing
      break;
  }
  const DimRelation relation = RelationOf(*x);
  if (!relation.relates) return;
  std::vector<int64_t> node_of(relation.factors.size(), -1);
  const auto tie = [&](const Instruction* value, int64_t leaf,
                       const std::vector<FactorList>& dims) {
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims[d].empty()) continue;
      // The major factor is what the major part of the dim follows.
      const Factor& factor = relation.factors[At(dims[d][0])];
      if (factor.kind == FactorKind::kNeedReplication || factor.blocked) continue;
      const Node node = NodeOf(value, leaf, static_cast<int64_t>(d));
      int64_t& known = node_of[At(dims[d][0])];
      if (known < 0) {
        known = node;
      } else {
        Tie(static_cast<Node>(known), node);
      }
    }
  };
  for (size_t i = 0; i < relation.operands.size(); ++i) {
    const Instruction* operand = x->operand(static_cast<int64_t>(i));
    if (operand->shape()->IsArray() && !is_constant[operand->id()]) {
      tie(operand, 0, relation.operands[i]);
    }
  }
  for (size_t i = 0; i < relation.results.size(); ++i) {
    tie(x, static_cast<int64_t>(i), relation.results[i]);
  }
}

void DimNames::TieControlFlow(const Instruction* x) {
  const int64_t leaves = x->shape()->leaf_count();
  if (x->opcode() == Opcode::kWhile) {
    TieValues(x, 0, x->operand(0), 0, leaves);
    TieValues(x, 0, x->called(0)->parameter(0), 0, leaves);
    TieValues(x, 0, x->called(1)->parameter(0), 0, leaves);
    TieValues(x, 0, x->called(1)->root(), 0, leaves);
    return;
  }
  for (size_t i = 0; i < x->called().size(); ++i) {
    const Computation* branch = x->called()[i];
    const Instruction* operand = x->operand(static_cast<int64_t>(i) + 1);
    TieValues(operand, 0, branch->parameter(0), 0, operand->shape()->leaf_count());
    TieValues(x, 0, branch->root(), 0, leaves);
  }
}

}  // namespace gshard::autoshard
