// Constraints on layouts, spread along operations on elements. See minor_dims.h.

#include "core/cost/memory/minor_dims.h"

#include <algorithm>
#include <span>

#include "ir/attributes.h"
#include "ir/dims.h"
#include "ir/op_traits.h"

namespace gshard {
namespace {

constexpr int64_t kMaxRank = 32;  // bits of a mask

uint32_t BitOf(int64_t dim) { return dim < kMaxRank ? uint32_t{1} << dim : 0; }

bool IsTiled(const Instruction* x) {
  return x->shape()->IsArray() && x->shape()->rank() > 1 && x->shape()->rank() <= kMaxRank;
}

// These dims are the two most minor: of one that is longer than 1 the most minor. None: nothing is
// required.
template <typename IsOne>
MinorDims Among(const Shape* shape, IsOne is_one) {
  uint32_t dims = 0;
  int count = 0;
  for (int64_t d = 0; d < shape->rank(); ++d) {
    if (shape->dim(d) <= 1 || !is_one(d)) continue;
    dims |= BitOf(d);
    ++count;
  }
  if (count == 0) return {};
  return {dims, count == 1 ? ~dims : dims};
}

// Dims of an operand or a result of a batched product that are not of the batch.
MinorDims OutsideBatch(const Shape* shape, std::span<const int64_t> batch) {
  return Among(shape, [&](int64_t d) { return !Contains(batch, d); });
}

// Of a convolution's operand or result: its examples and features, or a kernel's features.
MinorDims Features(const Shape* shape, int64_t a, int64_t b) {
  const uint32_t features = BitOf(a) | BitOf(b);
  return shape->rank() <= kMaxRank ? MinorDims{features, features} : MinorDims{};
}

// Are the dims of x those of its first operand?
bool KeepsDims(Opcode opcode) {
  switch (opcode) {
    case Opcode::kSlice:
    case Opcode::kDynamicSlice:
    case Opcode::kDynamicUpdateSlice:
    case Opcode::kPad:
    case Opcode::kConcatenate:
    case Opcode::kCopy:
    case Opcode::kReverse:
      return true;
    default:  // what computes element by element
      return IsElementwise(opcode);
  }
}

// Masks of the operand of a transpose as those of its result, or the other way round.
MinorDims Transposed(const Instruction* transpose, MinorDims dims, bool to_result) {
  const auto& order = transpose->attributes<DimensionsAttributes>().dimensions;
  MinorDims made{0, 0};
  for (size_t i = 0; i < order.size(); ++i) {
    const int64_t result = static_cast<int64_t>(i), operand = order[i];
    const int64_t from = to_result ? operand : result, to = to_result ? result : operand;
    if ((dims.first & BitOf(from)) != 0) made.first |= BitOf(to);
    if ((dims.second & BitOf(from)) != 0) made.second |= BitOf(to);
  }
  return made;
}

}  // namespace

ComputationMinorDims::ComputationMinorDims(const Computation& computation, const Users& users) {
  const std::span<Instruction* const> list = computation.instructions();
  if (list.empty()) return;
  uint32_t last_id = 0;
  first_id_ = UINT32_MAX;
  for (const Instruction* x : list) {
    first_id_ = std::min(first_id_, x->id());
    last_id = std::max(last_id, x->id());
  }
  dims_.resize(last_id - first_id_ + 1);
  for (const Instruction* x : list) {
    if (IsTiled(x)) Constrain(x);
  }
  for (const Instruction* x : list) TakeFromOperands(x);
  for (size_t i = list.size(); i-- > 0;) {
    for (const Instruction* user : users.of(list[i])) TakeFromUser(list[i], user);
  }
}

void ComputationMinorDims::Constrain(const Instruction* x) {
  if (x->opcode() == Opcode::kGather) {
    const auto& gather = x->attributes<GatherAttributes>();
    Set(x, Among(x->shape(), [&](int64_t d) { return Contains(gather.offset_dims, d); }));
    ConstrainOperand(x->operand(0), Among(x->operand(0)->shape(), [&](int64_t d) {
                       return gather.slice_sizes[static_cast<size_t>(d)] > 1;
                     }));
  } else if (x->opcode() == Opcode::kScatter) {
    const auto& scatter = x->attributes<ScatterAttributes>();
    const MinorDims rows = Among(x->shape(), [&](int64_t d) {
      return !Contains(scatter.inserted_window_dims, d) &&
             !Contains(scatter.input_batching_dims, d);
    });
    Set(x, rows);
    ConstrainOperand(x->operand(0), rows);
    ConstrainOperand(x->operand(2), Among(x->operand(2)->shape(), [&](int64_t d) {
                       return Contains(scatter.update_window_dims, d);
                     }));
  } else if (x->opcode() == Opcode::kDot) {
    const auto& dot = x->attributes<DotAttributes>();
    if (dot.lhs_batch.empty()) return;
    ConstrainOperand(x->operand(0), OutsideBatch(x->operand(0)->shape(), dot.lhs_batch));
    ConstrainOperand(x->operand(1), OutsideBatch(x->operand(1)->shape(), dot.rhs_batch));
    std::vector<int64_t> batch(dot.lhs_batch.size());
    for (size_t i = 0; i < batch.size(); ++i) batch[i] = static_cast<int64_t>(i);
    Set(x, OutsideBatch(x->shape(), batch));
  } else if (x->opcode() == Opcode::kConvolution) {
    const auto& dims = x->attributes<ConvolutionAttributes>();
    const Shape *input = x->operand(0)->shape(), *kernel = x->operand(1)->shape();
    ConstrainOperand(x->operand(0), Features(input, dims.input_batch, dims.input_feature));
    ConstrainOperand(x->operand(1),
                     Features(kernel, dims.kernel_input_feature, dims.kernel_output_feature));
    Set(x, Features(x->shape(), dims.output_batch, dims.output_feature));
  }
}

// What lies in the order of another value keeps it, however it pads its own dims.
void ComputationMinorDims::Set(const Instruction* x, MinorDims dims) {
  if (!dims.IsFree()) At(x) = LeastPadded(x->shape(), dims);
}

// Parameters and parts of tuples have places of their own, from which they are copied.
void ComputationMinorDims::ConstrainOperand(const Instruction* operand, MinorDims dims) {
  const bool is_made_here =
      operand->opcode() != Opcode::kParameter && operand->opcode() != Opcode::kGetTupleElement;
  if (IsTiled(operand) && is_made_here && At(operand).IsFree()) Set(operand, dims);
}

void ComputationMinorDims::TakeFromOperands(const Instruction* x) {
  if (!IsTiled(x) || !At(x).IsFree()) return;
  if (x->opcode() == Opcode::kTranspose) {
    if (!At(x->operand(0)).IsFree()) At(x) = Transposed(x, At(x->operand(0)), true);
    return;
  }
  if (!KeepsDims(x->opcode())) return;
  for (const Instruction* operand : x->operands()) {
    // What a gather or scatter has made is copied.
    const bool is_by_rows =
        operand->opcode() == Opcode::kGather || operand->opcode() == Opcode::kScatter;
    if (is_by_rows || !IsTiled(operand) || operand->shape()->rank() != x->shape()->rank()) continue;
    if (At(operand).IsFree()) continue;
    At(x) = At(operand);
    return;
  }
}

void ComputationMinorDims::TakeFromUser(const Instruction* x, const Instruction* user) {
  if (!IsTiled(x) || !At(x).IsFree() || !IsTiled(user) || At(user).IsFree()) return;
  if (x->opcode() == Opcode::kParameter || x->opcode() == Opcode::kGetTupleElement) return;
  if (user->opcode() == Opcode::kTranspose) {
    At(x) = Transposed(user, At(user), false);
  } else if (KeepsDims(user->opcode()) && x->shape()->rank() == user->shape()->rank()) {
    At(x) = At(user);
  }
}

}  // namespace gshard
