#include "tests/property/shardy_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace gshard::property {
namespace {

// Part of an axis of the program's mesh: `size` positions, `before` of them times that to its left.
struct Part {
  size_t axis = 0;
  int64_t before = 1, size = 1;
};

// The axes of a placement's mesh, which divides that of the program, as parts of its axes.
std::vector<Part> PartsOf(const Sizes& fine, const Sizes& mesh) {
  std::vector<Part> parts;
  size_t axis = 0;
  int64_t before = 1;
  for (const int64_t size : fine) {
    if (axis < mesh.size() && before == mesh[axis]) {
      ++axis;
      before = 1;
    }
    parts.push_back({axis, before, size});
    before *= size;
  }
  return parts;
}

std::string AxisName(size_t axis) {
  return fmt::format("\\\"{}\\\"", static_cast<char>('a' + axis));
}

// Parts that continue each other are one.
std::string AxesText(const std::vector<size_t>& axes, const std::vector<Part>& parts,
                     const Sizes& mesh) {
  std::vector<Part> merged;
  for (const size_t axis : axes) {
    const Part& part = parts[axis];
    if (!merged.empty() && merged.back().axis == part.axis &&
        merged.back().before * merged.back().size == part.before) {
      merged.back().size *= part.size;
    } else {
      merged.push_back(part);
    }
  }
  std::vector<std::string> names;
  for (const Part& part : merged) {
    names.push_back(part.size == mesh[part.axis]
                        ? AxisName(part.axis)
                        : fmt::format("{}:({}){}", AxisName(part.axis), part.before, part.size));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// `<@mesh, [{"a", ?}p1, {}], replicated={"b"}>`.
std::string ShardingOf(const Placement& placement, int64_t rank, const Sizes& mesh) {
  const bool is_tiled = placement.kind == Placement::Kind::kTiled;
  const std::vector<Part> parts = PartsOf(is_tiled ? placement.mesh : mesh, mesh);
  std::vector<bool> used(parts.size(), false);
  std::vector<std::string> dims;
  for (size_t d = 0; d < static_cast<size_t>(rank); ++d) {
    std::string axes;
    if (is_tiled) {
      axes = AxesText(placement.dims[d], parts, mesh);
      for (const size_t axis : placement.dims[d]) used[axis] = true;
    }
    const bool open = placement.kind == Placement::Kind::kNone ||
                      (d < placement.open.size() && placement.open[d]);
    if (open) axes += axes.empty() ? "?" : ", ?";
    const int64_t priority = d < placement.priorities.size() ? placement.priorities[d] : 0;
    const std::string suffix = priority > 0 && !axes.empty() ? fmt::format("p{}", priority) : "";
    dims.push_back(fmt::format("{{{}}}{}", axes, suffix));
  }
  std::string text = fmt::format("<@mesh, [{}]", fmt::join(dims, ", "));
  std::vector<size_t> whole, summed;
  for (size_t axis = 0; axis < parts.size(); ++axis) {
    if (used[axis]) continue;
    const auto& listed = placement.replicated;
    if (std::find(listed.begin(), listed.end(), axis) != listed.end()) {
      whole.push_back(axis);
    } else if (placement.unreduced) {
      summed.push_back(axis);
    }
  }
  if (!whole.empty()) text += fmt::format(", replicated={{{}}}", AxesText(whole, parts, mesh));
  if (!summed.empty()) text += fmt::format(", unreduced={{{}}}", AxesText(summed, parts, mesh));
  return text + ">";
}

// What a border says: the sharding of the whole array and which axes are manual.
std::string BorderText(const Program& program, const Node& node) {
  const bool enters = node.attributes.find("GlobalToLocal") != std::string::npos;
  std::vector<std::string> manual;
  for (const size_t axis : node.border_axes) manual.push_back(AxisName(axis));
  return fmt::format(
      ", frontend_attributes={{xla.sdy.{}_shardings=\"#sdy.sharding_per_value<[{}]>\","
      "xla.sdy.manual_axes=\"#sdy<manual_axes{{{}}}>\"}}",
      enters ? "in" : "out", ShardingOf(node.placements[0], node.type().rank(), program.mesh),
      fmt::join(manual, ", "));
}

// In a region: what has operands need not say where it is.
std::string InRegionText(const Node& node) {
  if (!node.operands.empty() && !node.tuple && node.id % 2 == 0) return {};
  std::vector<std::string> leaves;
  for (const Placement& placement : node.placements) leaves.push_back(PlacementText(placement));
  if (!node.tuple) return fmt::format(", sharding={}", leaves[0]);
  return fmt::format(", sharding={{{}}}", fmt::join(leaves, ", "));
}

}  // namespace

std::string ShardyMeshesText(const Sizes& mesh) {
  std::vector<std::string> axes;
  for (size_t i = 0; i < mesh.size(); ++i) {
    axes.push_back(fmt::format("\"{}\"={}", static_cast<char>('a' + i), mesh[i]));
  }
  return fmt::format("{{xla.sdy.meshes={{mesh = #sdy.mesh<[{}]>}}}}", fmt::join(axes, ", "));
}

std::string ShardyText(const Program& program, const Node& node, bool is_output) {
  if (!node.border_axes.empty()) return BorderText(program, node);
  if (node.in_region) return InRegionText(node);
  std::vector<std::string> leaves, tiles;
  bool any = false, whole = true;
  for (size_t i = 0; i < node.placements.size(); ++i) {
    Placement placement = node.placements[i];
    any |= placement.kind != Placement::Kind::kNone;
    whole &= placement.kind != Placement::Kind::kNone;
    if (is_output) placement.unreduced = false;
    leaves.push_back(ShardingOf(placement, node.types[i].rank(), program.mesh));
    tiles.push_back(PlacementText(placement));
  }
  // A constraint says that all is open; a barrier has attributes of its own.
  const bool is_constraint = node.opcode == Opcode::kCustomCall &&
                             node.attributes.find("frontend_attributes") == std::string::npos;
  if (!any && !is_constraint) return {};
  std::string text = node.tuple || node.opcode == Opcode::kCustomCall
                         ? fmt::format("#sdy.sharding_per_value<[{}]>", fmt::join(leaves, ", "))
                         : fmt::format("#sdy.sharding{}", leaves[0]);
  text = fmt::format(", frontend_attributes={{xla.sdy.sharding=\"{}\"}}", text);
  if (node.id % 5 != 0 || !whole) return text;
  return (node.tuple ? fmt::format(", sharding={{{}}}", fmt::join(tiles, ", "))
                     : fmt::format(", sharding={}", tiles[0])) +
         text;
}

std::string ShardyGroupText(const Node& node, const std::string& name) {
  if (!node.in_group) return {};
  return fmt::format(
      "  g{} = () custom-call({}), custom_call_target=\"xla.sdy.ShardingGroup\", "
      "custom_call_has_side_effect=true, "
      "frontend_attributes={{xla.sdy.sharding_group_id=\"0\"}}\n",
      node.id, name);
}

}  // namespace gshard::property
