// What a layer's own weights are made of: a function of rows of stacked arrays.
//
// Weights of L layers that a loop takes are rows of parameters [L, ..]. What a step makes of a row
// before the layer uses it is the same function for all layers, of that row and perhaps of rows of
// other parameters: a cast, or a quantized weight, whose scale follows from the row's largest
// value, or a product of low-rank factors that is added to the row. A function is applied to the
// rows of all layers at once, too, which then may lie on different devices.
//
//   s = slice(w)[3:4]   c = reshape(s)   m = reduce(abs(c))   q = divide(c, broadcast(m))
//   rows: w, 3          steps: reshape, abs, reduce, broadcast, divide
#ifndef GSHARD_CORE_PIPELINE_ROWS_ROW_FUNCTION_H_
#define GSHARD_CORE_PIPELINE_ROWS_ROW_FUNCTION_H_

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "ir/builder.h"

namespace gshard::pipeline {

struct SourceRow {
  Instruction* source = nullptr;
  int64_t row = 0;
};

struct RowFunction {
  // An operation on values before it. `operands`: of each the index, rows first, then steps; or
  // kOwn, where it is the operation's own, made of numbers in the text and scalar parameters: the
  // same for all rows and on all devices.
  struct Step {
    const Instruction* x = nullptr;
    std::vector<int> operands;
  };
  static constexpr int kOwn = -1;

  std::vector<SourceRow> rows;
  std::vector<Step> steps;  // the last makes the value; none: it is rows[0] itself

  // Is a dim of the value, but for dims of size 1, the same dim of its only row?
  bool KeepsDims() const;
};

// `is_stack`: may rows of an array be taken? `is_placed`: is a copy with a sharding a step?
struct RowRules {
  std::function<bool(const Instruction*)> is_stack;
  std::function<bool(const Instruction*)> is_placed;
};
// Not set if `x` is no such function, or one of very many operations.
std::optional<RowFunction> RowFunctionOf(Instruction* x, const RowRules& rules);

// Do both compute the same of their rows? What rows they are does not count.
bool SameSteps(const RowFunction& a, const RowFunction& b);

// The function of N rows at once: of each of its rows an array [N, ..], with the dims of a row [1,
// ..] behind the first. `place`: of a step that is a copy with a sharding, the same of all rows.
Instruction* OfRows(Builder& b, const RowFunction& function, std::span<Instruction* const> rows,
                    const std::function<Instruction*(Instruction*, const Instruction*)>& place);

// A value on each of `lead` rows: [lead, ..].
Instruction* OnRows(Builder& b, Instruction* x, int64_t lead);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_ROWS_ROW_FUNCTION_H_
