// See moved_values.h.

#include "core/analysis/kernels/moved_values.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "ir/op_traits.h"

namespace gshard {
namespace {

bool HasStrides(const Instruction& slice) {
  return std::ranges::any_of(slice.attributes<SliceAttributes>().strides,
                             [](int64_t stride) { return stride != 1; });
}

std::vector<int64_t> DimsOverOne(const Shape& shape) {
  std::vector<int64_t> dims;
  std::ranges::copy_if(shape.dims(), std::back_inserter(dims), [](int64_t dim) { return dim > 1; });
  return dims;
}

constexpr size_t kMaxValues = 64;

// A list without repetitions, which grows while it is walked.
bool AddOnce(const Instruction* x, std::vector<const Instruction*>& values) {
  if (std::ranges::find(values, x) == values.end()) values.push_back(x);
  return values.size() <= kMaxValues;
}

// Is all that is made of `reshaped`, element by element, and what that is made of besides, made of
// reshapes and of broadcasts alone, up to sums and further reshapes? The compiler does that under
// the shape before.
bool MovesBehind(const Instruction* reshaped, const Users& users) {
  std::vector<const Instruction*> values = {reshaped};
  for (size_t i = 0; i < values.size(); ++i) {
    for (const Instruction* user : users.of(values[i])) {
      if (user->opcode() == Opcode::kReduce || user->opcode() == Opcode::kReshape) continue;
      if (!IsElementwise(user->opcode()) || !AddOnce(user, values)) return false;
    }
    if (i == 0) continue;
    for (const Instruction* operand : values[i]->operands()) {
      const bool is_given =
          operand->opcode() == Opcode::kBroadcast || operand->opcode() == Opcode::kReshape ||
          operand->opcode() == Opcode::kConstant || operand->opcode() == Opcode::kIota;
      if (is_given) continue;
      if (!IsElementwise(operand->opcode()) || !AddOnce(operand, values)) return false;
    }
  }
  return true;
}

// Is x computed, element by element, from reshapes of arrays of dims `dims` and from broadcasts
// alone? The compiler computes it under those dims.
bool MovesBefore(const Instruction* x, const std::vector<int64_t>& dims) {
  std::vector<const Instruction*> values = {x};
  bool any = false;
  for (size_t i = 0; i < values.size(); ++i) {
    const Instruction* value = values[i];
    if (value->opcode() == Opcode::kReshape) {
      if (DimsOverOne(*value->operand(0)->shape()) != dims) return false;
      any = true;
    } else if (IsElementwise(value->opcode())) {
      for (const Instruction* operand : value->operands()) {
        if (!AddOnce(operand, values)) return false;
      }
    } else if (value->opcode() != Opcode::kBroadcast && value->opcode() != Opcode::kConstant &&
               value->opcode() != Opcode::kIota) {
      return false;
    }
  }
  return any;
}

// The dims before the last of the array that `x` has as the rows of a matrix, where tiles of eight
// rows stay whole; empty: it is no such matrix.
Dims MergedRows(const Instruction& x) {
  constexpr int64_t kRowsOfTile = 8;
  if (x.opcode() != Opcode::kReshape || x.shape()->rank() != 2) return {};
  const Dims array = x.operand(0)->shape()->dims();
  if (array.size() < 3 || array.back() != x.shape()->dim(1)) return {};
  const Dims rows = array.first(array.size() - 1);
  return rows.back() % kRowsOfTile == 0 ? rows : Dims();
}

// Do all that read `product`, or its sum over devices, split its first or last dim into `rows`?
bool IsSplitAgain(const Instruction* product, Dims rows, bool is_first, const Users& users) {
  const auto& readers = users.of(product);
  return !readers.empty() && std::ranges::all_of(readers, [&](const Instruction* reader) {
    if (reader->opcode() == Opcode::kAllReduce && reader->shape()->IsArray()) {
      return IsSplitAgain(reader, rows, is_first, users);
    }
    const Dims dims = reader->shape()->dims();
    if (reader->opcode() != Opcode::kReshape || dims.size() <= rows.size()) return false;
    return std::ranges::equal(is_first ? dims.first(rows.size()) : dims.last(rows.size()), rows);
  });
}

// Is operand `side` of a product of matrices one of MergedRows, and is the merge undone: the
// results go back to these dims, or it sums over rows that the other operand has in the same dims?
bool UndoesMerge(const Instruction& product, int64_t side, Dims rows, const Users& users) {
  const auto& dims = product.attributes<DotAttributes>();
  const bool is_lhs = side == 0;
  const auto& own = is_lhs ? dims.lhs_contracting : dims.rhs_contracting;
  const auto& others = is_lhs ? dims.rhs_contracting : dims.lhs_contracting;
  if (own.size() != 1) return false;
  if (own[0] == 1) return IsSplitAgain(&product, rows, is_lhs, users);
  const Instruction& other = *product.operand(1 - side);
  return others[0] == 0 && std::ranges::equal(MergedRows(other), rows);
}

// Does `reshaped` merge rows for products alone that undo it? The compiler multiplies the array as
// it was (x.reshape(-1, width) @ w, reshaped back).
bool IsMergedForProducts(const Instruction* reshaped, const Users& users) {
  const Dims rows = MergedRows(*reshaped);
  const auto& readers = users.of(reshaped);
  return !rows.empty() && !readers.empty() &&
         std::ranges::all_of(readers, [&](const Instruction* reader) {
           if (reader->opcode() != Opcode::kDot) return false;
           for (int64_t side = 0; side < 2; ++side) {
             if (reader->operand(side) != reshaped) continue;
             if (!UndoesMerge(*reader, side, rows, users)) return false;
           }
           return true;
         });
}

}  // namespace

bool IsMovedAlone(const Instruction& x) {
  switch (x.opcode()) {
    case Opcode::kGather:
    case Opcode::kReverse:
      return true;
    case Opcode::kSlice:
      return HasStrides(x);
    case Opcode::kPad:
      return std::ranges::any_of(x.attributes<PadAttributes>().padding,
                                 [](const PadDim& dim) { return dim.interior > 0; });
    default:  // computed by the kernel that uses it, or no move of data
      return false;
  }
}

bool IsReadFromMemory(const Instruction* x, const Instruction* user, const Users& users) {
  switch (user->opcode()) {
    case Opcode::kPad:
    case Opcode::kConcatenate:
    case Opcode::kReverse:
      return true;
    case Opcode::kDynamicSlice:
      return user->operand(0) == x;
    case Opcode::kSlice:
      return users.of(x).size() > 1 || HasStrides(*user);
    case Opcode::kReshape:
    case Opcode::kBitcast: {
      const std::vector<int64_t> dims = DimsOverOne(*user->shape());
      return DimsOverOne(*x->shape()) != dims && !IsMergedForProducts(user, users) &&
             !MovesBehind(user, users) && !MovesBefore(x, dims);
    }
    default:  // takes x's work into its kernel, or does not
      return false;
  }
}

const Shape* ShapeInMemory(const Instruction* x, const Users& users) {
  const auto of_x = users.of(x);
  if (!IsElementwise(x->opcode()) || of_x.empty() || of_x[0]->opcode() != Opcode::kReshape)
    return x->shape();
  const std::vector<int64_t> dims = DimsOverOne(*of_x[0]->shape());
  const bool is_other = std::ranges::all_of(of_x, [&](const Instruction* user) {
    return user->opcode() == Opcode::kReshape && DimsOverOne(*user->shape()) == dims;
  });
  return is_other && DimsOverOne(*x->shape()) != dims && MovesBefore(x, dims) ? of_x[0]->shape()
                                                                              : x->shape();
}

bool IsUpdatedBy(const Instruction* user, const Instruction* x) {
  int64_t arrays = user->opcode() == Opcode::kScatter ? (user->operand_count() - 1) / 2 : 1;
  for (int64_t i = 0; i < arrays; ++i) {
    if (user->operand(i) == x) return true;
  }
  return false;
}

}  // namespace gshard
