#include "core/analysis/partition_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "core/analysis/device_grid.h"
#include "core/analysis/partitioned.h"
#include "ir/attribute_names.h"
#include "ir/dims.h"
#include "ir/metadata.h"
#include "ir/parser.h"
#include "ir/sharding_algebra.h"
#include "ir/sharding_text.h"

namespace gshard {
namespace {

// The leaves of the shape that the header has under `key`; empty if it has none.
Expected<std::vector<const Shape*>> RecordedLeaves(const Module& module, std::string_view key) {
  std::vector<const Shape*> leaves;
  const std::string text = FrontendAttribute(module.header().frontend_attributes, key);
  if (text.empty()) return leaves;
  const auto shape = ParseShape(module.shared_context(), text);
  if (!shape) {
    return Fail(MakeError("E-RUN-RECORD", fmt::format("the header's {} is not a shape: {}", key,
                                                      shape.error().message)));
  }
  AppendLeafShapes(*shape, leaves);
  return leaves;
}

struct Leaf {
  const Shape* local = nullptr;
  const Sharding* sharding = nullptr;
};

// Empty unless there are as many; an error if one does not have the leaf as its shard.
Expected<std::vector<const Shape*>> LeavesThatFit(const Module& module, std::string_view key,
                                                  const std::vector<Leaf>& leaves) {
  auto whole = RecordedLeaves(module, key);
  if (!whole || whole->size() != leaves.size()) {
    return whole ? Expected<std::vector<const Shape*>>() : std::move(whole);
  }
  for (size_t k = 0; k < leaves.size(); ++k) {
    if (IsShardOf(leaves[k].local, leaves[k].sharding, (*whole)[k])) continue;
    return Fail(
        MakeError("E-RUN-RECORD",
                  fmt::format("the header's {} says that {} {} is {}, of which {} is no shard", key,
                              key == kOutputShapesAttribute ? "result" : "parameter", k,
                              ToString((*whole)[k], false), ToString(leaves[k].local, false))));
  }
  return whole;
}

void AppendLeaves(const Shape* shape, const Sharding* sharding, std::vector<Leaf>& leaves) {
  const std::vector<const Shape*> shapes = LeafShapes(shape);
  std::vector<const Sharding*> shardings;
  if (sharding != nullptr) shardings = LeafShardings(shape, sharding);
  for (size_t i = 0; i < shapes.size(); ++i) {
    leaves.push_back({shapes[i], i < shardings.size() ? shardings[i] : nullptr});
  }
}

}  // namespace

bool IsShardOf(const Shape* local, const Sharding* sharding, const Shape* whole) {
  if (!local->IsArray() || !whole->IsArray()) return true;
  if (local->dtype() != whole->dtype() || local->rank() != whole->rank()) return false;
  for (int64_t d = 0; d < local->rank(); ++d) {
    const bool tiled = sharding != nullptr && sharding->IsTiled();
    const int64_t tiles = tiled ? sharding->TileCount(d) : 1;
    const int64_t size = whole->dim(d);
    if (local->dim(d) != size / tiles + (size % tiles != 0)) return false;
  }
  return true;
}

Expected<std::vector<const Sharding*>> ParseOutputShardings(const Module& module,
                                                            std::string_view text) {
  const auto parsed = ParseSharding(module.context(), text, module.header().meshes);
  if (!parsed) return Fail(MakeError("E-RUN-RECORD", parsed.error().message));
  const Shape* result = module.entry()->root()->shape();
  const std::string problem =
      WhyNotApplicable(*parsed, result, static_cast<int64_t>(CountDevices(module).partitions));
  if (!problem.empty()) return Fail(MakeError("E-RUN-RECORD", problem));
  return LeafShardings(result, *parsed);
}

Expected<std::vector<const Sharding*>> RecordedOutputShardings(const Module& module) {
  const std::string text =
      FrontendAttribute(module.header().frontend_attributes, kOutputShardingsAttribute);
  if (text.empty()) return std::vector<const Sharding*>();
  auto shardings = ParseOutputShardings(module, text);
  if (!shardings) {
    Diagnostic error = shardings.error();
    error.message = fmt::format("the header's {}: {}", kOutputShardingsAttribute, error.message);
    return Fail(std::move(error));
  }
  return shardings;
}

Expected<WholeShapes> RecordedWholeShapes(const Module& module) {
  WholeShapes shapes;
  std::vector<Leaf> parameters, results;
  for (const Instruction* x : module.entry()->parameters()) {
    AppendLeaves(x->shape(), x->sharding(), parameters);
  }
  auto of_parameters = LeavesThatFit(module, kParameterShapesAttribute, parameters);
  if (!of_parameters) return Fail(of_parameters.error());
  shapes.parameters = std::move(*of_parameters);
  auto shardings = RecordedOutputShardings(module);
  if (!shardings) return Fail(shardings.error());
  if (shardings->empty()) return shapes;
  AppendLeaves(module.entry()->root()->shape(), nullptr, results);
  for (size_t k = 0; k < std::min(results.size(), shardings->size()); ++k) {
    results[k].sharding = (*shardings)[k];
  }
  auto of_results = LeavesThatFit(module, kOutputShapesAttribute, results);
  if (!of_results) return Fail(of_results.error());
  shapes.results = std::move(*of_results);
  return shapes;
}

}  // namespace gshard
