#include "core/pipeline/rows/row_function.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "ir/dims.h"
#include "ir/equality.h"

namespace gshard::pipeline {
namespace {

// Values that are looked at for one function. Longer ones, such as an optimizer's iterations on a
// matrix, are not worth computing on stages that get the result.
constexpr size_t kMaxValues = 256;
constexpr int kMaxOwnDepth = 8;

std::span<const int64_t> Dimensions(const Instruction* x) {
  return x->attributes<DimensionsAttributes>().dimensions;
}

// Made of numbers in the text and scalar parameters alone.
bool IsOwn(const Instruction* x, int depth = kMaxOwnDepth) {
  if (x->opcode() == Opcode::kConstant || x->opcode() == Opcode::kIota) return true;
  if (x->opcode() == Opcode::kParameter) return x->shape()->IsArray() && x->shape()->rank() == 0;
  const bool is_plain = IsElementwise(x->opcode()) || x->opcode() == Opcode::kBroadcast ||
                        x->opcode() == Opcode::kReshape;
  return is_plain && depth > 0 && x->sharding() == nullptr &&
         std::ranges::all_of(x->operands(),
                             [&](const Instruction* from) { return IsOwn(from, depth - 1); });
}

// The slice of one whole row.
bool TakesRow(const Instruction* x) {
  return x->opcode() == Opcode::kSlice && IsRowOf(x->shape(), x->operand(0)->shape());
}

std::vector<int64_t> WideDims(Dims dims) {
  std::vector<int64_t> wide(dims.begin(), dims.end());
  std::erase(wide, 1);
  return wide;
}

class Reader {
 public:
  explicit Reader(const RowRules& rules) : rules_(rules) {}

  std::optional<RowFunction> Read(Instruction* x) {
    if (!Visit(x)) return std::nullopt;
    // Rows get the first numbers.
    const auto count = static_cast<int>(function_.rows.size());
    for (RowFunction::Step& step : function_.steps) {
      for (int& operand : step.operands) {
        if (operand != RowFunction::kOwn) operand = Index(operand, count);
      }
    }
    return std::move(function_);
  }

 private:
  // While it is read, row r is 2r and step s is 2s + 1.
  static int Index(int number, int rows) {
    return number % 2 == 0 ? number / 2 : rows + number / 2;
  }

  // The number of a value; not set if it is no function of rows.
  std::optional<int> Visit(Instruction* x) {
    if (const auto known = number_.find(x); known != number_.end()) return known->second;
    if (number_.size() >= kMaxValues) return std::nullopt;
    std::optional<int>& found = number_[x];
    std::optional<int> number;
    if (TakesRow(x) && rules_.is_stack(x->operand(0))) {
      number = 2 * static_cast<int>(function_.rows.size());
      function_.rows.push_back({x->operand(0), x->attributes<SliceAttributes>().starts[0]});
    } else if (MayBeStep(x)) {
      number = VisitStep(x);
    }
    return found = number;
  }

  std::optional<int> VisitStep(Instruction* x) {
    std::vector<int> operands;
    for (Instruction* operand : x->operands()) {
      operands.push_back(RowFunction::kOwn);
      if (IsOwn(operand)) continue;
      const std::optional<int> number = Visit(operand);
      if (!number) return std::nullopt;
      operands.back() = *number;
    }
    const bool has_scalar = x->opcode() == Opcode::kReduce || x->opcode() == Opcode::kPad;
    const bool starts_with_row = has_scalar && operands[1] != RowFunction::kOwn;
    const bool has_rows =
        std::ranges::any_of(operands, [](int number) { return number != RowFunction::kOwn; });
    if (!has_rows || starts_with_row) return std::nullopt;
    function_.steps.push_back({x, std::move(operands)});
    return 2 * static_cast<int>(function_.steps.size() - 1) + 1;
  }

