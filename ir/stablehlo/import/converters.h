// The converters that rows of ops.def name. One family of operations a file: import_<family>.cc.
#ifndef GSHARD_IR_STABLEHLO_IMPORT_CONVERTERS_H_
#define GSHARD_IR_STABLEHLO_IMPORT_CONVERTERS_H_

#include "ir/attributes.h"
#include "ir/stablehlo/import/op_table.h"

namespace gshard::stablehlo {

// Declares each converter once: rows that share one repeat its declaration.
#define GSHARD_STABLEHLO_OP(name, opcode, converter) bool converter(Importer&, const Operation&);
#include "ir/stablehlo/import/ops.def"
#undef GSHARD_STABLEHLO_OP

// Direction and type of a comparison.
bool ReadComparison(Importer& in, const Operation& op, CompareAttributes& attributes);

}  // namespace gshard::stablehlo

#endif  // GSHARD_IR_STABLEHLO_IMPORT_CONVERTERS_H_
