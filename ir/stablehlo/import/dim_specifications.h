// What jax.export says of the dims that it leaves open: "args[0].shape = (b, 2*s + 1, 8)" in the
// messages of its shape assertions.
#ifndef GSHARD_IR_STABLEHLO_IMPORT_DIM_SPECIFICATIONS_H_
#define GSHARD_IR_STABLEHLO_IMPORT_DIM_SPECIFICATIONS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gshard::stablehlo {

// Sizes that the user gives to dims: {"batch", 16}, or by place {"arg0:0", 16}.
using DimSizes = std::map<std::string, int64_t, std::less<>>;

// The dims of each argument that has an open one, in the order of the arguments; empty where the
// message has no such sentence.
std::vector<std::vector<std::string>> SpecificationsIn(std::string_view message);

// Is it a variable by itself?
bool IsDimVariable(std::string_view specification);

// The size that a specification means: integers, variables, +, -, *, ^, floordiv, mod, max and min.
// Nothing if a variable has no size, which `missing` then names, or if it cannot be read.
std::optional<int64_t> EvaluateDim(std::string_view specification, const DimSizes& sizes,
                                   std::string* missing = nullptr);

}  // namespace gshard::stablehlo

#endif  // GSHARD_IR_STABLEHLO_IMPORT_DIM_SPECIFICATIONS_H_
