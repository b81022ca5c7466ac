// Text of shardings, meshes and replica groups (docs/text-format.md; grammar in docs/sharding.md).
#ifndef GSHARD_IR_SHARDING_TEXT_H_
#define GSHARD_IR_SHARDING_TEXT_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ir/context.h"
#include "ir/diagnostic.h"
#include "ir/replica_groups.h"
#include "ir/sharding.h"

namespace gshard {

// What is wrong with a fragment of text, relative to its first byte.
struct TextError {
  size_t offset = 0;
  size_t length = 1;
  std::string message;
};

// Parses "{...}" with its braces. `meshes`: the module's declared meshes, for {@pod, ..}. Does not
// check against a shape (see WhyNotApplicable).
tl::expected<const Sharding*, TextError> ParseSharding(Context& ctx, std::string_view text,
                                                       std::span<const Mesh* const> meshes = {});
// "{pod=['data'=32,'model'=64], ring=['stage'=8], device_ids=(..)}" with braces.
tl::expected<std::vector<const Mesh*>, TextError> ParseMeshes(Context& ctx, std::string_view text);
std::string ToString(std::span<const Mesh* const> meshes);

// In the spelling it was written in; sugar expands to XLA's mesh form unless `keep_sugar`.
struct ShardingPrintOptions {
  bool keep_sugar = false;
  bool tiles = false;  // device-list forms even for what was written by name
  bool metadata = true;
};
void AppendSharding(std::string& out, const Sharding* s, const ShardingPrintOptions& options = {});
std::string ToString(const Sharding* s, const ShardingPrintOptions& options = {});

// `s` spelled by the axes of `mesh` ({mesh[..], [..]}, or {@pod, ..} for a declared mesh), sub-axes
// where needed; `s` itself if no such spelling exists.
const Sharding* SpelledByMesh(Context& ctx, const Sharding* s, const Mesh* mesh, bool sugar);

// Does a spelling by axes name a part of one, 'model':(1)2?
bool HasSubAxes(std::string_view text);

// `groups` as the axes of `mesh` that they vary (mesh[..] {'a'}), members in the same order, groups
// in the mesh's; nothing if no axes do.
std::optional<ReplicaGroups> SpelledByMesh(const ReplicaGroups& groups, const Mesh& mesh);

// The four forms of replica_groups, text as after "replica_groups=".
tl::expected<ReplicaGroups, TextError> ParseReplicaGroups(std::string_view text);
std::string ToString(const ReplicaGroups& groups);

}  // namespace gshard

#endif  // GSHARD_IR_SHARDING_TEXT_H_