  bool MayBeStep(const Instruction* x) const {
    if (x->sharding() != nullptr) return x->opcode() == Opcode::kCopy && rules_.is_placed(x);
    switch (x->opcode()) {
      case Opcode::kReshape:
      case Opcode::kTranspose:
      case Opcode::kConvert:
      case Opcode::kCopy:
      case Opcode::kSlice:
      case Opcode::kBroadcast:
      case Opcode::kConcatenate:
      case Opcode::kPad:
      case Opcode::kReverse:
      case Opcode::kDot:
        return true;
      case Opcode::kReduce:
        return x->operand_count() == 2;
      default:  // elementwise, or none
        return IsElementwise(x->opcode());
    }
  }

  const RowRules& rules_;
  RowFunction function_;
  std::unordered_map<const Instruction*, std::optional<int>> number_;
};

bool SameOwn(const Instruction* x, const Instruction* y, int depth = kMaxOwnDepth) {
  if (x == y) return true;
  return depth > 0 && x->operand_count() > 0 && x->shape()->bare() == y->shape()->bare() &&
         x->operand_count() == y->operand_count() && SameButFrontendAttributes(*x, *y) &&
         std::ranges::equal(
             x->operands(), y->operands(),
             [&](const Instruction* a, const Instruction* b) { return SameOwn(a, b, depth - 1); });
}

bool SameStep(const RowFunction::Step& a, const RowFunction::Step& b) {
  const Instruction *x = a.x, *y = b.x;
  if (x->opcode() != y->opcode() || a.operands != b.operands) return false;
  if (x->shape()->bare() != y->shape()->bare() || x->sharding() != y->sharding()) return false;
  for (int64_t i = 0; i < x->operand_count(); ++i) {
    if (a.operands[At(i)] == RowFunction::kOwn && !SameOwn(x->operand(i), y->operand(i))) {
      return false;
    }
  }
  // Frontend attributes say which stage uses that row.
  return SameButFrontendAttributes(*x, *y);
}

// The product of each row's matrices.
Instruction* DotOfRows(Builder& b, const Instruction* x, std::span<Instruction* const> operands,
                       const Shape* shape) {
  DotAttributes dot = x->attributes<DotAttributes>();
  for (Dims* batch : {&dot.lhs_batch, &dot.rhs_batch}) {
    *batch = b.Copy(Prepended(0, OneLater(*batch)));
  }
  dot.lhs_contracting = b.Copy(OneLater(dot.lhs_contracting));
  dot.rhs_contracting = b.Copy(OneLater(dot.rhs_contracting));
  return b.Add(Opcode::kDot, operands, dot, shape);
}

Instruction* ElementsOfRows(Builder& b, const RowFunction::Step& step,
                            std::vector<Instruction*> operands, const Shape* shape) {
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool is_own = step.operands[i] == RowFunction::kOwn;
    // A clamp's bounds and a select's predicate are scalars for all elements.
    const bool is_scalar = step.x->operand(static_cast<int64_t>(i))->shape()->rank() == 0;
    const bool is_for_all = is_scalar && step.x->shape()->rank() > 0;
    const int64_t by_row[] = {0};
    if (is_own && !is_for_all) {
      operands[i] = OnRows(b, operands[i], shape->dim(0));
    } else if (!is_own && is_for_all) {
      operands[i] = b.Broadcast(operands[i], shape->dims(), by_row);
    }
  }
  Instruction* made = b.CloneWith(step.x, operands, shape);
  made->set_frontend_attributes("");
  return made;
}

Instruction* PadOfRows(Builder& b, const Instruction* x, std::span<Instruction* const> operands) {
  const std::span<const PadDim> own = x->attributes<PadAttributes>().padding;
  std::vector<PadDim> dims(own.begin(), own.end());
  dims.insert(dims.begin(), PadDim{});
  return b.Pad(operands[0], operands[1], dims);
}

// `operands`: of rows with `lead` rows before their dims; own ones as they are.
Instruction* StepOfRows(Builder& b, const RowFunction::Step& step,
                        std::vector<Instruction*> operands, int64_t lead) {
  const Instruction* of = step.x;
  Instruction* x = operands[0];
  const Shape* shape =
      b.context().Array(of->shape()->dtype(), Prepended(lead, of->shape()->dims()));
  const auto all_of_rows = [&] {
    for (size_t i = 0; i < operands.size(); ++i) {
      if (step.operands[i] == RowFunction::kOwn) operands[i] = OnRows(b, operands[i], lead);
    }
    return std::span<Instruction* const>(operands);
  };
  switch (of->opcode()) {
    case Opcode::kCopy:
      return x;
    case Opcode::kReshape:
      return b.Reshape(x, shape->dims());
    case Opcode::kTranspose:
      return b.Transpose(x, Prepended(0, OneLater(Dimensions(of))));
    case Opcode::kBroadcast:
      return b.Broadcast(x, shape->dims(), Prepended(0, OneLater(Dimensions(of))));
    case Opcode::kSlice: {
      const auto& slice = of->attributes<SliceAttributes>();
      return b.Slice(x, Prepended(0, slice.starts), Prepended(lead, slice.limits),
                     Prepended(1, slice.strides));
    }
    case Opcode::kReduce:
      return b.Reduce(x, operands[1], OneLater(Dimensions(of)), of->called(0));
    case Opcode::kConcatenate:
      return b.Concatenate(all_of_rows(), Dimensions(of)[0] + 1);
    case Opcode::kPad:
      return PadOfRows(b, of, operands);
    case Opcode::kReverse: {
      const DimensionsAttributes reversed{b.Copy(OneLater(Dimensions(of)))};
      return b.Add(Opcode::kReverse, operands, reversed, shape);
    }
    case Opcode::kDot:
      return DotOfRows(b, of, all_of_rows(), shape);
    default:  // element by element
      return ElementsOfRows(b, step, std::move(operands), shape);
  }
}

}  // namespace

