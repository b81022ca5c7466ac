// See moved_values.h.

#include "core/analysis/kernels/moved_values.h"

#include <algorithm>
#include <vector>

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
    case Opcode::kBitcast:
      return DimsOverOne(*x->shape()) != DimsOverOne(*user->shape()) &&
             !std::ranges::all_of(users.of(user), [](const Instruction* reader) {
               return reader->opcode() == Opcode::kReduce;
             });
    default:  // takes x's work into its kernel, or does not
      return false;
  }
}

}  // namespace gshard
