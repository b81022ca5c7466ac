// Which named mesh a module means, so that reports can speak of axes instead of device lists.
#ifndef GSHARD_CORE_ANALYSIS_MESHES_H_
#define GSHARD_CORE_ANALYSIS_MESHES_H_

#include <span>
#include <string>
#include <vector>

#include "ir/attribute_names.h"
#include "ir/module.h"

namespace gshard {

// The mesh over all devices that the module names: declared in the header (meshes=, frontend
// attribute gshard.meshes or xla.sdy.meshes) or used in a mesh-form sharding. Null if there is
// none.
const Mesh* NamedMesh(Module& module);

// The module's mesh over all its devices: NamedMesh, else the recorded one, else inferred: the
// coarsest common refinement of all axis-form shardings, called axis0, axis1, .. major first. Null
// if N is 1.
const Mesh* MainMesh(Module& module);
// Leaves the inferred mesh in the header before partitioning takes the shardings away, so that the
// program of one device speaks of the same axes. Nothing where axes have names, or there is one
// only.
void RecordInferredMesh(Module& module);

// Declares MainMesh in the header, as "mesh" if it has no name, unless a mesh over all devices is
// declared already: then `--named` printing spells every sharding by its axes.
void DeclareMainMesh(Module& module);

// Names of the mesh axes along which members of a group differ, in mesh order, with sub-axes spelt
// "model:(1)4". Empty if the groups follow no axes.
std::vector<std::string> AxesOfGroups(const Mesh& mesh, const TileAssignment& groups);
// The same for explicit pairs (collective-permute): the axes along which any pair moves.
std::vector<std::string> AxesOfPairs(const Mesh& mesh, std::span<const DevicePair> pairs);

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_MESHES_H_