bool RowFunction::KeepsDims() const {
  if (rows.size() != 1) return false;
  const std::vector<int64_t> dims = WideDims(rows[0].source->shape()->dims().subspan(1));
  std::vector<bool> keeps = {true};
  for (const Step& step : steps) {
    const Opcode opcode = step.x->opcode();
    const bool is_plain =
        opcode == Opcode::kReshape || opcode == Opcode::kCopy || IsElementwise(opcode);
    keeps.push_back(is_plain && WideDims(step.x->shape()->dims()) == dims &&
                    std::ranges::any_of(step.operands, [&](int operand) {
                      return operand != kOwn && keeps[static_cast<size_t>(operand)];
                    }));
  }
  return keeps.back();
}

std::optional<RowFunction> RowFunctionOf(Instruction* x, const RowRules& rules) {
  return Reader(rules).Read(x);
}

bool SameSteps(const RowFunction& a, const RowFunction& b) {
  return a.rows.size() == b.rows.size() && std::ranges::equal(a.steps, b.steps, SameStep);
}

Instruction* OnRows(Builder& b, Instruction* x, int64_t lead) {
  std::vector<int64_t> dimensions(x->shape()->dims().size());
  std::iota(dimensions.begin(), dimensions.end(), 1);
  return b.Broadcast(x, Prepended(lead, x->shape()->dims()), dimensions);
}

Instruction* OfRows(Builder& b, const RowFunction& function, std::span<Instruction* const> rows,
                    const std::function<Instruction*(Instruction*, const Instruction*)>& place) {
  std::vector<Instruction*> values(rows.begin(), rows.end());
  const int64_t lead = values[0]->shape()->dim(0);
  for (const RowFunction::Step& step : function.steps) {
    std::vector<Instruction*> operands;
    for (size_t i = 0; i < step.operands.size(); ++i) {
      const int from = step.operands[i];
      operands.push_back(from == RowFunction::kOwn ? step.x->operand(static_cast<int64_t>(i))
                                                   : values[static_cast<size_t>(from)]);
    }
    const bool is_placed = step.x->opcode() == Opcode::kCopy && step.x->sharding() != nullptr;
    values.push_back(is_placed ? place(operands[0], step.x)
                               : StepOfRows(b, step, std::move(operands), lead));
  }
  return values.back();
}

}  // namespace gshard::pipeline
