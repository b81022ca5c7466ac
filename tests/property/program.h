// A random program as the property test sees it: small enough to be changed and printed at will.
//
// Nodes are in an order that respects dependences. The entry is bodies[0]; called bodies follow.
// Scalar combiners (of reduce, sort, ..) are kept as text by name.
#ifndef GSHARD_TESTS_PROPERTY_PROGRAM_H_
#define GSHARD_TESTS_PROPERTY_PROGRAM_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ir/dtype.h"
#include "ir/opcode.h"

namespace gshard::property {

using Sizes = std::vector<int64_t>;

int64_t Product(const Sizes& sizes);

struct ArrayType {
  DType dtype = DType::kF32;
  Sizes dims;
  bool operator==(const ArrayType&) const = default;
  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
};

// How one array lies on the mesh.
struct Placement {
  enum class Kind : uint8_t { kNone, kReplicated, kMaximal, kTiled, kManual };
  Kind kind = Kind::kNone;
  int64_t device = 0;                     // kMaximal
  Sizes mesh;                             // kTiled: axis sizes, product = devices
  std::vector<std::vector<size_t>> dims;  // kTiled: mesh axes that cut each dim, major first
  std::vector<size_t> manual;             // kTiled: mesh axes of a manual subgroup
  bool unreduced = false;  // kTiled: devices along the other axes hold summands instead of copies
  Sizes order;             // the devices in the mesh's order; empty: 0, 1, 2, ..
  // Of Shardy's programs: dims that may take more axes, the priorities of dims, axes that may cut
  // none. `mesh` may then divide axes of the program's mesh, and no more than that.
  std::vector<bool> open;
  Sizes priorities;
  std::vector<size_t> replicated;
};

struct Node {
  Opcode opcode = Opcode::kAdd;
  std::vector<ArrayType> types;  // leaves; one unless `tuple`
  bool tuple = false;
  std::vector<size_t> operands;
  std::string payload;                // between the parentheses of a constant
  std::string attributes;             // printed after the operands, begins with ", " if not empty
  std::string combiner;               // name of the to_apply computation; empty: none
  std::vector<size_t> called;         // bodies of while (condition, body), conditional, call
  std::vector<Placement> placements;  // per leaf; empty: no sharding
  bool in_region = false;             // of one device: other operations must not take it
  std::vector<size_t> border_axes;    // of a border in Shardy's form: what is manual inside
  bool in_group = false;              // of the program's sharding group, in Shardy's programs
  bool is_choice = false;  // a copy of operand 1; in the text without shardings, of operand 0
  uint32_t id = 0;         // unique in the program; kept when the program is shrunk
  // For the analysis of magnitudes.
  int64_t index = 0;  // get-tuple-element
  int64_t fold = 1;   // elements that one result element sums up
  Opcode fold_opcode = Opcode::kAdd;
  double magnitude = 0;      // constants, iota: largest absolute value
  bool is_identity = false;  // a constant that a fold starts from and nothing else takes
  bool integral = true;      // constants
  int64_t trips = 0;         // while
  bool trips_vary = false;   // while: there may be fewer

  const ArrayType& type() const { return types[0]; }
};

struct Body {
  std::vector<Node> nodes;
  size_t root = 0;
};

struct Program {
  std::vector<Body> bodies;
  std::map<std::string, std::string> combiners;  // name -> text
  int64_t devices = 1;
  Sizes mesh;
  bool propagate_to_output = false;
  bool propagate_to_parameters = false;
  bool has_nan = false;  // in its inputs
  bool shardy = false;   // annotations are Shardy's, by axes of the mesh
  uint32_t next_id = 0;

  Body& entry() { return bodies[0]; }
  const Body& entry() const { return bodies[0]; }
};

std::string ShapeText(const ArrayType& type);
std::string PlacementText(const Placement& placement);

// HLO text. Nodes and bodies that the root does not need are left out, entry parameters too.
// `shardings` off: of one device, without any annotation.
std::string ToText(const Program& program, bool shardings = true);

// Removes nodes that the root of their body does not need and bodies nobody calls (parameters of
// called bodies stay).
void RemoveUnused(Program& program);

}  // namespace gshard::property

#endif  // GSHARD_TESTS_PROPERTY_PROGRAM_H_
