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

// Is all that is made of `reshaped`, element by element, made of it and of broadcasts alone, up to
// sums and further reshapes? The compiler does that under the shape before.
bool MovesBehind(const Instruction* reshaped, const Users& users) {
  constexpr size_t kMaxValues = 32;
  std::vector<const Instruction*> values = {reshaped};
  const auto is_one = [&](const Instruction* x) {
    return std::ranges::find(values, x) != values.end();
  };
  for (size_t i = 0; i < values.size(); ++i) {
    if (values.size() > kMaxValues) return false;
    for (const Instruction* user : users.of(values[i])) {
      if (user->opcode() == Opcode::kReduce || user->opcode() == Opcode::kReshape || is_one(user))
        continue;
      if (!IsElementwise(user->opcode())) return false;
      values.push_back(user);
    }
  }
  const auto is_given = [&](const Instruction* x) {
    return is_one(x) || x->opcode() == Opcode::kBroadcast || x->opcode() == Opcode::kReshape ||
           x->opcode() == Opcode::kConstant || x->opcode() == Opcode::kIota;
  };
  return std::all_of(values.begin() + 1, values.end(), [&](const Instruction* x) {
    return std::ranges::all_of(x->operands(), is_given);
  });
}

// Is x computed, element by element, from reshapes of arrays of dims `dims` and from broadcasts
// alone? The compiler computes it under those dims.
bool MovesBefore(const Instruction* x, const std::vector<int64_t>& dims) {
  constexpr size_t kMaxValues = 32;
  std::vector<const Instruction*> values = {x};
  bool any = false;
  for (size_t i = 0; i < values.size(); ++i) {
    const Instruction* value = values[i];
    if (value->opcode() == Opcode::kReshape) {
      if (DimsOverOne(*value->operand(0)->shape()) != dims) return false;
      any = true;
    } else if (IsElementwise(value->opcode()) && values.size() <= kMaxValues) {
      values.insert(values.end(), value->operands().begin(), value->operands().end());
    } else if (value->opcode() != Opcode::kBroadcast && value->opcode() != Opcode::kConstant &&
               value->opcode() != Opcode::kIota) {
      return false;
    }
  }
  return any;
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
      return DimsOverOne(*x->shape()) != dims && !MovesBehind(user, users) && !MovesBefore(x, dims);
    }
    default:  // takes x's work into its kernel, or does not
      return false;
  }
}

bool IsUpdatedBy(const Instruction* user, const Instruction* x) {
  int64_t arrays = user->opcode() == Opcode::kScatter ? (user->operand_count() - 1) / 2 : 1;
  for (int64_t i = 0; i < arrays; ++i) {
    if (user->operand(i) == x) return true;
  }
  return false;
}

}  // namespace gshard
