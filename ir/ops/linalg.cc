// Attribute text of the linalg family (see ir/attribute_table.h).
#include <cstddef>

#include "ir/attribute_table.h"

namespace gshard {
namespace {

using enum AttributeKind;

constexpr std::string_view kTransposes[] = {"NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};

constexpr AttributeRow kCholesky[] = {
    Attribute("lower", kBool, offsetof(CholeskyAttributes, lower)).Optional(),
};
constexpr AttributeRow kTriangularSolve[] = {
    Attribute("left_side", kBool, offsetof(TriangularSolveAttributes, left_side)).Optional(),
    Attribute("lower", kBool, offsetof(TriangularSolveAttributes, lower)).Optional(),
    Attribute("unit_diagonal", kBool, offsetof(TriangularSolveAttributes, unit_diagonal))
        .Optional(),
    Attribute("transpose_a", kEnum, offsetof(TriangularSolveAttributes, transpose_a))
        .Words(kTransposes)
        .AlwaysPrinted(),
};

}  // namespace

std::span<const OpcodeAttributes> LinalgRows() {
  static constexpr OpcodeAttributes kTable[] = {
      {Opcode::kCholesky, kCholesky},
      {Opcode::kTriangularSolve, kTriangularSolve},
  };
  return kTable;
}

}  // namespace gshard
