// The operations of StableHLO, CHLO and Shardy: one row each, in ops.def.
#ifndef GSHARD_IR_STABLEHLO_IMPORT_OP_TABLE_H_
#define GSHARD_IR_STABLEHLO_IMPORT_OP_TABLE_H_

#include <span>
#include <string_view>

#include "ir/opcode.h"
#include "ir/stablehlo/syntax/syntax.h"

namespace gshard::stablehlo {

class Importer;

// Adds what stands for the operation to the importer's computation and defines its results. False
// after an error.
using Converter = bool (*)(Importer&, const Operation&);

struct OpRow {
  std::string_view name;  // "stablehlo.add"
  Opcode opcode;          // that it becomes, or the main one of those
  Converter convert;
};

std::span<const OpRow> AllRows();
// By the name in the text; `mhlo.` stands for `stablehlo.`. Null: no such operation.
const OpRow* FindRow(std::string_view name);

// Is `value` a constant of the text, or one that is broadcast?
inline bool IsConstant(const Value& value) {
  if (value.definition == nullptr || value.definition->row == nullptr) return false;
  const Opcode opcode = value.definition->row->opcode;
  return opcode == Opcode::kConstant ||
         (opcode == Opcode::kBroadcast && value.definition->operands.size() == 1 &&
          IsConstant(*value.definition->operands[0]));
}

}  // namespace gshard::stablehlo

#endif  // GSHARD_IR_STABLEHLO_IMPORT_OP_TABLE_H_
