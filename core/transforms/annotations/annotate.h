// Puts shardings on a graph that carries none: the user names a mesh and a few tensors.
//
// GShard's annotation API (GShard paper section 3.2: replicate, split, shard) as rules over names.
#ifndef GSHARD_CORE_TRANSFORMS_ANNOTATIONS_ANNOTATE_H_
#define GSHARD_CORE_TRANSFORMS_ANNOTATIONS_ANNOTATE_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/mesh.h"
#include "ir/module.h"

namespace gshard {

// One "REGEX=spec". `where` stands in diagnostics ("--shard" or "FILE:LINE").
struct AnnotationRule {
  std::string
      pattern;       // RE2, partial match on the name, the op_name, or "param:K" (entry parameters)
  // "data,_,data+model", "data,..", "replicated", "device:3", "{devices=[2,1]1,0}"; "free": none
  std::string spec;
  std::string where;  // "--shard", or the file of line `line`
  uint32_t line = 0;  // 1-based; 0: not of a file
};

// What "data,_,data+model" means: `dims` has the axes of each dim, major first, as indices into the
// mesh's; no axis is there twice. Axes that cut no dim hold copies.
const Sharding* ShardingByAxes(Context& context, const Mesh& mesh,
                               std::span<const std::vector<int>> dims);

struct AnnotateOptions {
  // Row-major over devices 0..N-1; empty: the mesh that the module names, if any.
  std::vector<MeshAxis> mesh;
  std::vector<AnnotationRule> rules;
};

// "data=32,model=64" -> axes. Errors: E-ANNOTATE-*.
Expected<std::vector<MeshAxis>> ParseMeshFlag(std::string_view text);
// "REGEX=spec", split at the first "={", else at the last '='.
Expected<AnnotationRule> ParseAnnotationRule(std::string_view text, std::string where);
// One rule a line; blank lines and lines starting with '#' are skipped.
Expected<std::vector<AnnotationRule>> ParseRulesFile(std::string_view text,
                                                     const std::string& file_name);

// Sets sharding= on every match; a later rule overrides an earlier one. A dim spelt `*` stays open:
// the instruction gets a `Sharding` custom-call with unspecified_dims behind it. The mesh is
// recorded in the header (frontend attribute gshard.meshes) and num_partitions becomes its size.
// Where the module declares a mesh with the same axis names, its shardings are resolved again over
// the new sizes. Errors: a pattern that matches nothing, a rank that does not fit, an unknown axis.
Expected<void> Annotate(Module& module, const AnnotateOptions& options);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_ANNOTATIONS_ANNOTATE_H_
