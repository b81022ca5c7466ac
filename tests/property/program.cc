// Random programs as HLO text.
#include "tests/property/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

#include "ir/diagnostic.h"
#include "tests/property/shardy_text.h"

namespace gshard::property {
namespace {

std::string NodeName(const Node& node) {
  return fmt::format("{}{}", node.opcode == Opcode::kParameter ? "p" : "v", node.id);
}

std::string BodyName(size_t body) { return fmt::format("body{}", body); }

std::string NodeShape(const Node& node) {
  if (node.opcode == Opcode::kAfterAll) return "token[]";
  if (!node.tuple) return ShapeText(node.type());
  std::vector<std::string> leaves;
  for (const ArrayType& type : node.types) leaves.push_back(ShapeText(type));
  return fmt::format("({})", fmt::join(leaves, ", "));
}

std::string CalledText(const Node& node, const std::vector<Node>& nodes) {
  if (node.called.empty()) return {};
  std::vector<std::string> names;
  for (size_t body : node.called) names.push_back(BodyName(body));
  switch (node.opcode) {
    case Opcode::kWhile:
      return fmt::format(", condition={}, body={}", names[0], names[1]);
    case Opcode::kCall:
      return fmt::format(", to_apply={}", names[0]);
    case Opcode::kConditional:
      if (nodes[node.operands[0]].type().dtype == DType::kPred) {
        return fmt::format(", true_computation={}, false_computation={}", names[0], names[1]);
      }
      return fmt::format(", branch_computations={{{}}}", fmt::join(names, ", "));
    default:
      throw InternalError("calls a body");
  }
}

// Select-and-scatter names its two computations itself.
std::string ApplyText(const Node& node) {
  if (node.combiner.empty() || node.opcode == Opcode::kSelectAndScatter) return {};
  return ", to_apply=" + node.combiner;
}

// Outputs hold values, not summands.
std::string ShardingText(const Program& program, const Node& node, bool is_output) {
  if (node.placements.empty()) return {};
  if (program.shardy) return ShardyText(program, node, is_output);
  std::vector<std::string> leaves;
  bool any = false;
  for (Placement placement : node.placements) {
    any |= placement.kind != Placement::Kind::kNone;
    if (is_output) placement.unreduced = false;
    leaves.push_back(PlacementText(placement));
  }
  if (!any) return {};
  if (!node.tuple) return fmt::format(", sharding={}", leaves[0]);
  return fmt::format(", sharding={{{}}}", fmt::join(leaves, ", "));
}

// Which text: of a choice, both need both.
enum class Text : uint8_t { kSharded, kPlain, kBoth };

std::vector<bool> Needed(const Body& body, bool parameters, Text which) {
  std::vector<bool> needed(body.nodes.size(), false);
  needed[body.root] = true;
  for (size_t i = body.nodes.size(); i-- > 0;) {
    if (parameters && body.nodes[i].opcode == Opcode::kParameter) needed[i] = true;
    if (!needed[i]) continue;
    const std::vector<size_t>& operands = body.nodes[i].operands;
    if (body.nodes[i].is_choice && which != Text::kBoth) {
      needed[operands[which == Text::kSharded ? 1 : 0]] = true;
      continue;
    }
    for (size_t operand : operands) needed[operand] = true;
  }
  return needed;
}

void AppendBody(std::string& out, const Program& program, size_t index, bool shardings) {
  const Body& body = program.bodies[index];
  const std::vector<bool> needed =
      Needed(body, index != 0, shardings ? Text::kSharded : Text::kPlain);
  out += index == 0 ? std::string("ENTRY main {\n") : fmt::format("{} {{\n", BodyName(index));
  int64_t parameter = 0;
  for (size_t i = 0; i < body.nodes.size(); ++i) {
    if (!needed[i]) continue;
    const Node& node = body.nodes[i];
    std::string operands = node.payload;
    if (node.opcode == Opcode::kParameter) {
      operands = fmt::format("{}", parameter++);
    } else if (node.is_choice) {
      operands = NodeName(body.nodes[node.operands[shardings ? 1 : 0]]);
    } else if (!node.operands.empty()) {
      std::vector<std::string> names;
      for (size_t operand : node.operands) names.push_back(NodeName(body.nodes[operand]));
      operands = fmt::format("{}", fmt::join(names, ", "));
    }
    if (!shardings && node.opcode == Opcode::kCustomCall) {  // "Sharding" without one is an error
      out += fmt::format("  {}{} = {} copy({})\n", i == body.root ? "ROOT " : "", NodeName(node),
                         NodeShape(node), operands);
      continue;
    }
    out += fmt::format("  {}{} = {} {}({}){}{}{}{}\n", i == body.root ? "ROOT " : "",
                       NodeName(node), NodeShape(node), OpcodeName(node.opcode), operands,
                       node.attributes, ApplyText(node), CalledText(node, body.nodes),
                       shardings ? ShardingText(program, node, index == 0 && i == body.root) : "");
    if (shardings) out += ShardyGroupText(node, NodeName(node));
  }
  out += "}\n";
}

// Bodies reachable from `body`, callees first.
void Reach(const Program& program, size_t body, Text which, std::vector<bool>& seen,
           std::vector<size_t>& order, std::map<std::string, bool>& combiners) {
  if (seen[body]) return;
  seen[body] = true;
  const std::vector<bool> needed = Needed(program.bodies[body], body != 0, which);
  for (size_t i = 0; i < program.bodies[body].nodes.size(); ++i) {
    if (!needed[i]) continue;
    const Node& node = program.bodies[body].nodes[i];
    if (!node.combiner.empty()) combiners[node.combiner] = true;
    for (size_t callee : node.called) Reach(program, callee, which, seen, order, combiners);
  }
  order.push_back(body);
}

}  // namespace

int64_t Product(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

std::string ShapeText(const ArrayType& type) {
  return fmt::format("{}[{}]", DTypeName(type.dtype), fmt::join(type.dims, ","));
}

std::string PlacementText(const Placement& placement) {
  switch (placement.kind) {
    case Placement::Kind::kNone:
    case Placement::Kind::kReplicated:
      return "{replicated}";
    case Placement::Kind::kMaximal:
      return fmt::format("{{maximal device={}}}", placement.device);
    case Placement::Kind::kManual:
      return "{manual}";
    case Placement::Kind::kTiled:
      break;
  }
  const size_t axes = placement.mesh.size();
  std::vector<size_t> permutation;
  std::vector<bool> used(axes, false);
  Sizes tiles;
  for (const std::vector<size_t>& dim : placement.dims) {
    int64_t count = 1;
    for (size_t axis : dim) {
      permutation.push_back(axis);
      used[axis] = true;
      count *= placement.mesh[axis];
    }
    tiles.push_back(count);
  }
  int64_t groups = 1, copies = 1;
  for (size_t axis : placement.manual) {
    permutation.push_back(axis);
    used[axis] = true;
    groups *= placement.mesh[axis];
  }
  for (size_t axis = 0; axis < axes; ++axis) {
    if (used[axis]) continue;
    permutation.push_back(axis);
    copies *= placement.mesh[axis];
  }
  if (Product(tiles) == 1 && groups == 1) {
    return placement.unreduced ? "{unreduced}" : "{replicated}";
  }
  std::string text;
  if (groups > 1) tiles.push_back(groups);
  if (copies > 1) tiles.push_back(copies);
  if (placement.order.empty()) {
    bool sorted = true;
    for (size_t i = 0; i < axes; ++i) sorted &= permutation[i] == i;
    text = sorted
               ? fmt::format("devices=[{}]<=[{}]", fmt::join(tiles, ","), Product(placement.mesh))
               : fmt::format("devices=[{}]<=[{}]T({})", fmt::join(tiles, ","),
                             fmt::join(placement.mesh, ","), fmt::join(permutation, ","));
  } else {
    // Row-major over the permuted axes.
    Sizes strides(axes, 1);
    for (size_t i = axes; i-- > 1;) strides[i - 1] = strides[i] * placement.mesh[i];
    Sizes list;
    for (int64_t flat = 0; flat < Product(placement.mesh); ++flat) {
      int64_t rest = flat, position = 0;
      for (size_t i = axes; i-- > 0;) {
        const size_t axis = permutation[i];
        position += rest % placement.mesh[axis] * strides[axis];
        rest /= placement.mesh[axis];
      }
      list.push_back(placement.order[static_cast<size_t>(position)]);
    }
    text = fmt::format("devices=[{}]{}", fmt::join(tiles, ","), fmt::join(list, ","));
  }
  if (groups > 1) {
    return fmt::format("{{{} last_tile_dims={{manual{}}}}}", text,
                       copies > 1 ? ", replicated" : "");
  }
  if (placement.unreduced && copies > 1)
    return fmt::format("{{{} last_tile_dims={{unreduced}}}}", text);
  return fmt::format("{{{}{}}}", text, copies > 1 ? " last_tile_dim_replicate" : "");
}

namespace {

bool HasSummands(const Program& program) {
  for (const Body& body : program.bodies) {
    for (const Node& node : body.nodes) {
      for (const Placement& placement : node.placements) {
        if (placement.unreduced) return true;
      }
    }
  }
  return false;
}

}  // namespace

std::string ToText(const Program& program, bool shardings) {
  std::vector<bool> seen(program.bodies.size(), false);
  std::vector<size_t> order;
  std::map<std::string, bool> combiners;
  Reach(program, 0, shardings ? Text::kSharded : Text::kPlain, seen, order, combiners);
  std::string out = "HloModule property";
  if (shardings) {
    // Inputs and outputs hold values, not summands: the default sees to that, "true" does not.
    auto allow = [&](const char* what, bool propagates) {
      const bool refuses = program.next_id % 2 == 1;
      if (!propagates && !refuses) return;  // the default: what has no annotation is free
      out += fmt::format(", allow_spmd_sharding_propagation_to_{}={{{}}}", what, propagates);
    };
    const bool may_change = !HasSummands(program);
    allow("parameters", may_change && program.propagate_to_parameters);
    allow("output", may_change && program.propagate_to_output);
    out += fmt::format(", num_partitions={}", program.devices);
    if (program.shardy) out += ", frontend_attributes=" + ShardyMeshesText(program.mesh);
  }
  out += "\n";
  for (const auto& [name, text] : program.combiners) {
    if (combiners.contains(name)) out += "\n" + text;
  }
  for (size_t body : order) {
    out += "\n";
    AppendBody(out, program, body, shardings);
  }
  return out;
}

void RemoveUnused(Program& program) {
  for (size_t b = 0; b < program.bodies.size(); ++b) {
    Body& body = program.bodies[b];
    const std::vector<bool> needed = Needed(body, b != 0, Text::kBoth);
    std::vector<size_t> place(body.nodes.size(), 0);
    std::vector<Node> kept;
    for (size_t i = 0; i < body.nodes.size(); ++i) {
      if (!needed[i]) continue;
      place[i] = kept.size();
      kept.push_back(std::move(body.nodes[i]));
      for (size_t& operand : kept.back().operands) operand = place[operand];
    }
    body.root = place[body.root];
    body.nodes = std::move(kept);
  }
}

}  // namespace gshard::property
