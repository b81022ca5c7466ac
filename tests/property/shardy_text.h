// Placements as Shardy's attributes say them: by axes and parts of axes of the program's mesh.
#ifndef GSHARD_TESTS_PROPERTY_SHARDY_TEXT_H_
#define GSHARD_TESTS_PROPERTY_SHARDY_TEXT_H_

#include <string>

#include "tests/property/program.h"

namespace gshard::property {

// The frontend attribute xla.sdy.meshes of a module's header: the mesh with axes "a", "b", ...
std::string ShardyMeshesText(const Sizes& mesh);

// What is printed behind an instruction: its annotation as xla.sdy.sharding, and for one
// instruction of five as `sharding=` too, as XLA prints it; what a region's border says; the tiled
// sharding of what is in a region. Begins with ", " if it is not empty. `is_output`: it holds
// values, not summands.
std::string ShardyText(const Program& program, const Node& node, bool is_output);

// A line of the value's sharding group; empty if it is in none.
std::string ShardyGroupText(const Node& node, const std::string& name);

}  // namespace gshard::property

#endif  // GSHARD_TESTS_PROPERTY_SHARDY_TEXT_H_
