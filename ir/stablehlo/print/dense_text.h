// Literals and types as MLIR text.
#ifndef GSHARD_IR_STABLEHLO_PRINT_DENSE_TEXT_H_
#define GSHARD_IR_STABLEHLO_PRINT_DENSE_TEXT_H_

#include <string>

#include "ir/literal.h"

namespace gshard::stablehlo {

// "tensor<4x?x8xf32>", "!stablehlo.token", "tuple<..>".
void AppendType(std::string& out, const Shape* shape);
// "dense<..>" of an array: nested lists, or bytes for more than 100 elements. Reads back bit for
// bit.
void AppendDense(std::string& out, const Literal& literal);
// "1.500000e+00": a number that MLIR reads as this double.
void AppendNumber(std::string& out, double value);
// In quotes, with MLIR's escapes.
std::string QuotedMlir(std::string_view text);

}  // namespace gshard::stablehlo

#endif  // GSHARD_IR_STABLEHLO_PRINT_DENSE_TEXT_H_
