// See show.h.

#include "cmd/cli/show.h"

#include <fmt/format.h>

#include "cmd/cli/instruction_names.h"
#include "cmd/cli/program.h"
#include "core/analysis/axis_text.h"
#include "core/analysis/meshes.h"
#include "core/analysis/partitioned.h"
#include "core/json.h"
#include "core/report/sharding_picture.h"
#include "core/spmd/per_device_module.h"
#include "ir/dims.h"
#include "ir/sharding_algebra.h"

namespace gshard {
namespace {

constexpr const char* kShowSchema = "gshard.show/1";

int Refuse(const ShowOptions& options, const Diagnostic& error) {
  if (options.json) PrintErrorJson(error, kShowSchema);
  return ReportError(error);
}

Json LeafJson(Module& module, const Shape* shape, const Sharding* sharding, const Mesh* mesh,
              int64_t devices) {
  Json tiles = Json::Array();
  if (shape->IsArray()) {
    for (const ShardingTile& tile : TilesOf(shape, sharding, devices)) {
      tiles.Append({{"begin", tile.begin}, {"end", tile.end}, {"devices", tile.devices}});
    }
  }
  return {{"shape", ToString(shape, false)},
          {"sharding", AxisText(module.context(), sharding, mesh)},
          {"shard_shape", ToString(ShardShape(module.context(), shape, sharding), false)},
          {"tiles", std::move(tiles)}};
}

int Show(const ShowOptions& options, Module& module, const Instruction* x, int64_t devices) {
  const Mesh* mesh = NamedMesh(module);
  const Sharding* sharding =
      x->sharding() == nullptr ? module.context().Replicated() : x->sharding();
  const std::vector<const Shape*> shapes = LeafShapes(x->shape());
  const std::vector<const Sharding*> shardings = LeafShardings(x->shape(), sharding);
  Json leaves = Json::Array();
  std::string text;
  for (size_t leaf = 0; leaf < shapes.size(); ++leaf) {
    if (options.json) {
      leaves.Append(LeafJson(module, shapes[leaf], shardings[leaf], mesh, devices));
      continue;
    }
    text += std::string(x->name());
    if (x->shape()->IsTuple()) text += fmt::format(" leaf {}", leaf);
    text += " = " + ShardingPicture(module.context(), shapes[leaf], shardings[leaf], mesh, devices,
                                    {.full = options.full});
  }
  if (options.json) {
    const Json document = {{"schema", kShowSchema},
                           {"instruction", x->name()},
                           {"devices", devices},
                           {"leaves", std::move(leaves)}};
    text = document.Text();
  }
  auto written = WriteFile("-", text);
  return written ? kExitOk : ReportError(written.error());
}

}  // namespace

int RunShow(const ShowOptions& options, PassContext& context) {
  auto read = ReadModule(options.input, options.num_partitions);
  if (!read) return Refuse(options, read.error());
  Module& module = **read;
  std::string_view name = options.name;
  if (name.starts_with('%')) name.remove_prefix(1);
  if (IsPartitioned(module)) {
    return Refuse(options, MakeError("E-SHOW-002", "this is the program of one device already",
                                     "show the text that was partitioned"));
  }
  if (const Instruction* written = FindInstruction(module, name)) {
    const Instruction* value = ValueAfterInlining(module, written);
    if (value != written) {
      fmt::print(stderr, "{} is inlined, its value is {}\n", name, value->name());
      name = value->name();
    }
  }
  PerDeviceOptions way;
  way.num_partitions = options.num_partitions;
  way.pad_dynamic_sizes = false;
  auto devices = CompleteShardings(module, context, way);
  if (!devices) return Refuse(options, devices.error());
  const Instruction* x = FindInstruction(module, name);
  if (x == nullptr && (x = OnlySimilar(module, name)) != nullptr) {
    fmt::print(stderr, "no instruction is called '{}'; the only one like it is {}\n", name,
               x->name());
  }
  if (x == nullptr) {
    return Refuse(options,
                  MakeError("E-SHOW-001", fmt::format("no instruction is called '{}'", name),
                            SimilarNames(module, name)));
  }
  return Show(options, module, x, devices->partitions);
}

}  // namespace gshard
