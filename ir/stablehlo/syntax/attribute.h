// Values of attributes in MLIR text: integers, booleans, strings, words of enumerations, lists,
// dictionaries, `array<..>` and `dense<..>` of integers. Readers return false, without an error,
// for text of another form.
#ifndef GSHARD_IR_STABLEHLO_SYNTAX_ATTRIBUTE_H_
#define GSHARD_IR_STABLEHLO_SYNTAX_ATTRIBUTE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/literal.h"
#include "ir/stablehlo/syntax/syntax.h"

namespace gshard::stablehlo {

// "3 : i64", "-3".
bool ReadInteger(std::string_view text, int64_t& value);
// "2.0e+00 : f32", "0x7F800000 : f32".
bool ReadNumber(std::string_view text, double& value);
// "true", "false"; nothing (a unit attribute) is true.
bool ReadBoolean(std::string_view text, bool& value);
// "\"a\\0Ab\"" -> a, newline, b.
bool ReadString(std::string_view text, std::string& value);
// The last word of "#stablehlo<precision DEFAULT>", "#stablehlo.x<DEFAULT>", "DEFAULT".
std::string_view WordOf(std::string_view text);
// The elements of "[a, b]", at depth 0.
bool SplitList(std::string_view text, std::vector<std::string_view>& elements);
// The fields of "{a = 1, b}", "<a = 1>", "#dialect.name<a = 1>".
bool SplitFields(std::string_view text, std::vector<NamedAttribute>& fields);
std::string_view FieldOf(std::span<const NamedAttribute> fields, std::string_view key);

// Integers of "[1, 0]", "array<i64: 1, 2>", "dense<..> : tensor<2xi64>" in row-major order. `dims`:
// those of a dense tensor's type, else {count}.
bool ReadIntegers(std::string_view text, std::vector<int64_t>& values,
                  std::vector<int64_t>* dims = nullptr);

// "dense<..>" as a literal of the array type `shape`, null if the text does not fit; `why` says
// what is wrong, `where` in which part of the text.
struct DenseError {
  std::string why;
  std::string_view where;
};
const Literal* ReadDense(Arena& arena, std::string_view text, const Shape* shape,
                         const ViewMap<std::string_view>& resources, DenseError& error);

}  // namespace gshard::stablehlo

#endif  // GSHARD_IR_STABLEHLO_SYNTAX_ATTRIBUTE_H_
